"""Algorithm 5 of MP-MTL: the corrected density is epsilon-DP, the printed one is not and says so."""

import math

import numpy as np
import pytest
from scipy import stats

from taskveil.errors import OptionError
from taskveil.privacy.certificate import build_certificate
from taskveil.privacy.contributions import DiagonalSum, OuterSum, RowSum, VectorSum
from taskveil.privacy.mechanisms.laplace import l2_laplace
from taskveil.privacy.mechanisms.model_laplace import ModelLaplace, PaperModelLaplace
from taskveil.privacy.plan import Budget, Request, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise, system_noise
from taskveil.privacy.release import MemoryAccount, release
from taskveil.privacy.units import Neighbours


def planned(contribution, variant="sound", rounds=1, epsilon=1.0):
    budget = Budget(epsilon, 1e-5, aggregation="local-model", variant=variant)
    return make_plan([Request("s", t + 1, contribution) for t in range(rounds)], budget)


@pytest.mark.statistical
def test_the_norm_of_the_noise_is_gamma():
    """KS at 1e-6 on 20,000 draws for d = 6, eps = 0.5, K = 1; the printed density fails it."""
    mechanism = ModelLaplace.calibrated(VectorSum((6,), 1.0), Neighbours.REPLACE_ONE, 0.5)
    stream = insecure_seeded_noise(0).at(0, "b")
    right = [np.linalg.norm(mechanism.noise((6,), stream)) for _ in range(20_000)]
    printed = [np.linalg.norm(l2_laplace(0.5 / 2, (6,), stream)) for _ in range(2_000)]
    law = stats.gamma(6, scale=2 / 0.5)
    assert stats.kstest(right, law.cdf).pvalue > 1e-6
    assert stats.kstest(printed, law.cdf).pvalue < 1e-6


def test_smaller_epsilon_means_more_noise_unlike_the_printed_density():
    contribution = OuterSum(4, 1.0)
    scales = [ModelLaplace.calibrated(contribution, Neighbours.REPLACE_ONE, e).scale for e in (0.1, 1.0, 10.0)]
    assert scales[0] > scales[1] > scales[2]
    assert scales[1] == pytest.approx(2.0)
    assert ModelLaplace.calibrated(contribution, Neighbours.ADD_REMOVE, 1.0).scale == pytest.approx(1.0)


def test_the_density_ratio_never_exceeds_epsilon():
    """Direct check of the theorem on a line of outputs; the printed scale violates it."""
    epsilon, bound = 0.7, 1.0
    scale = ModelLaplace.calibrated(VectorSum((2,), bound), Neighbours.REPLACE_ONE, epsilon).scale
    w, v = np.array([1.0, 0.0]), np.array([-1.0, 0.0])
    outputs = np.random.default_rng(0).normal(scale=5.0, size=(2000, 2))
    gap = np.linalg.norm(outputs - v, axis=1) - np.linalg.norm(outputs - w, axis=1)
    assert np.abs(gap / scale).max() <= epsilon
    assert np.abs(gap / (epsilon / (2 * bound))).max() > epsilon


@pytest.mark.parametrize("contribution", [OuterSum(3, 0.5), DiagonalSum(3, 0.5), VectorSum((3,), 0.5)])
def test_noisy_models_are_clipped_again(contribution):
    """Whatever the noise, the total stays within what the tasks' bounds allow."""
    plan = planned(contribution, epsilon=0.01)
    account = MemoryAccount()
    account.reserve(plan)
    bounded = contribution.clip(np.ones((9, *contribution.message_shape)))
    value = release(plan.releases[0], bounded, account, system_noise(), "local-model").value
    largest = 9 * contribution.sensitivity(Neighbours.ADD_REMOVE).l2
    assert np.linalg.norm(contribution.to_vector(value)) <= largest * (1 + 1e-9)


def test_the_sound_certificate_protects_against_the_server():
    plan = planned(OuterSum(4, 1.0), rounds=3)
    made = build_certificate("low-rank", plan, system_noise().describe())
    assert made.verify() and [s.observer for s in made.statements] == ["other-tasks", "server"]
    assert plan.epsilon() <= 1.0


def test_the_printed_algorithm_is_marked_as_false():
    plan = planned(OuterSum(4, 1.0), variant="paper", rounds=3)
    assert isinstance(plan.releases[0].mechanism, PaperModelLaplace)
    made = build_certificate("low-rank", plan, system_noise().describe())
    assert not made.holds and not made.verify()
    assert all("(2K)^2/eps" in s.reason for s in made.statements)


def test_the_printed_algorithm_computes_lines_4_to_6():
    """Nearly no noise at a tiny epsilon (that is its fault): the sum of outer products plus a Wishart
    matrix."""
    contribution = OuterSum(3, 1.0)
    plan = planned(contribution, variant="paper", epsilon=1e-4)
    mechanism = plan.releases[0].mechanism
    bounded = contribution.clip(np.random.default_rng(0).normal(size=(20, 1, 3)))
    source = insecure_seeded_noise(4)
    account = MemoryAccount()
    account.reserve(plan)
    value = release(plan.releases[0], bounded, account, source, "local-model").value
    wishart = mechanism.noise((3, 3), source.at(1, "s"))
    shown = value - wishart - contribution.total(bounded)
    assert np.abs(shown).max() < 1e-2 * np.abs(contribution.total(bounded)).max() * math.sqrt(20)


def test_units_and_aggregations_are_checked():
    with pytest.raises(OptionError):
        make_plan([Request("s", 1, OuterSum(3, 1.0))], Budget(1.0, 1e-5, mechanism="model-laplace"))
    with pytest.raises(OptionError):
        make_plan([Request("s", 1, OuterSum(3, 1.0))], Budget(1.0, 1e-5, mechanism="gaussian", aggregation="local-model"))
    assert not ModelLaplace.accepts(RowSum((3,), 1.0))
