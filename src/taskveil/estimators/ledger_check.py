"""Do the books hold the run that a folder describes: the same releases, in every account the run reaches?"""

from __future__ import annotations

from collections.abc import Sequence

from taskveil.privacy.events import Event
from taskveil.privacy.ledger import Book, Key
from taskveil.privacy.ledger.reach import Reach
from taskveil.privacy.plan import Budget, PlannedRelease
from taskveil.privacy.units import Neighbours
from taskveil.runtime.record import RunRecord

MISSING = "the books do not hold this run{0}: it was not charged there, or model.json names another"


def ledger_problems(url: str, record: RunRecord, observers: list[str]) -> list[str]:
    """What the ledger says otherwise; empty where it agrees, or where there was nothing to charge."""
    plan = record.plan if record.search is None else record.search[0]
    made = record.executed if record.search is None else plan.releases
    if plan.budget.epsilon is None or not made:
        return []
    book = Book(url)
    broken = [f"the ledger was changed: {text}" for text in book.verify()]
    if record.charged is None:
        return [*broken, MISSING.format("")]
    name, run = record.charged["account"], record.charged["run"]
    keys = [Key.of(row) for row in book.accounts() if row.name == name]
    reach = Reach(plan.budget.unit.value, plan.budget.neighbours.value, tuple(observers))
    reached = [(key, relation) for key in keys if (relation := reach.relation(key)) is not None]
    if not reached:
        return [*broken, MISSING.format(f" ({name} has no such account)")]
    wrong = []
    for key, relation in reached:
        committed = book.committed(key, run)
        counted = {Neighbours(relation), Neighbours.REPLACE_ONE}  # a run carried into the account may stand there at more
        prices = [_charges(made, plan.budget, neighbours) for neighbours in counted]
        if not committed:
            wrong.append(MISSING.format(f" in account {key}"))
        elif committed not in prices:
            wrong.append(f"account {key} was charged {len(committed)} release(s) for this run that are not its {len(made)}")
    return broken + wrong


def _charges(made: Sequence[PlannedRelease], budget: Budget, relation: Neighbours) -> list[tuple[str, Event]]:
    """What each release costs there; one that was made again is charged as such."""
    seen: set[str] = set()
    charges: list[tuple[str, Event]] = []
    for planned in made:
        event = planned.event_under(relation, budget)
        charges.append((planned.id, event.made_again() if planned.id in seen else event))
        seen.add(planned.id)
    return charges
