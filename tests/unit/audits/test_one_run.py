"""One-run audits through the public estimator, on made-up and on given tables, with planted faults."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support import audit_faults as faults

import taskveil as tv
from taskveil.audits.canary_tasks import PAIRS
from taskveil.audits.one_run import fit_with_canaries
from taskveil.errors import OptionError
from taskveil.tasks.task import TaskSet

SIZES = {"canaries": 100, "tasks": 250, "features": 120}


def table(n=60, d=20):
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(n * 6, d)), np.repeat([f"t{i:02d}" for i in range(n)], 6)
    return X, X @ rng.normal(size=d), task


@pytest.mark.parametrize("fault", [faults.noise_halved, faults.clipping_off])
def test_a_planted_fault_is_refuted_and_the_correct_run_is_not(fault):
    est = tv.TaskRegressor("dp-aggr", epsilon=4.0, delta=1e-5)
    good = tv.audit(est, one_run=True, seed=1, **SIZES)
    with fault():
        bad = tv.audit(est, one_run=True, seed=1, **SIZES)
    assert not good.refuted and bad.refuted
    assert bad.lower_bound > good.lower_bound


@pytest.mark.parametrize("method", ["mean", "dp-aggr", "relationship"])
def test_messages_that_nobody_bounds_are_refuted_on_a_table_whose_columns_every_task_scales(method):
    """Each task divides columns by their spread, so long rows make no long message; columns that nearly repeat each other do."""
    est = tv.TaskRegressor(method, epsilon=4.0, delta=1e-5)
    good = tv.audit(est, table(40, 80), one_run=True, canaries=80, seed=1)
    with faults.clipping_off():
        bad = tv.audit(est, table(40, 80), one_run=True, canaries=80, seed=1)
    assert (good.refuted, bad.refuted) == (False, True)
    assert good.details["shape"] == PAIRS


def test_the_outlook_knows_how_long_canaries_messages_are():
    """With a strength the model of a canary is half as long as the clip: what its plan allows would promise too much."""
    short = tv.audit(tv.TaskRegressor(tv.methods.get("mean", rounds=1, strength=1.0), epsilon=4.0, delta=1e-5), table(40, 80),
                     one_run=True, canaries=80, seed=1)  # fmt: skip
    full = tv.audit(tv.TaskRegressor(tv.methods.get("mean", rounds=1), epsilon=4.0, delta=1e-5), table(40, 80),
                    one_run=True, canaries=80, seed=1)  # fmt: skip
    assert short.details["outlook"]["power"] < 0.3 and full.details["outlook"]["power"] > 0.6


def test_forgotten_composition_is_refuted():
    est = tv.TaskRegressor(tv.methods.get("mean", strength=1.0, rounds=5), epsilon=4.0, delta=1e-5)
    assert not tv.audit(est, one_run=True, seed=2, **SIZES).refuted
    with faults.round_not_charged():
        assert tv.audit(est, one_run=True, seed=2, **SIZES).refuted


def test_bound_threshold_and_estimate_are_told_apart():
    result = tv.audit(tv.TaskRegressor("mean", epsilon=4.0, delta=1e-5), one_run=True, seed=1, **SIZES)
    assert result.details["threshold_bound"] < result.lower_bound < 4.0 < 2 * result.details["estimate"]
    assert "no bound" in str(result) and "f-DP theorem" in str(result)
    assert result.alarm == 0.05


def test_the_real_tasks_part_is_taken_out_of_the_scores():
    """60 real tasks of length up to 1 in the sum would drown the canaries; with their part taken out guesses are good."""
    est = tv.TaskRegressor(tv.methods.get("mean", rounds=1), epsilon=100.0, delta=1e-5)
    result = tv.audit(est, table(), one_run=True, canaries=20, seed=3)
    assert result.details["correct"] == result.details["guesses"] and result.details["estimate"] > 10
    assert "your table" in result.note


def test_a_fit_with_canaries_carries_its_audit_in_its_certificate():
    tasks = TaskSet.from_arrays(*table(), kind="regression")
    said = []
    est = fit_with_canaries(tv.TaskRegressor("mean", epsilon=2.0, delta=1e-5), tasks, 20, said.append)
    assert len(said) == 1 and "one-run audit with 20 canary tasks beside 60" in said[0]
    assert est.record_.public.n_tasks == 80 and len(est.task_names_) == 60
    assert est.certificate_.audit["trials"] == 1 and est.certificate_.verify()
    assert "one run with canary tasks" in str(est.certificate_)


@pytest.mark.parametrize(
    "params, match",
    [
        ({"method": "mean", "epsilon": None}, "no claim"),
        ({"method": "mean", "unit": "record"}, "unit='task'"),
        ({"method": "group-sparse"}, "no sum of vectors"),
        ({"method": "async"}, "told apart"),
        ({"method": "local"}, "shares nothing"),
        ({"method": tv.methods.get("mean", rate=0.5, strength=1.0)}, "sampled"),
        ({"method": "mean", "epsilon": {"*": 1.0}}, "per task"),
        ({"method": "mean", "aggregation": "local"}, "curator"),
    ],
)
def test_what_cannot_be_audited_in_one_run_is_refused(params, match):
    with pytest.raises(OptionError, match=match):
        tv.audit(tv.TaskRegressor(**{"epsilon": 1.0, **params}), one_run=True, canaries=20, seed=0)
