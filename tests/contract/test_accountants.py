"""Every accountant: empty is zero, monotone, and n at once equals n times one for every event."""

from __future__ import annotations

import math

import pytest

from taskveil.privacy.accountants import ACCOUNTANTS
from taskveil.privacy.accountants.base import Kairouz
from taskveil.privacy.accountants.pld import Pld
from taskveil.privacy.event_table import EVENTS, event_from_dict
from taskveil.privacy.events import (
    CappedEvent,
    Charge,
    GaussianEvent,
    GaussianTotal,
    PureEvent,
    SampledGaussianEvent,
    SelectEvent,
    UncertifiedEvent,
    ZeroEvent,
)

EXAMPLES = [
    GaussianEvent(4.0),
    GaussianTotal(4.0),
    SampledGaussianEvent(1.5, 0.05, "add-remove"),
    SampledGaussianEvent(2.5, 0.05, "replace-one"),
    PureEvent(0.1),
    ZeroEvent(),
    CappedEvent(GaussianEvent(4.0), 3),
    UncertifiedEvent("no noise"),
    SelectEvent((Charge(GaussianEvent(8.0), 2),), 4.0),
    SelectEvent((Charge(PureEvent(0.1), 2),), 4.0, math.inf),
]
PAIRS = [(name, event) for name in ACCOUNTANTS for event in EXAMPLES if ACCOUNTANTS.get(name).supports(event)]
DELTA = 1e-5


def count_is_applied(accountant, event) -> bool:
    """n at once = n times one, composed through `plus` one by one so that merging cannot hide a fault."""
    if isinstance(accountant, Pld):
        accountant = Pld(1e-3)  # one grid for single curves and for the total
    at_once = accountant.epsilon([Charge(event, 7)], DELTA)
    one = accountant.curve(event)
    total = one
    for _ in range(6):
        total = accountant.plus(total, accountant.curve(event))
    return bool(at_once == pytest.approx(accountant.read_epsilon(total, DELTA), rel=1e-3, abs=1e-9))


def identity(pair):
    return pair if isinstance(pair, str) else pair.kind


@pytest.mark.parametrize(("name", "event"), PAIRS, ids=identity)
def test_n_at_once_equals_n_times_one(name, event):
    if isinstance(event, ZeroEvent | UncertifiedEvent | CappedEvent):
        accountant = ACCOUNTANTS.get(name)
        assert accountant.epsilon([Charge(event, 7)], DELTA) == accountant.epsilon([Charge(event)] * 7, DELTA)
    else:
        assert count_is_applied(ACCOUNTANTS.get(name), event)


@pytest.mark.parametrize(("name", "event"), PAIRS, ids=identity)
def test_charges_of_one_event_may_be_split_in_any_way(name, event):
    accountant = ACCOUNTANTS.get(name)
    split = accountant.epsilon([Charge(event, 3), Charge(event), Charge(event, 3)], DELTA)
    assert split == pytest.approx(accountant.epsilon([Charge(event, 7)], DELTA), rel=1e-12)


def test_the_check_rejects_an_accountant_that_forgets_the_count():
    class Forgetful(Kairouz):
        def times(self, curve, count):
            return curve

    assert not count_is_applied(Forgetful(), PureEvent(0.1))


@pytest.mark.parametrize("name", ACCOUNTANTS.names())
def test_nothing_released_costs_nothing(name):
    assert ACCOUNTANTS.get(name).epsilon([], DELTA) == 0.0
    assert ACCOUNTANTS.get(name).epsilon([Charge(PureEvent(1.0), 0)], 0.0) == 0.0


@pytest.mark.parametrize(("name", "event"), PAIRS, ids=identity)
def test_more_releases_never_cost_less_and_a_smaller_delta_never_less(name, event):
    accountant = ACCOUNTANTS.get(name)
    epsilons = [accountant.epsilon([Charge(event, n)], DELTA) for n in (1, 2, 5, 20)]
    assert epsilons == sorted(epsilons)
    assert accountant.epsilon([Charge(event)], 1e-7) >= accountant.epsilon([Charge(event)], 1e-3)


@pytest.mark.parametrize("event", EXAMPLES, ids=identity)
def test_every_event_survives_a_round_trip_through_json(event):
    import json

    assert event_from_dict(json.loads(json.dumps(event.to_dict(), allow_nan=False))) == event


def test_there_is_an_example_of_every_event_of_this_folder():
    core = {kind for kind, cls in EVENTS.items() if cls.__module__ == "taskveil.privacy.events"}
    assert core == {event.kind for event in EXAMPLES}
