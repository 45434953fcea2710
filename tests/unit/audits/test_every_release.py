"""The bound from single releases: a correct run keeps below its claim, too little noise does not, by Gaussian DP."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import taskveil as tv
from taskveil.audits import faults
from taskveil.audits.every_release import _epsilon, every_release_visible
from taskveil.audits.methods import audit_estimator
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


@pytest.mark.parametrize("halved", [False, True])
def test_half_the_noise_is_refuted_release_by_release_and_the_right_noise_is_not(halved):
    est = tv.TaskRegressor(tv.methods.get("mean", strength=1.0, rounds=4), epsilon=4.0, delta=1e-5)
    with faults.noise_halved() if halved else pytest.MonkeyPatch.context():
        found = audit_estimator(est, trials=300, seed=1, view="releases", n_tasks=3)
    steps = found.every_release
    assert (steps["refutation_bound"] > 4.0) == halved == found.refuted
    assert steps["releases"] == 4 and "if their noise is Gaussian" in str(found)


def test_only_observers_who_see_all_releases_get_the_bound():
    plan = make_plan([Request("r", 1, VectorSum((3,), 1.0))], Budget(1.0, 1e-5))
    assert every_release_visible(plan, "server", True, "synchronous")
    assert not every_release_visible(plan, "other-tasks", True, "synchronous")
    sampled = make_plan([Request("r", 1, VectorSum((3,), 1.0), rate=0.5)], Budget(1.0, 1e-5))
    assert not every_release_visible(sampled, "server", True, "synchronous")
