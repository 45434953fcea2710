"""Numbers of the private core against closed forms that fit on a line."""

from __future__ import annotations

import math

import numpy as np
import pytest

from taskveil.privacy.accountants import ACCOUNTANTS
from taskveil.privacy.accountants.base import composition_bound
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.events import CappedEvent, Charge, PureEvent, SelectEvent
from taskveil.privacy.guarantees import gaussian_delta, gaussian_epsilon, gaussian_mu
from taskveil.privacy.mechanisms.gaussian import Gaussian
from taskveil.privacy.mechanisms.laplace import Laplace
from taskveil.privacy.randomness import grid
from taskveil.privacy.secure_events import SharedGaussianEvent

SHARED = SharedGaussianEvent(2.0, 1e-9, 1e-12)  # noise multiplier, total variation, probability of failure


def test_what_can_go_wrong_in_a_run_counts_for_every_release_of_every_run_of_a_selection():
    event = SelectEvent((Charge(SHARED, 3),), 4.0)
    assert event.slack() == pytest.approx(4 * 3 * 1e-9) and event.failure() == pytest.approx(4 * 3 * 1e-12)


def test_what_can_go_wrong_in_a_release_counts_although_it_is_capped():
    event = CappedEvent(SHARED, 2)
    assert (event.slack(), event.failure(), event.zcdp()) == (1e-9, 1e-12, 0.0)


@pytest.mark.parametrize("delta", [1e-3, 1e-5, 1e-9])
@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 10.0])
def test_noise_and_epsilon_are_rounded_to_the_safe_side(epsilon, delta):
    """On the curve itself, without any tolerance; and not by more than 1e-9 too safe."""
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(epsilon, mu) <= delta < gaussian_delta(epsilon, mu * (1 + 1e-9))
    back = gaussian_epsilon(delta, mu)
    assert gaussian_delta(back, mu) <= delta and back == pytest.approx(epsilon, rel=1e-8)


def test_failures_beyond_delta_leave_nothing_certified():
    accountant = ACCOUNTANTS.get("pure")
    assert accountant.read(np.array([1.0]), 0.0, 0.0) == 1.0 and accountant.read(np.array([1.0]), -1e-12, 0.0) == math.inf


def test_the_composition_bound_of_equal_releases_is_the_printed_one():
    """Def. 7 by hand, for 400 releases of 0.05 at delta 1e-5: the middle term is the smallest."""
    e, n, delta = 0.05, 400, 1e-5
    drift, squares = n * e * (math.exp(e) - 1) / (math.exp(e) + 1), n * e * e
    terms = [n * e, drift + math.sqrt(2 * squares * math.log(1 / delta))]
    terms.append(drift + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / delta)))
    for found in (ACCOUNTANTS.get("kairouz").epsilon([Charge(PureEvent(e), n)], delta), composition_bound([e] * n, delta)):
        assert found == pytest.approx(min(terms), rel=1e-12)
    assert terms[1] < terms[2] < terms[0]


def test_rounding_to_the_grid_is_charged_for_every_coordinate():
    """sqrt(n) g in l2 and n g in l1, at sizes where that is more than the general inflation of 1e-9."""
    wide, scale = VectorSum((10**12,), 1.0), 3.0
    assert Gaussian(scale).event(wide, "add-remove").noise_multiplier <= scale / (1 + 1e6 * grid(scale))
    assert Gaussian.calibrated(wide, "add-remove", 3.0).event(wide, "add-remove").noise_multiplier >= 3.0
    long = VectorSum((10**9,), 1.0)
    assert Laplace(scale).event(long, "add-remove").epsilon >= (math.sqrt(1e9) + 1e9 * grid(scale)) / scale
    assert Laplace.calibrated(long, "add-remove", 0.5).event(long, "add-remove").epsilon <= 0.5
