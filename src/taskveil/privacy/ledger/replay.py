"""An account's total recomputed from its entries alone, for `ledger verify` and `ledger export`."""

from __future__ import annotations

import json
from typing import Any

from taskveil.privacy.events import Charge, event_from_dict
from taskveil.privacy.ledger.book import taken_from, unused
from taskveil.privacy.ledger.holdings import Cost, cost_of, nothing


def replayed_cost(rows: list[Any]) -> Cost:
    """Reservations, extra charges and what was given back, in the order they were written."""
    total, delta = nothing(), 0.0
    left: dict[str, list[dict[str, Any]]] = {}
    opened: dict[str, float] = {}
    committed: set[str] = set()
    for row in rows:
        body = json.loads(row.body)
        if row.kind == "limit":
            delta = body["delta"]
        elif row.kind == "reserve":
            left[row.run], opened[row.run] = body["charges"], body["delta"]
            charges = [Charge(event_from_dict(i["event"]), i["count"]) for i in body["charges"]]
            total = total + cost_of(charges, body["delta"])
        elif row.kind == "commit":
            committed.add(row.run)
            if body["extra"]:
                total = total + cost_of([Charge(event_from_dict(body["event"]))], delta)
            else:
                taken_from(left[row.run], event_from_dict(body["event"]))
        elif row.kind == "finish":
            total = total.minus(unused(left[row.run], opened[row.run], row.run not in committed))
    return total


def last_plan_cost(rows: list[Any]) -> Cost | None:
    """What the last reserved plan costs by itself; None before the first run."""
    for row in reversed(rows):
        if row.kind == "reserve":
            body = json.loads(row.body)
            return cost_of([Charge(event_from_dict(i["event"]), i["count"]) for i in body["charges"]], body["delta"])
    return None
