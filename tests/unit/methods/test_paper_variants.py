"""`variant="paper"` of low-rank and group-sparse computes what the paper prints, and its certificate says what is wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.support import mp_mtl_reference as reference
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.errors import OptionError
from taskveil.privacy.randomness import insecure_seeded_noise

ROUNDS, ETA, PENALTY, K, SEED, EPSILON, DELTA = 4, 0.3, 0.2, 0.8, 7, 1.0, 1e-3
MOMENTA = {"none": lambda t: 0.0, "accelerated": lambda t: (t - 1) / (t + 2)}


def fitted(name, momentum="accelerated", variant="paper", **options):
    method = tv.methods.get(name, rounds=ROUNDS, step=ETA, penalty=PENALTY, clip=K, momentum=momentum, start="zero", **options)
    tasks = related_tasks(n_tasks=9, rows=(6, 11), n_features=4)
    est = tv.TaskRegressor(
        method, epsilon=EPSILON, delta=DELTA, variant=variant, insecure_noise_seed=SEED, scaling="none", fit_intercept=False
    )
    return est.fit(tasks), tasks


def printed(name, tasks, momentum, plan):
    """The slow reference with the very same noise."""
    source = insecure_seeded_noise(SEED)

    def noise(t):
        release = next(p for p in plan.releases if p.round == t)
        d = tasks.n_features
        return release.mechanism.noise((d, d), source.at(t, release.name))

    def gradient(i, z):
        task = tasks[i]
        return task.X.T @ (task.X @ z - task.y) / task.n_rows

    algorithm = {"low-rank": reference.low_rank, "group-sparse": reference.group_sparse}[name]
    W0 = np.zeros((tasks.n_features, tasks.n_tasks))
    return algorithm(W0, gradient, noise, ROUNDS, ETA, PENALTY, K, MOMENTA[momentum]).T


@pytest.mark.parametrize("name", ["low-rank", "group-sparse"])
@pytest.mark.parametrize("momentum", ["none", "accelerated"])
def test_the_paper_variant_is_the_printed_algorithm(name, momentum):
    est, tasks = fitted(name, momentum)
    np.testing.assert_allclose(est.coef_, printed(name, tasks, momentum, est.record_.plan), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("name", ["low-rank", "group-sparse"])
def test_the_comparison_notices_a_changed_line(name):
    """The twin: another step size, and the two no longer agree."""
    est, tasks = fitted(name)
    expected = printed(name, tasks, "none", est.record_.plan)
    assert np.abs(est.coef_ - expected).max() > 1e-4


def test_the_paper_noise_is_wishart_with_the_printed_scale():
    est, _ = fitted("low-rank")
    scales = [p.mechanism.scale for p in est.record_.plan.releases]
    epsilons = [K**2 / (2 * c) for c in scales]
    assert reference.composition_bound(epsilons, DELTA) == pytest.approx(EPSILON, rel=1e-6)
    assert reference.composition_bound(epsilons, DELTA) <= EPSILON


@pytest.mark.parametrize("variant, sensitivity", [("paper", K**2), ("preprint", 2 * K)])
def test_the_preprint_takes_another_sensitivity(variant, sensitivity):
    est, _ = fitted("low-rank", variant=variant)
    release = est.record_.plan.releases[0]
    assert release.mechanism.scale == pytest.approx(sensitivity / (2 * release.event.claimed_epsilon))


@pytest.mark.parametrize("name", ["low-rank", "group-sparse", "low-rank-sparse", "relationship"])
def test_the_paper_certificate_says_that_the_claim_fails_and_by_how_much(name):
    tasks = related_tasks()
    est = tv.TaskRegressor(tv.methods.get(name, rounds=1), epsilon=1.0, delta=1e-5, variant="paper").fit(tasks)
    (statement,) = est.certificate_.statements
    assert statement.holds is False
    assert "Wishart" in statement.reason
    assert statement.delta_at_least == pytest.approx(1 - math.exp(-1.0), rel=1e-9)
    assert not est.certificate_.verify().ok


@pytest.mark.parametrize("name", ["low-rank", "group-sparse", "relationship", "subspace"])
def test_one_sided_wishart_noise_cannot_be_reached_from_a_sound_method(name):
    with pytest.raises(OptionError, match="not private"):
        tv.TaskRegressor(name, epsilon=1.0, mechanism="paper-wishart").fit(related_tasks())


def test_algorithm_four_as_printed_starts_with_a_doubled_model():
    method = tv.methods.get("low-rank-sparse", rounds=1, penalty=0.0, own_penalty=0.0, clip=100.0)
    tasks = related_tasks()
    est = tv.TaskRegressor(method, epsilon=1e6, delta=1e-5, variant="paper", insecure_noise_seed=0).fit(tasks)
    alone = tv.TaskRegressor("local", epsilon=None).fit(tasks)
    np.testing.assert_allclose(est.coef_, 2 * alone.coef_, rtol=1e-2, atol=1e-2)
