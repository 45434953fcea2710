"""The divergence formulas against brute force in one and two dimensions; every check rejects a claim that
is too good."""

import math

import numpy as np
import pytest
from scipy import stats
from tests.support.privacy_reference import kairouz_divergence

from taskveil.privacy.accountants import ACCOUNTANTS, best_epsilon
from taskveil.privacy.event_table import event_from_dict
from taskveil.privacy.events import Charge, GaussianEvent
from taskveil.privacy.guarantees import gaussian_delta
from taskveil.privacy.secure_events import (
    ROUNDING_VARIANCE,
    SharedGaussianEvent,
    SharedSkellamEvent,
    gaussian_share_distance,
    skellam_divergence,
    theta_error,
)

WIDE = np.arange(-900, 901)


def discrete_gaussian(variance: float) -> np.ndarray:
    mass = np.exp(-(WIDE.astype(float) ** 2) / (2 * variance))
    return mass / mass.sum()


def sum_of(share: np.ndarray, shares: int) -> np.ndarray:
    total = share
    for _ in range(shares - 1):
        total = np.convolve(total, share)[WIDE.size // 2 : -(WIDE.size // 2)]
    return total


def divergence(mass: np.ndarray, shift: int, order: float) -> float:
    p, q = mass[shift:], mass[:-shift]
    keep = (p > 1e-250) & (q > 1e-250)
    terms = order * np.log(p[keep]) + (1 - order) * np.log(q[keep])
    return float(np.logaddexp.reduce(terms)) / (order - 1)


@pytest.mark.parametrize("variance", [2.0, 20.0, 300.0])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_the_skellam_bound_holds_and_is_close(variance, shift):
    mass = stats.skellam(variance / 2, variance / 2).pmf(WIDE)
    for order in (2, 3, 8, 20):
        exact = divergence(mass, shift, order)
        bound = float(skellam_divergence(np.array([float(order)]), variance, shift, shift)[0])
        assert exact <= bound * (1 + 1e-9)
        if variance > 100:
            assert bound < 1.05 * exact
            # the twin: counting every share twice is caught
            assert exact > skellam_divergence(np.array([float(order)]), 2 * variance, shift, shift)[0]


@pytest.mark.parametrize("share_variance, shares", [(0.35, 4), (0.6, 3), (2.0, 6), (16.0, 3)])
def test_the_distributed_discrete_gaussian_bound_holds(share_variance, shares):
    mass = sum_of(discrete_gaussian(share_variance), shares)
    for shift in (1, 3):
        for order in (1.5, 2.0, 6.0):
            exact = divergence(mass, shift, order)
            bound = float(kairouz_divergence(np.array([order]), share_variance, shares, shift, shift, 1)[0])
            assert exact <= bound * (1 + 1e-9)
    forgotten = kairouz_divergence(np.array([2.0]), share_variance, shares + 1, 3, 3, 1)[0]
    if share_variance >= 2:  # the twin: counting one share too many is caught where the bound is tight
        assert divergence(mass, 3, 2.0) > forgotten


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(p - math.exp(epsilon) * q, 0).sum())


@pytest.mark.parametrize("share_variance, shares, shift", [(16.0, 1, 3), (16.0, 3, 5), (20.0, 5, 17), (40.0, 2, 12)])
def test_a_real_gaussian_of_slightly_less_variance_dominates_the_sum_of_discrete_ones(share_variance, shares, shift):
    """The proof in secure_events.py, checked in one dimension at many epsilons; one share too many is
    caught."""
    mass = sum_of(discrete_gaussian(share_variance), shares)
    p, q = mass[shift:], mass[:-shift]
    ideal = shift / math.sqrt(shares * share_variance - ROUNDING_VARIANCE)
    wrong = shift / math.sqrt((shares + 1) * share_variance - ROUNDING_VARIANCE)
    epsilons = np.linspace(0, 4, 60)
    exact = np.array([hockey_stick(p, q, e) for e in epsilons])
    assert np.all(exact <= [gaussian_delta(e, ideal) + 1e-13 for e in epsilons])
    assert np.any(exact > [gaussian_delta(e, wrong) + 1e-13 for e in epsilons])


def test_domination_holds_in_two_dimensions():
    mass = sum_of(discrete_gaussian(16.0), 2)
    narrow = slice(WIDE.size // 2 - 70, WIDE.size // 2 + 71)
    one = mass[narrow]
    joint = np.outer(one, one)
    p, q = joint[4:, 3:], joint[:-4, :-3]
    mu = 5 / math.sqrt(2 * 16.0 - ROUNDING_VARIANCE)
    for epsilon in np.linspace(0, 4, 30):
        assert hockey_stick(p, q, epsilon) <= gaussian_delta(epsilon, mu) + 1e-12


@pytest.mark.parametrize("variance", [0.5, 1.0, 5.0, 8.0])
def test_the_theta_function_is_as_constant_as_claimed(variance):
    j = np.arange(-400, 401)
    values = [np.exp(-((j - t) ** 2) / (2 * variance)).sum() for t in np.linspace(0, 1, 41)]
    ideal = math.sqrt(2 * math.pi * variance)
    assert max(abs(v / ideal - 1) for v in values) <= theta_error(variance) + 1e-14


def test_our_bound_and_the_published_one_agree_where_shares_are_wide():
    """Same Renyi curve up to the five grid steps of variance we give away."""
    orders = np.array([2.0, 8.0, 32.0])
    share, shares, shift = 400.0, 50, 300.0
    published = kairouz_divergence(orders, share, shares, shift * 20, shift, 400)
    ours = SharedGaussianEvent(math.sqrt(share * shares - ROUNDING_VARIANCE) / shift).rdp(orders)
    assert np.allclose(ours, published, rtol=5e-4) and np.all(ours >= published * (1 - 1e-12))
    assert gaussian_share_distance(share, shares, 10**6) < 1e-30


def test_the_skellam_curve_is_valid_between_integers_too():
    variance, shift = 30.0, 4
    mass = stats.skellam(variance / 2, variance / 2).pmf(WIDE)
    event = SharedSkellamEvent(variance, shift, shift)
    for order in (1.1, 1.5, 2.5, 7.3):
        assert divergence(mass, shift, order) <= event.rdp([order])[0] * (1 + 1e-9)


@pytest.mark.parametrize("name", ["gaussian", "rdp"])
def test_distance_is_added_to_delta(name):
    account = ACCOUNTANTS.get(name)
    clean, shared = Charge(GaussianEvent(4.0), 3), Charge(SharedGaussianEvent(4.0, 1e-7), 3)
    epsilon = account.epsilon([shared], 1e-5)
    assert epsilon > account.epsilon([clean], 1e-5)
    left = 1e-5 - (1 + math.exp(epsilon)) * 3e-7
    assert epsilon >= account.epsilon([clean], left)
    assert epsilon == pytest.approx(account.epsilon([clean], left), rel=1e-2)
    assert account.epsilon([Charge(SharedGaussianEvent(4.0, 1e-3))], 1e-5) == math.inf
    failing = Charge(SharedGaussianEvent(4.0, 0.0, 1e-6), 3)
    assert account.epsilon([failing], 1e-5) == account.epsilon([clean], 1e-5 - 3e-6)
    assert account.epsilon([Charge(SharedGaussianEvent(4.0, 0.0, 1e-3))], 1e-5) == math.inf


@pytest.mark.parametrize("event", [SharedGaussianEvent(3.0, 1e-20, 1e-12), SharedSkellamEvent(900.0, 50.0, 12.0, 1e-20, 1e-12)])
def test_events_survive_the_certificate(event):
    assert event_from_dict(event.to_dict()) == event
    assert best_epsilon([Charge(event, 2)], 1e-5)[0] > 0
