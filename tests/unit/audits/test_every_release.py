"""The bound from single releases: a correct run keeps below its claim, too little noise does not, by Gaussian DP."""

from __future__ import annotations

from contextlib import ExitStack

import numpy as np
import pytest
from scipy.stats import norm
from tests.support import audit_faults as faults

import taskveil as tv
from taskveil.audits.both_worlds import _epsilon, every_release_visible, step_bounds
from taskveil.audits.configured import audit_configured
from taskveil.audits.methods import audit_estimator, prepare, simulation_of
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.guarantees import gaussian_epsilon
from taskveil.privacy.plan import Budget, Request, make_plan

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_many_scores_of_a_release_give_back_its_mu_from_below():
    """200,000 scores half a mu to either side of the middle, of 10 releases: at most 10 % below the curve, never above."""
    requests = [Request("r", t, VectorSum((3,), 1.0)) for t in range(1, 11)]
    plan = make_plan(requests, Budget(4.0, 1e-5))
    mu = 1 / plan.releases[0].event.noise_multiplier
    rng = np.random.default_rng(0)
    scores = [rng.normal(side * mu / 2, 1.0, size=(20_000, 10)) for side in (-1, 1)]
    found, truth = _epsilon(plan, scores, 1e-5, 0.05), gaussian_epsilon(1e-5, mu * np.sqrt(10))
    assert 0.9 * truth < found < truth
    assert norm.cdf(mu / 2) == pytest.approx(float((scores[1] > 0).mean()), abs=0.01)


def four() -> tv.TaskRegressor:
    return tv.TaskRegressor(tv.methods.get("mean", strength=1.0, rounds=2), epsilon=4.0, delta=1e-5)


@pytest.mark.parametrize("faulty", [False, True])
def test_a_quarter_of_the_noise_is_refuted_release_by_release_and_the_right_noise_is_not(faulty):
    """100 runs of two releases; on correct code the bound lies above the claim with probability at most 1e-7."""
    with ExitStack() as planted:
        for _ in range(2 * faulty):
            planted.enter_context(faults.noise_halved())
        worlds, _ = prepare(simulation_of(four()), "largest", 2, "releases")
        found = step_bounds(worlds, 100, 1, 1e-5)
    assert (found["refutation_bound"] > 4.0) == faulty
    assert found["runs"] == 100 and found["releases"] == 2 and found["refutation_bound"] <= found["lower_bound"]


def test_the_bound_is_printed_with_what_it_assumes():
    found = audit_estimator(four(), trials=20, seed=1, view="releases", n_tasks=2)
    assert found.every_release["releases"] == 2 and "if their noise is Gaussian" in str(found)


def rows_table():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(48, 2)), np.repeat(np.arange(6), 8)
    return X, X @ np.array([1.0, -1.0]), task


@pytest.mark.parametrize("faulty", [False, True])
def test_an_audit_from_the_raw_table_has_the_bound_too(faulty):
    """`audit fit --view releases`: 60 runs of each neighbour; a quarter of the noise is refuted release by release."""
    with ExitStack() as planted:
        for _ in range(2 * faulty):
            planted.enter_context(faults.noise_halved())
        est = tv.TaskRegressor(tv.methods.get("mean", rounds=4), epsilon=4.0, delta=1e-5)
        found = audit_configured(est, rows_table(), trials=60, seed=1, view="releases")
    assert found.every_release["releases"] == 4 and "from each of 4 release(s)" in str(found)
    assert (found.every_release["refutation_bound"] > 4.0) == faulty == found.refuted


def test_rows_are_not_taken_for_tasks():
    """Unit record: gradients are clipped and summed in one go, so single releases have no score of their own."""
    est = tv.TaskRegressor(tv.methods.get("mean", rounds=1), epsilon=4.0, delta=1e-5, unit="record", scaling="none")
    assert audit_estimator(est, trials=20, seed=1, view="releases", n_tasks=2).every_release is None


def test_only_observers_who_see_all_releases_get_the_bound():
    plan = make_plan([Request("r", 1, VectorSum((3,), 1.0))], Budget(1.0, 1e-5))
    assert every_release_visible(plan, "server", True, "synchronous")
    assert not every_release_visible(plan, "other-tasks", True, "synchronous")
    sampled = make_plan([Request("r", 1, VectorSum((3,), 1.0), rate=0.5)], Budget(1.0, 1e-5))
    assert not every_release_visible(sampled, "server", True, "synchronous")
