"""Recomputing a certificate: every event from its mechanism, every epsilon from its events.

Nothing recorded is believed: the event of a release follows from its contribution (sizes and bound) and its
mechanism (scale), the epsilon of a statement from those events. A recorded event or epsilon that differs is
reported, whether it flatters the run or not.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.accountants.base import composition_bound
from taskveil.privacy.aggregation import AGGREGATIONS
from taskveil.privacy.contributions import Contribution, Weighted, contribution_from_dict
from taskveil.privacy.event_table import event_from_dict
from taskveil.privacy.events import CappedEvent, Charge, Event, GaussianTotal, UncertifiedEvent
from taskveil.privacy.mechanisms import Mechanism, mechanism_from_dict
from taskveil.privacy.mechanisms.shared import SharedNoise
from taskveil.privacy.per_task import counted_for
from taskveil.privacy.plan import event_of
from taskveil.privacy.units import Neighbours, Unit

if TYPE_CHECKING:
    from taskveil.privacy.certificate import Certificate, Statement

TOLERANCE = 1e-6  # relative; between machines
LARGEST = 1e300  # of numbers that are compared up to rounding; JSON has integers that no float can hold
OVERSTATED = 1e-2  # a stated epsilon this much above the recomputed one does not belong to these events


def check_statement(certificate: Certificate, statement: Statement) -> list[str]:
    """Recompute one statement; a list of what is wrong with it."""
    Unit(statement.unit)
    charges: list[Charge] = []
    problems: list[str] = []
    for entry in certificate.events:
        event, wrong = _recomputed(entry, statement)
        problems += wrong
        charges.append(Charge(event, entry["count"]))
    problems += unpaid(charges) + unstated(certificate, statement)
    if certificate.total is not None:
        charges, wrong = _of_total(certificate.total, charges)
        problems += wrong
    epsilon, stated, who = _recomputed_epsilon(charges, statement), statement.epsilon, statement.observer
    if not epsilon <= stated * (1 + TOLERANCE) + 1e-12:
        problems.append(f"{who}: states epsilon {stated:.6g}, but its events give {epsilon:.6g}")
    elif epsilon < stated * (1 - OVERSTATED):
        problems.append(f"{who}: states epsilon {stated:.6g}; its events give {epsilon:.6g}, so they are not its events")
    if certificate.randomness.get("seeded") and statement.holds and certificate.events:
        problems.append(f"{who}: claims to hold with seeded noise")
    return problems


def _of_total(total: dict[str, Any], made: Sequence[Charge]) -> tuple[list[Charge], list[str]]:
    """What a statement is about where releases were chosen: the total that held them, and what does not fit into it."""
    whole = event_from_dict(total["event"])
    if not isinstance(whole, GaussianTotal):
        return [], ["the total is not one of Gaussian releases"]
    left: Event | None = whole
    for charge in made:
        for _ in range(charge.count):
            left = None if left is None else left.without(charge.event)
    return [Charge(whole)], ["more was released than the total holds"] if left is None else []


def check_events(certificate: Certificate) -> None:
    """Every recorded release can be read: nothing is missing, and everything has its type and range."""
    for entry in certificate.events:
        contribution_from_dict(entry["contribution"])
        mechanism_from_dict(entry["mechanism"])
        event_from_dict(entry["event"])


def refutation(charges: Sequence[Charge], epsilon: float) -> tuple[str, float | None]:
    """Why a paper's claim of `epsilon` fails, and the delta below which no epsilon holds.

    Over several rounds the observer is certain unless every round fails him: 1 - prod(1 - delta_t) in all.
    The number returned is the smaller of that and 1 - exp(-epsilon), the single-release value of
    docs/theory/model-protected.md#wishart; None where no lower bound was proved.
    """
    events = [c.event for c in charges for _ in range(c.count) if isinstance(c.event, UncertifiedEvent)]
    missed = math.fsum(math.log1p(-min(e.delta_at_least, 1 - 1e-16)) for e in events)
    together = -math.expm1(missed)
    reason = events[0].reason
    if together == 0:
        return reason, None
    if len(events) > 1:
        reason += f" (over all {len(events)} releases together delta is at least {together:.6g})"
    return reason, min(together, -math.expm1(-epsilon))


def own_event(entry: dict[str, Any], statement: Statement) -> Event:
    """The event of one entry for the tasks a statement is about, whose budget may be a share of the largest."""
    share = 1.0 if statement.share is None else statement.share
    return _event(entry, counted_for(contribution_from_dict(entry["contribution"]), share), Neighbours(statement.neighbours))


def _event(entry: dict[str, Any], contribution: Contribution, relation: Neighbours) -> Event:
    event = event_of(mechanism_from_dict(entry["mechanism"]), contribution, relation, entry["rate"], entry["aggregation"])
    recorded = event_from_dict(entry["event"])
    return CappedEvent(event, recorded.most) if isinstance(recorded, CappedEvent) else event


def _recomputed(entry: dict[str, Any], statement: Statement) -> tuple[Event, list[str]]:
    """The event of one entry from its mechanism and contribution, and what does not fit the statement."""
    contribution = contribution_from_dict(entry["contribution"])
    mechanism = mechanism_from_dict(entry["mechanism"])
    relation, name = Neighbours(statement.neighbours), entry["name"]
    event, recorded = _event(entry, contribution, relation), event_from_dict(entry["event"])
    protected = {o.value for o in AGGREGATIONS.get(entry["aggregation"]).observers} | {"public"}
    rounds = sum(last - first + 1 for first, last in entry["rounds"])
    checks = {
        f"release {name!r}: the recorded event is not the one its mechanism gives": event == recorded,
        f"release {name!r} counts for a share of the largest budget only": getattr(contribution, "counted", 1.0) == 1.0,
        f"release {name!r} is capped, but everybody takes part in it": not isinstance(event, CappedEvent) or bool(entry["rate"]),
        f"release {name!r} was not planned for {relation.value} neighbours": entry["neighbours"] == relation,
        f"release {name!r} does not bound a {statement.unit}": contribution.unit == statement.unit,
        f"release {name!r} does not protect against {statement.observer}": statement.observer in protected,
        f"release {name!r}: count and rounds disagree": rounds == entry["count"],
        f"release {name!r}: its noise does not belong to its aggregation": _belongs(mechanism, entry["aggregation"]),
        f"release {name!r} does not withstand that many colluding sites": _withstands(mechanism, statement),
    }
    return own_event(entry, statement), [problem for problem, fine in checks.items() if not fine]


def unstated(certificate: Certificate, statement: Statement) -> list[str]:
    """Where tasks have budgets of their own: every budget has its statement, about the tasks that have it, and no other."""
    stated_shares = {s.share for s in certificate.statements if s.observer == statement.observer}
    problems = []
    for entry in certificate.events:
        contribution = contribution_from_dict(entry["contribution"])
        shares = contribution.shares if isinstance(contribution, Weighted) else ()
        budgets: set[float | None] = set(shares)
        if stated_shares != (budgets or {None}):
            problems.append(f"release {entry['name']!r}: its budgets are not those the statements are about")
        elif shares and shares.count(statement.share) != statement.tasks:
            problems.append(f"release {entry['name']!r}: not as many tasks have this budget as stated")
    return problems


def unpaid(charges: Sequence[Charge]) -> list[str]:
    """Releases that count on a cap need as many paid ones as the cap allows."""
    problems = []
    for event in {c.event for c in charges if isinstance(c.event, CappedEvent)}:
        paid = sum(c.count for c in charges if c.event == event.inner)
        if paid < event.most:
            problems.append(f"a release is capped at {event.most} participations, of which only {paid} are charged")
    return problems


def _belongs(mechanism: Mechanism, aggregation: str) -> bool:
    """Noise on messages and noise in shares have events of their own aggregation, and of no other."""
    on_messages = mechanism.on_messages == (aggregation == "local-model")
    return on_messages and isinstance(mechanism, SharedNoise) == (aggregation == "secure")


def _withstands(mechanism: Mechanism, statement: Statement) -> bool:
    """Shared noise hides a task from a stated number of others; other noise from all of them."""
    if not isinstance(mechanism, SharedNoise):
        return True
    return statement.colluders is not None and statement.colluders <= mechanism.colluders


def _recomputed_epsilon(charges: list[Charge], statement: Statement) -> float:
    """Epsilon by the stated accountant; for a paper's false claim, what its own bound would say."""
    claims: list[float] = []
    for charge in charges:
        if isinstance(charge.event, UncertifiedEvent):
            if statement.holds or charge.event.claimed_epsilon is None:
                return math.inf
            claims += [charge.event.claimed_epsilon] * charge.count
    if claims:
        return composition_bound(claims, statement.delta)
    return best_epsilon(charges, statement.delta, statement.accountant)[0]


def differences(recorded: Any, derived: Any, where: str = "") -> list[str]:
    """Where two documents part, as paths; numbers may differ by rounding."""
    if isinstance(recorded, dict) and isinstance(derived, dict):
        names = sorted(set(recorded) | set(derived), key=str)
        pairs = [(f"{where}.{n}".lstrip("."), recorded.get(n), derived.get(n)) for n in names]
        return [text for at, a, b in pairs for text in differences(a, b, at)]
    if isinstance(recorded, list) and isinstance(derived, list):
        if len(recorded) != len(derived):
            return [f"{where} has {len(recorded)} entries, not {len(derived)}"]
        pairs = [(f"{where}[{i}]", a, b) for i, (a, b) in enumerate(zip(recorded, derived, strict=True))]
        return [text for at, a, b in pairs for text in differences(a, b, at)]
    return [] if _same(recorded, derived) else [f"{where} is {_short(recorded)}, not {_short(derived)}"]


def _same(a: Any, b: Any) -> bool:
    numbers = all(isinstance(v, int | float) and not isinstance(v, bool) and abs(v) <= LARGEST for v in (a, b))
    return math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=1e-12) if numbers else type(a) is type(b) and a == b


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
