"""Accountants agree with closed forms, with slow references and with dp-accounting."""

from __future__ import annotations

import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld, rdp
from tests.support.privacy_reference import composition_bound_by_hand, optimal_pure_delta, optimal_pure_epsilon

from taskveil.errors import OptionError, UnknownName
from taskveil.privacy.accountants import ACCOUNTANTS, best_epsilon, candidates
from taskveil.privacy.accountants.base import DEFAULT_ORDERS, composition_bound, rdp_curve
from taskveil.privacy.accountants.pld import Pld
from taskveil.privacy.events import (
    Charge,
    GaussianEvent,
    PureEvent,
    SampledGaussianEvent,
    SelectEvent,
    UncertifiedEvent,
    ZeroEvent,
)
from taskveil.privacy.guarantees import gaussian_delta, rdp_to_epsilon

RELATION = dp_accounting.NeighboringRelation


def their_pld(event, count, delta, relation=RELATION.ADD_OR_REMOVE_ONE, interval=1e-4):
    accountant = pld.PLDAccountant(relation, interval)
    return accountant.compose(dp_accounting.SelfComposedDpEvent(event, count)).get_epsilon(delta)


@pytest.mark.parametrize("delta", [0.0, 1e-6, 1e-3, 0.1])
@pytest.mark.parametrize("epsilons", [[0.1] * 30, [1.0, 2.0, 3.0], [0.001] * 5, [0.01 * t**0.4 for t in range(1, 50)]])
def test_the_composition_bound_is_definition_7_term_by_term(epsilons, delta):
    assert composition_bound(epsilons, delta) == pytest.approx(composition_bound_by_hand(epsilons, delta), rel=1e-12)


def test_each_of_the_three_terms_of_definition_7_is_the_smallest_somewhere():
    few, many, middling = [1.0], [0.01] * 2000, [0.5] * 60
    assert composition_bound(few, 1e-6) == 1.0
    e, d = np.array(many), 1e-12
    third = (e * np.tanh(e / 2)).sum() + math.sqrt(2 * (e * e).sum() * math.log(math.e + math.sqrt((e * e).sum()) / d))
    second = (e * np.tanh(e / 2)).sum() + math.sqrt(2 * (e * e).sum() * math.log(1 / d))
    assert composition_bound(many, d) == pytest.approx(min(second, third)) and third < second
    m, d = np.array(middling), 1e-2
    assert composition_bound(middling, d) == pytest.approx(
        (m * np.tanh(m / 2)).sum() + math.sqrt(2 * (m * m).sum() * math.log(1 / d))
    )


MIXED = [0.1, 0.4, 0.2, 0.7, 0.3, 0.1, 0.5, 0.25]


def covers(claimed: float, epsilons: list[float], delta: float) -> bool:
    """Whether `claimed` really holds for composed randomised responses (exact, 2^T outcomes)."""
    return optimal_pure_delta(epsilons, claimed) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("name", ["pure", "kairouz", "zcdp", "rdp", "pld"])
@pytest.mark.parametrize("delta", [1e-5, 1e-2])
def test_no_accountant_claims_less_than_the_exact_composition_of_pure_events(name, delta):
    claimed = ACCOUNTANTS.get(name).epsilon([Charge(PureEvent(e)) for e in MIXED], delta)
    assert covers(claimed, MIXED, delta)


def test_the_check_rejects_an_accountant_that_forgets_one_of_the_events():
    claimed = ACCOUNTANTS.get("pld").epsilon([Charge(PureEvent(e)) for e in MIXED[:3] + MIXED[4:]], 1e-5)
    assert not covers(claimed, MIXED, 1e-5)


def test_pld_of_pure_events_is_the_optimal_composition():
    claimed = ACCOUNTANTS.get("pld").epsilon([Charge(PureEvent(0.3), 8)], 1e-5)
    assert claimed == pytest.approx(optimal_pure_epsilon([0.3] * 8, 1e-5), rel=1e-4)


@pytest.mark.parametrize("z", [2.0, 5.0, 40.0])
@pytest.mark.parametrize("count", [1, 30])
def test_gaussian_closed_form_agrees_with_dp_accounting(z, count):
    ours = ACCOUNTANTS.get("gaussian").epsilon([Charge(GaussianEvent(z), count)], 1e-5)
    theirs = their_pld(dp_accounting.GaussianDpEvent(z), count, 1e-5, interval=1e-3)
    assert ours == pytest.approx(theirs, rel=1e-3, abs=1e-4)
    assert gaussian_delta(ours, math.sqrt(count) / z) <= 1e-5


@pytest.mark.parametrize("name", ["zcdp", "rdp"])
def test_renyi_routes_are_above_the_exact_gaussian_curve_and_not_far(name):
    charges = [Charge(GaussianEvent(5.0), 30)]
    exact = ACCOUNTANTS.get("gaussian").epsilon(charges, 1e-5)
    assert exact <= ACCOUNTANTS.get(name).epsilon(charges, 1e-5) <= 1.15 * exact


def test_zcdp_and_rdp_agree_on_gaussians():
    charges = [Charge(GaussianEvent(5.0), 30)]
    assert ACCOUNTANTS.get("zcdp").epsilon(charges, 1e-5) == pytest.approx(
        ACCOUNTANTS.get("rdp").epsilon(charges, 1e-5), rel=1e-3
    )


SAMPLED = [(1.1, 0.01, 1000), (0.8, 0.1, 20), (4.0, 0.5, 100), (20.0, 1.0, 10)]


@pytest.mark.parametrize(("z", "rate", "count"), SAMPLED)
@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
def test_sampled_gaussians_agree_with_dp_accounting(z, rate, count, neighbours):
    relation = RELATION.ADD_OR_REMOVE_ONE if neighbours == "add-remove" else RELATION.REPLACE_ONE
    event = SampledGaussianEvent(z, rate, neighbours)
    ours = ACCOUNTANTS.get("pld").epsilon([Charge(event, count)], 1e-5)
    assert ours == pytest.approx(their_pld(event.dp_event(), count, 1e-5, relation, 5e-4), rel=2e-3)


def test_replace_one_without_sampling_is_a_gaussian_at_twice_the_distance():
    """Noise is relative to the clipping norm: z = 20 at distance 2 is z = 10 at distance 1."""
    sampled = ACCOUNTANTS.get("pld").epsilon([Charge(SampledGaussianEvent(20.0, 1.0, "replace-one"), 100)], 1e-5)
    assert sampled == pytest.approx(ACCOUNTANTS.get("gaussian").epsilon([Charge(GaussianEvent(10.0), 100)], 1e-5), rel=1e-3)


def test_dp_accounting_means_two_things_by_replace_one():
    """A trap: if this fails, dp-accounting has changed and our adapter must be re-read."""
    event = dp_accounting.SelfComposedDpEvent(dp_accounting.GaussianDpEvent(20.0), 100)
    renyi = rdp.RdpAccountant(neighboring_relation=RELATION.REPLACE_ONE).compose(event).get_epsilon(1e-5)
    losses = their_pld(dp_accounting.GaussianDpEvent(20.0), 100, 1e-5, RELATION.REPLACE_ONE, 1e-3)
    assert losses > 1.8 * renyi


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("z", "rate", "count"), SAMPLED)
def test_renyi_is_never_below_pld(z, rate, count, neighbours):
    charges = [Charge(SampledGaussianEvent(z, rate, neighbours), count)]
    assert ACCOUNTANTS.get("rdp").epsilon(charges, 1e-5) >= ACCOUNTANTS.get("pld").epsilon(charges, 1e-5) * 0.999


def test_sampled_renyi_curve_is_that_of_dp_accounting():
    event = SampledGaussianEvent(1.1, 0.01, "add-remove")
    theirs = rdp.RdpAccountant().compose(event.dp_event(), 1000)
    assert rdp_to_epsilon(rdp_curve(event, 1000), DEFAULT_ORDERS, 1e-5) == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-9)


def test_gaussian_and_sampled_events_compose_in_one_pld():
    charges = [Charge(GaussianEvent(6.0), 4), Charge(SampledGaussianEvent(2.0, 0.1, "add-remove"), 50)]
    accountant = pld.PLDAccountant(RELATION.ADD_OR_REMOVE_ONE, 5e-4)
    accountant.compose(dp_accounting.GaussianDpEvent(6.0), 4)
    accountant.compose(charges[1].event.dp_event(), 50)
    assert ACCOUNTANTS.get("pld").epsilon(charges, 1e-5) == pytest.approx(accountant.get_epsilon(1e-5), rel=2e-3)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 4.0])
def test_the_renyi_curve_of_a_pure_event_is_that_of_randomised_response(epsilon):
    p = 1 / (1 + math.exp(-epsilon))
    a = np.array([1.5, 2.0, 8.0])
    by_hand = np.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1)
    np.testing.assert_allclose(PureEvent(epsilon).rdp(a), by_hand, rtol=1e-9)
    assert (PureEvent(epsilon).rdp(a) <= min(epsilon, 1e9)).all()


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0, math.inf])
def test_private_selection_agrees_with_dp_accounting(shape):
    event = SelectEvent((Charge(GaussianEvent(5.0), 3), Charge(GaussianEvent(8.0))), 10.0, shape)
    theirs = rdp.RdpAccountant(orders=DEFAULT_ORDERS).compose(event.dp_event())
    ours = ACCOUNTANTS.get("rdp").epsilon([Charge(event)], 1e-5)
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), rel=1e-3)


def test_private_selection_costs_more_than_one_run():
    event = SelectEvent((Charge(GaussianEvent(5.0), 3),), 10.0)
    one_run = ACCOUNTANTS.get("rdp").epsilon([Charge(GaussianEvent(5.0), 3)], 1e-5)
    assert ACCOUNTANTS.get("rdp").epsilon([Charge(event)], 1e-5) > one_run


def test_delta_zero_leaves_only_the_sum_of_pure_epsilons():
    charges = [Charge(PureEvent(0.2), 5)]
    assert best_epsilon(charges, 0.0) == (pytest.approx(1.0), "pure")
    assert ACCOUNTANTS.get("kairouz").epsilon(charges, 0.0) == pytest.approx(1.0)
    for name in ("pld", "rdp", "zcdp"):
        assert ACCOUNTANTS.get(name).epsilon(charges, 0.0) == math.inf


def test_the_best_accountant_is_the_smallest_valid_answer():
    charges = [Charge(PureEvent(0.1), 30)]
    best, name = best_epsilon(charges, 1e-5)
    answers = {n: ACCOUNTANTS.get(n).epsilon(charges, 1e-5) for n in candidates(charges, 1e-5)}
    assert best == min(answers.values()) == answers[name]
    assert {"pure", "kairouz", "pld"} <= set(answers)


def test_the_grid_of_pld_costs_less_than_a_thousandth_of_epsilon():
    """A fixed step of 1e-3, the twin, costs a tenth here."""
    charges = [Charge(SampledGaussianEvent(10.66, 0.01, "add-remove"), 1000)]
    fine = Pld(3e-5).epsilon(charges, 1e-5)
    assert fine <= Pld().epsilon(charges, 1e-5) * (1 + 1e-9) <= fine * 1.001 or Pld().epsilon(charges, 1e-5) <= fine
    assert Pld(1e-3).epsilon(charges, 1e-5) > 1.05 * fine


def test_uncertified_events_make_every_epsilon_infinite_and_zero_events_cost_nothing():
    for name in ACCOUNTANTS:
        assert ACCOUNTANTS.get(name).epsilon([Charge(UncertifiedEvent("no noise"))], 1e-5) == math.inf
        assert ACCOUNTANTS.get(name).epsilon([Charge(ZeroEvent(), 9)], 1e-5) == 0.0


def test_an_accountant_refuses_events_it_cannot_account_for():
    with pytest.raises(OptionError, match="accountant 'pure' cannot account for event 'gaussian'"):
        ACCOUNTANTS.get("pure").epsilon([Charge(GaussianEvent(1.0))], 1e-5)
    with pytest.raises(UnknownName, match="expected one of gaussian, kairouz"):
        ACCOUNTANTS.get("moments")


@pytest.mark.parametrize("delta", [-0.1, 1.0, math.nan])
def test_a_delta_outside_the_unit_interval_is_refused(delta):
    with pytest.raises(OptionError, match="delta"):
        ACCOUNTANTS.get("pure").epsilon([Charge(PureEvent(0.1))], delta)
