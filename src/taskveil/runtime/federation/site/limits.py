"""A site's limits: one for whole tasks and one for single records, over all runs, aggregations and observers.

The site's own book has two accounts, both against the other tasks. Every run makes a statement against those, whatever its
aggregation, so whatever a site spends is in them; a run that protects whole tasks is charged to both, a run that protects
records to the second (privacy/ledger/reach.py). What site.toml says counts from the next message on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from taskveil.privacy.ledger import Book, Key
from taskveil.privacy.plan import Plan
from taskveil.privacy.units import Unit


def set_limits(book: Book, name: str, limit: Mapping[str, Any], plan: Plan) -> Key:
    """Bring the accounts of the site's own book in line with site.toml; returns the one this run is named by.

    The neighbours are those of the site's first run: other runs are priced under them.
    """
    rows = [row for row in book.accounts() if row.name == name]
    neighbours = next((row.neighbours for row in rows), plan.budget.neighbours.value)
    for unit in Unit:
        key, before = Key(name, unit.value, neighbours), [row for row in rows if row.unit == unit]
        now = [(row.epsilon, row.delta) for row in before if Key.of(row) == key]
        own, other = wanted(limit, unit), [*now, *((r.epsilon, r.delta) for r in before), _of(plan)][0]
        chosen = own[0] or other[0], other[1] if own[1] is None else own[1]  # a delta of 0 is a limit too
        if now != [chosen]:
            book.set_limit(key, *chosen)
    return Key(name, plan.budget.unit.value, neighbours)


def _of(plan: Plan) -> tuple[float, float]:
    """A site that names no limit allows what its first run plans."""
    return plan.budget.epsilon or 1.0, plan.budget.delta


def lower_limits(book: Book, name: str, limit: Mapping[str, Any]) -> None:
    """In a ledger that somebody else keeps too, site.toml may lower a limit, never raise it."""
    for row in book.accounts():
        epsilon, delta = wanted(limit, Unit(row.unit))
        lower = min(epsilon or row.epsilon, row.epsilon), row.delta if delta is None else min(delta, row.delta)
        if row.name == name and lower != (row.epsilon, row.delta):
            book.set_limit(Key.of(row), *lower)


def wanted(limit: Mapping[str, Any], unit: Unit) -> tuple[float | None, float | None]:
    """(epsilon, delta) of site.toml for a unit; what is said for records only comes before what is said for both."""
    prefix = "record_" if unit is Unit.RECORD else ""
    values = (limit.get(f"{prefix}{part}", limit.get(part)) for part in ("epsilon", "delta"))
    epsilon, delta = (None if value is None else float(value) for value in values)
    return epsilon, delta
