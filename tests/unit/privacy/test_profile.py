"""The whole curve: closed forms, dp-accounting's own distributions, and twins that claim too little."""

from __future__ import annotations

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import norm

import taskveil as tv
from taskveil.errors import OptionError
from taskveil.privacy.events import Charge, GaussianEvent, SampledGaussianEvent
from taskveil.privacy.guarantees import gaussian_delta, gaussian_epsilon
from taskveil.privacy.profile import Curve, at_delta
from taskveil.privacy.units import Neighbours


def plans(number: int) -> list[list[Charge]]:
    rng = np.random.default_rng(number)
    z = rng.uniform(4.0, 20.0, size=3)
    counts = rng.integers(1, 4, size=3)
    charges = [Charge(GaussianEvent(float(a)), int(n)) for a, n in zip(z, counts)]
    if number % 2:
        charges[-1] = Charge(SampledGaussianEvent(float(z[2]) / 3, float(rng.uniform(0.05, 0.4)), Neighbours.ADD_REMOVE), 4)
    return charges


def reference(charges, pessimistic: bool):
    """dp-accounting alone, on a fine grid, rounded up or down."""
    options = {"pessimistic_estimate": pessimistic, "value_discretization_interval": 1e-3, "use_connect_dots": pessimistic}
    total = None
    for c in charges:
        rate = getattr(c.event, "rate", 1.0)
        one = pld.from_gaussian_mechanism(c.event.noise_multiplier, sampling_prob=rate, **options).self_compose(c.count)
        total = one if total is None else total.compose(one)
    return total


@pytest.mark.parametrize("number", range(20))
def test_the_curve_agrees_with_dp_accounting_and_is_never_below_its_optimistic_side(number):
    charges = plans(number)
    curve, above, below = Curve(charges), reference(charges, True), reference(charges, False)
    for delta in (1e-4, 1e-6):
        assert curve.epsilon(delta) == pytest.approx(above.get_epsilon_for_delta(delta), abs=1e-3)
        assert curve.epsilon(delta) >= below.get_epsilon_for_delta(delta) - 1e-9  # a true lower bound
        if (mu := curve.mu()) is not None:
            assert gaussian_epsilon(delta, mu) == pytest.approx(above.get_epsilon_for_delta(delta), abs=1e-3)
            assert gaussian_epsilon(delta, mu) >= below.get_epsilon_for_delta(delta) - 1e-9
    assert (curve.mu() is None) == bool(number % 2)  # both kinds of plan are among the twenty
    for epsilon in (0.3, 1.0):
        assert curve.delta(epsilon) == pytest.approx(above.get_delta_for_epsilon(epsilon), abs=1e-3)
        assert curve.delta(epsilon) >= below.get_delta_for_epsilon(epsilon) - 1e-12  # its transforms err by some 1e-14


def test_a_forgotten_release_is_below_the_optimistic_side():
    charges = plans(0)
    assert Curve(charges[:-1]).epsilon(1e-5) < reference(charges, False).get_epsilon_for_delta(1e-5)


def test_mu_of_gaussians_is_the_root_of_the_sum_of_squares_and_gives_the_trade_off():
    curve = Curve([Charge(GaussianEvent(2.0), 4), Charge(GaussianEvent(1.0))])
    assert curve.mu() == pytest.approx(np.sqrt(2.0))
    assert curve.rho() == pytest.approx(1.0)
    assert curve.delta(1.0) == pytest.approx(gaussian_delta(1.0, np.sqrt(2.0)))
    assert curve.misses(0.05, []) == pytest.approx(norm.cdf(norm.ppf(0.95) - np.sqrt(2.0)))


def test_sampled_gaussians_have_no_mu_and_their_misses_lie_below_those_of_the_true_curve():
    charges = [Charge(SampledGaussianEvent(1.0, 0.2, Neighbours.ADD_REMOVE), 5)]
    curve = Curve(charges)
    assert curve.mu() is None
    points = [(e, curve.delta(e)) for e in (0.0, 0.5, 1.0)]
    assert 0 < curve.misses(0.05, points) < 0.95


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(200, 4)), np.repeat(np.arange(20), 10)
    return tv.TaskRegressor("mean", epsilon=1.0, delta=1e-5).fit(X, X[:, 0], task=task)


def test_the_stated_point_lies_on_the_curve(fitted):
    profile = fitted.certificate_.profile()
    assert dict(profile.epsilons)[1e-5] == pytest.approx(1.0, rel=1e-2)
    assert dict(profile.epsilons)[1e-5] <= 1.0
    assert dict(profile.deltas)[1.0] <= 1e-5 * (1 + 1e-9)
    assert profile.right == pytest.approx(norm.cdf(profile.mu / 2))
    for part in ("one task holds", "replace-one", "what all other tasks together see", "5 % false alarms"):
        assert part in profile.words()


def test_a_restated_guarantee_keeps_its_sentence_and_grows_as_delta_falls(fitted):
    (at,), (stated,) = at_delta(fitted.certificate_, 1e-7), fitted.certificate_.statements
    assert at["epsilon"] > stated.epsilon
    assert (at["unit"], at["neighbours"], at["observer"], at["delta"]) == ("task", "replace-one", "other-tasks", 1e-7)
    with pytest.raises(OptionError, match="above 0"):
        at_delta(fitted.certificate_, 0.0)


def test_a_claim_that_does_not_hold_has_no_curve():
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(200, 4)), np.repeat(np.arange(20), 10)
    paper = tv.TaskRegressor("low-rank", epsilon=1.0, delta=1e-5, variant="paper").fit(X, X[:, 0], task=task).certificate_
    assert not paper.profile().holds and paper.profile().mu is None and not paper.profile().deltas
    assert at_delta(paper, 1e-6)[0]["epsilon"] is None


@pytest.mark.parametrize("mu", [0.268, 1.0, 5.0])
def test_an_epsilon_at_a_tiny_delta_is_never_too_small(mu):
    """Against the same formula in logarithms, where nothing vanishes; where digits are gone no epsilon is claimed."""
    for delta in (1e-30, 1e-200, 1e-299, 1e-305, 1e-310, 5e-324):
        epsilon = gaussian_epsilon(delta, mu)
        if np.isfinite(epsilon):
            first, second = norm.logcdf(mu / 2 - epsilon / mu), epsilon + norm.logcdf(-mu / 2 - epsilon / mu)
            assert first + np.log1p(-np.exp(second - first)) <= np.log(delta) + 1e-9
    assert np.isfinite(gaussian_epsilon(1e-299, mu)) and np.isinf(gaussian_epsilon(5e-324, mu))
