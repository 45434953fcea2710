"""Accounts of a ledger as plain data: limits, spending, what the next run would cost, spending over time."""

from __future__ import annotations

import math
from typing import Any

from taskveil.privacy.ledger.holdings import Holdings, Limit
from taskveil.privacy.ledger.reach import Key
from taskveil.privacy.ledger.replay import last_plan_cost, steps


def describe(book: Any, row: Any) -> dict[str, Any]:
    """One account as plain data."""
    with book.database.errors():
        return _described(book, row)


def _described(book: Any, row: Any) -> dict[str, Any]:
    key = Key.of(row)
    limit, held = Limit(row.epsilon, row.delta, row.rule), Holdings.from_json(row.held).cost
    history = book.rows(row.id)
    runs = {e.run for e in history if e.kind == "reserve"}
    spent, last = limit.total(held), last_plan_cost(history)
    after = limit.total(held + last) if last is not None else None
    return {
        "account": row.name, "unit": row.unit, "neighbours": row.neighbours, "observer": row.observer,
        "limit": row.epsilon, "delta": row.delta, "rule": row.rule,
        "spent": _finite(spent), "left": max(row.epsilon - spent, 0.0) if math.isfinite(spent) else 0.0,
        "runs": len(runs), "runs_not_counted": len(book.runs_of(row.name) - runs), "open_runs": book.open_runs(key),
        "releases": sum(e.kind == "commit" for e in history),
        "next_run": None if after is None else _finite(after),
        "next_run_fits": None if last is None else limit.fits(held + last),
    }  # fmt: skip


def described(book: Any) -> list[dict[str, Any]]:
    """All accounts as plain data."""
    return [describe(book, row) for row in book.accounts()]


def amount(epsilon: float | None) -> str:
    """What was spent, in a sentence or a table; None where no bound holds."""
    return "unbounded" if epsilon is None else f"{epsilon:.4g}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def history(book: Any, row: Any) -> list[dict[str, Any]]:
    """Spending over time: after every run, what all runs of the account come to under its rule."""
    points = []
    for entry, account in steps(book.rows(row.id)):
        if entry.kind in ("reserve", "finish"):
            spent = Limit(account.epsilon, account.delta, account.rule).total(account.cost)
            points.append({"at": str(entry.at), "run": entry.run, "what": entry.kind, "spent": _finite(spent)})
    return points


def runs_left(row: Any, last: Any, most: int = 1000) -> int | None:
    """How many more runs like the last fit; None without a run, or where more than `most` would."""
    if last is None:
        return None
    limit, held = Limit(row.epsilon, row.delta, row.rule), Holdings.from_json(row.held).cost
    for count in range(most):
        held = held + last
        if not limit.fits(held):
            return count
    return None


def report(book: Any) -> list[dict[str, Any]]:
    """Every account with its history and the run at which the next refusal comes."""
    with book.database.errors():
        return [
            {**describe(book, row), "runs_left": runs_left(row, last_plan_cost(book.rows(row.id))), "history": history(book, row)}
            for row in book.accounts()
        ]
