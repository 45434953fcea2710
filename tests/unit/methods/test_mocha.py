"""MOCHA as a baseline: same optimum with the fixed relationship, a learnt one where tasks differ in sign."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.svm_runs import related_block, run

import taskveil as tv
from taskveil.errors import OptionError
from taskveil.methods.mocha import Mocha
from taskveil.methods.private_mocha import learned_relationship
from taskveil.methods.svm.method import Svm


def test_the_fixed_relationship_has_the_optimum_of_the_svm():
    block = related_block(n_tasks=4)
    ours, theirs = (run(Svm(tol=1e-9), block).models, run(Mocha(relationship="mean", rounds=2000, tol=1e-6), block).models)
    np.testing.assert_allclose(theirs.coef, ours.coef, atol=1e-2)


def test_a_learnt_relationship_is_a_scaled_square_root():
    W = np.random.default_rng(0).standard_normal((5, 1, 3))
    sigma = learned_relationship(W, C2=2.0)
    assert np.trace(sigma) == pytest.approx(5 * 1.5)
    assert np.linalg.eigvalsh(sigma).min() > 0
    rows = W[:, 0]
    off = sigma @ sigma - np.diag(np.diag(sigma @ sigma))
    gram = rows @ rows.T
    corr = np.corrcoef(off[np.triu_indices(5, 1)], gram[np.triu_indices(5, 1)])[0, 1]
    assert corr > 0.99


def test_a_slow_node_does_less_work_and_nobody_is_dropped():
    from experiments.ponomarenko_2023.compute_times import ComputeTimes
    from experiments.ponomarenko_2023.waiting_rounds import run_with_stragglers
    from tests.support.svm_runs import NO_PRIVACY, public_of

    from taskveil.privacy.plan import make_plan
    from taskveil.privacy.randomness import insecure_seeded_noise
    from taskveil.runtime.run import Run

    block, method = related_block(n_tasks=4, rows=50), Mocha(rounds=3)
    public = public_of(block)
    plan = make_plan(method.requests(public, NO_PRIVACY), NO_PRIVACY)
    times = ComputeTimes(base=0.0, per_cell=1.0, spread=0.0, hardware=np.array([1.0, 2.0, 5.0, 10.0]))
    seen = []
    record = run_with_stragglers(
        Run(method, public, plan, source=insecure_seeded_noise(0)), block, times, wait=10.0 * block.n_features,
        partial_work=True, watcher=lambda tasks, state, view: seen.append(tasks.work.copy()),
    )  # fmt: skip
    assert all(a.all() for a in record.answered)
    np.testing.assert_array_equal(seen[0], [10, 20, 50, 50])


@pytest.mark.parametrize(
    "options", [{"relationship": "none"}, {"update_every": 0}, {"local_passes": 0}, {"C2": 0.0}, {"rounds": 0}]
)
def test_options_that_make_no_sense_are_refused(options):
    block = related_block(n_tasks=3)
    with pytest.raises(OptionError):
        tv.TaskClassifier(Mocha(**options), epsilon=None).fit(block.X, block.y[:, 0], task=block.task_of_row)


def test_the_private_form_releases_one_noisy_table_per_round():
    block = related_block(n_tasks=5)
    est = tv.TaskClassifier(Mocha(rounds=2), epsilon=2.0).fit(block.X, block.y[:, 0], task=block.task_of_row)
    assert [p.contribution.shape for p in est.record_.executed] == [(5, 1, 7)] * 2
    assert est.certificate_.holds
