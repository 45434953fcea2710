"""What is computed twice: a plan against its budget, a certificate against its events, also where one of the two went wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from taskveil.errors import OptionError
from taskveil.privacy import plan as plans
from taskveil.privacy.certificate import build_certificate
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.events import Charge, GaussianEvent
from taskveil.privacy.ledger.holdings import cost_of
from taskveil.privacy.ledger.posting import unused
from taskveil.privacy.mechanisms.selection import Selection
from taskveil.privacy.plan import Budget, Plan, PlannedRelease, Request, make_plan
from taskveil.privacy.secure_events import SharedGaussianEvent

VECTOR, BUDGET = VectorSum((3,), 1.0), Budget(1.0, 1e-5)
REAL = {"source": "operating system", "seeded": False, "exact": True}


def test_calibration_that_ends_slightly_too_high_is_lowered_until_the_plan_meets_its_budget(monkeypatch):
    honest = plans.largest_loss
    monkeypatch.setattr(plans, "largest_loss", lambda *a, **k: 1.002 * honest(*a, **k))
    plan = make_plan([Request("S", 1, VECTOR)], BUDGET)
    assert 0.99 < plan.epsilon() <= 1.0


def test_calibration_that_ends_far_too_high_is_refused(monkeypatch):
    monkeypatch.setattr(plans, "largest_loss", lambda *a, **k: 5.0)
    with pytest.raises(OptionError, match="did not reach its target"):
        make_plan([Request("S", 1, VECTOR)], BUDGET)


def test_a_statement_for_other_neighbours_than_planned_does_not_verify_even_where_the_event_is_the_same():
    mechanism = Selection(5.0, 3.0, 1.0)
    event = mechanism.event(VECTOR, BUDGET.neighbours)
    plan = Plan((PlannedRelease("search", 1, VECTOR, mechanism, event),), BUDGET)
    made = build_certificate("x", replace(plan, budget=replace(BUDGET, epsilon=plan.epsilon())), REAL)
    assert made.verify()
    edited = replace(made, statements=tuple(replace(s, neighbours="add-remove") for s in made.statements))
    assert any("was not planned for add-remove" in problem for problem in edited.verify().problems)


def test_a_release_whose_rounds_do_not_add_up_to_its_count_does_not_verify():
    made = build_certificate("x", make_plan([Request("S", t, VECTOR) for t in (1, 2)], BUDGET), REAL)
    assert made.verify()
    edited = replace(made, events=tuple({**entry, "rounds": [[1, 1]]} for entry in made.events))
    assert any("count and rounds disagree" in problem for problem in edited.verify().problems)


def test_costs_add_up_in_every_part():
    one, two = cost_of([Charge(GaussianEvent(3.0), 2)], 1e-5), cost_of([Charge(SharedGaussianEvent(4.0, 1e-9, 1e-12))], 1e-6)
    both = one + two
    assert np.allclose(both.curve, one.curve + two.curve) and one.curve.any() and two.curve.any()
    assert both.epsilon == one.epsilon + two.epsilon > max(one.epsilon, two.epsilon)
    assert (both.delta, both.slack, both.failure) == (1e-5 + 1e-6, 1e-9, 1e-12)


def test_after_a_release_only_renyi_parts_go_back():
    """Summed epsilons of a plan are one number: part of it cannot be given back once something was released."""
    left = [{"event": GaussianEvent(3.0).to_dict(), "count": 2}]
    whole, rest = unused(left, 1e-5, nothing_committed=True), unused(left, 1e-5, nothing_committed=False)
    assert whole.epsilon > 0 and whole.delta == 1e-5 and (rest.epsilon, rest.delta) == (0.0, 0.0)
    assert np.array_equal(whole.curve, rest.curve) and rest.curve.any()
