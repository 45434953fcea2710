"""Numbers of the private core against closed forms that fit on a line."""

from __future__ import annotations

import math

import pytest

from taskveil.privacy.events import CappedEvent, Charge, SelectEvent
from taskveil.privacy.guarantees import gaussian_delta, gaussian_epsilon, gaussian_mu, record_budget_for_task
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


def test_a_group_of_records_shares_its_budget():
    """MP-MTL Prop. 3: (epsilon / n, delta / (n e^epsilon))."""
    assert record_budget_for_task(1.0, 1e-5, 10) == pytest.approx((0.1, 1e-6 / math.e))
