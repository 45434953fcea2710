"""An account recomputed from its entries alone, for `ledger verify`, and when runs are carried into a new account."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taskveil.privacy.event_table import event_from_dict
from taskveil.privacy.events import Charge
from taskveil.privacy.ledger.holdings import OPEN, Cost, Holdings, cost_of, nothing
from taskveil.privacy.ledger.posting import COMPLETE, FINISHED, RUNNING, broken_links, taken_from, unused


@dataclass
class Run:
    """The row of a run."""

    delta: float
    left: list[dict[str, Any]]
    committed: int = 0
    finished: int = RUNNING

    def problem(self, row: Any) -> str | None:
        """The column in which a stored row differs."""
        stored = {"delta": row.delta, "left": json.loads(row.left), "committed": row.committed, "finished": row.finished}
        return next((name for name, value in stored.items() if value != getattr(self, name)), None)


@dataclass
class Replayed:
    """All columns of an account that follow from its entries."""

    cost: Cost = field(default_factory=nothing)
    epsilon: float = 0.0
    delta: float = 0.0
    rule: str = OPEN
    sentence: dict[str, str] = field(default_factory=dict)
    runs: dict[str, Run] = field(default_factory=dict)

    def limit(self, entry: Any, body: dict[str, Any]) -> None:
        """A limit was set or changed."""
        self.epsilon, self.delta, self.rule = body["epsilon"], body["delta"], body.get("rule", self.rule)
        self.sentence = {k: body[k] for k in ("unit", "neighbours", "observer") if k in body}

    def reserve(self, entry: Any, body: dict[str, Any]) -> None:
        """A run set its whole plan aside."""
        self.cost = self.cost + plan_cost(body)
        self.runs[entry.run], self.rule = Run(body["delta"], body["charges"]), body["rule"]

    def commit(self, entry: Any, body: dict[str, Any]) -> None:
        """A release was made: taken from what its run had reserved, or charged on top."""
        run, event = self.runs[entry.run], event_from_dict(body["event"])
        if body["extra"]:
            self.cost = self.cost + cost_of([Charge(event)], self.delta)
        else:
            taken_from(run.left, event)
        run.committed += 1
        run.finished = RUNNING if sum(item["count"] for item in run.left) else COMPLETE

    def finish(self, entry: Any, body: dict[str, Any]) -> None:
        """A run ended: what it reserved and did not use is free again."""
        run = self.runs[entry.run]
        self.cost = self.cost.minus(unused(run.left, run.delta, run.committed == 0))
        run.finished = FINISHED


def replayed(entries: list[Any]) -> Replayed:
    """Limits, reservations, extra charges and what was given back, in the order they were written."""
    account = Replayed()
    for _, account in steps(entries):  # noqa: B007  the last one stays
        pass
    return account


def steps(entries: list[Any]) -> Iterator[tuple[Any, Replayed]]:
    """The same, entry by entry: each with the account as it stands after it."""
    account = Replayed()
    for entry in entries:
        getattr(account, entry.kind)(entry, json.loads(entry.body))
        yield entry, account


def account_problems(row: Any, entries: list[Any], states: list[Any]) -> list[str]:
    """Every column of an account and of its runs that is not what the entries give; or where the chain is broken."""
    wrong = broken_links(row.name, entries, row.head, row.entries)
    if wrong:
        return wrong
    again = replayed(entries)
    columns = {
        "the stored total is not what the entries add up to": _same(again.cost, Holdings.from_json(row.held).cost),
        "the stored limit is not the one that was set": (row.epsilon, row.delta) == (again.epsilon, again.delta),
        "the stored rule is not the one its first run decided": row.rule == again.rule,
        "the account stands for another sentence than it was opened for": all(
            getattr(row, name) == value for name, value in again.sentence.items()
        ),
        "its runs are not those of the entries": {s.run for s in states} == set(again.runs),
    }
    problems = [text for text, fine in columns.items() if not fine]
    for state in states:
        column = again.runs[state.run].problem(state) if state.run in again.runs else None
        problems += [f"run {state.run}: the column {column!r} is not what the entries give"] if column else []
    return [f"{row.name}: {text}" for text in problems]


def plan_cost(body: dict[str, Any]) -> Cost:
    """What a reserved plan costs by itself."""
    return cost_of([Charge(event_from_dict(i["event"]), i["count"]) for i in body["charges"]], body["delta"])


def first_plan_cost(entries: list[Any]) -> Cost | None:
    """Of the first reserved plan; None before the first run."""
    return next((plan_cost(json.loads(e.body)) for e in entries if e.kind == "reserve"), None)


def last_plan_cost(entries: list[Any]) -> Cost | None:
    """Of the last one."""
    return first_plan_cost(entries[::-1])


def _same(a: Cost, b: Cost) -> bool:
    numbers = [(a.epsilon, b.epsilon), (a.delta, b.delta), (a.slack, b.slack), (a.failure, b.failure)]
    numbers += [] if math.isnan(b.mu_squared) else [(a.mu_squared, b.mu_squared)]
    alike = all(x == y or math.isclose(x, y, rel_tol=1e-6, abs_tol=1e-9) for x, y in numbers)
    return alike and bool(np.allclose(a.curve, b.curve, rtol=1e-6, atol=1e-9))
