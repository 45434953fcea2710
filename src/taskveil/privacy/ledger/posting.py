"""What one transaction does to one account: reserve, commit, finish. book.py decides which accounts.

The entries of an account are a hash chain: an edited, removed or reordered one no longer fits its successor.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from taskveil.errors import BudgetExceeded
from taskveil.privacy.event_table import event_from_dict
from taskveil.privacy.events import Charge, Event, GaussianTotal
from taskveil.privacy.ledger import statements as say
from taskveil.privacy.ledger.holdings import GAUSSIAN, SUM, Cost, Holdings, Limit, cost_of
from taskveil.privacy.ledger.reach import Key, Reach
from taskveil.privacy.release import BEYOND_TOTAL

if TYPE_CHECKING:
    from taskveil.privacy.ledger.database import Transaction

START = "0" * 64


def link(previous: str, account: str, number: int, run: str, kind: str, release: str, body: str, at: str) -> str:
    """The hash of one entry, over its own fields and its predecessor's hash."""
    text = json.dumps([previous, account, number, run, kind, release, body, at], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def broken_links(account: str, rows: list[Any], head: str, count: int) -> list[str]:
    """What does not fit, in words; empty when the chain is whole up to the stored head."""
    problems, previous = [], START
    for position, row in enumerate(rows, start=1):
        if row.number != position:
            problems.append(f"{account}: entry {position} is missing (found number {row.number})")
            return problems
        expected = link(previous, account, row.number, row.run, row.kind, row.release, row.body, row.at)
        if row.previous != previous or row.hash != expected:
            problems.append(f"{account}: entry {position} ({row.kind}) was changed after it was written")
            return problems
        previous = row.hash
    if previous != head or len(rows) != count:
        problems.append(f"{account}: the last {max(count - len(rows), 1)} entries are missing or were replaced")
    return problems


RUNNING, FINISHED, COMPLETE = 0, 1, 2  # the column "finished" of a run


class Committed(NamedTuple):
    """Ids of the entries of a commit, and how many reserved releases the run has left."""

    entries: list[str]
    left: int


def reserve_in(transaction: Transaction, row: Any, reach: Reach, charges: Sequence[Charge], delta: float, run: str) -> None:
    """Set a plan aside, or raise BudgetExceeded."""
    cost, held = cost_of(charges, min(delta, row.delta)), Holdings.from_json(row.held).cost
    limit = Limit(row.epsilon, row.delta, row.rule).decided(cost)
    if limit.rule == GAUSSIAN and not cost.mu_squared < math.inf:
        raise BudgetExceeded(
            f"account {Key.of(row)} composes by the rule {GAUSSIAN!r}, which takes unsampled Gaussian releases only; this run "
            "plans others. Nothing was released. Use another account."
        )
    require(limit, held, cost, Key.of(row), f"this run plans {sum(c.count for c in charges)} release(s)")
    body = {"charges": _plain(charges), "delta": min(delta, row.delta), "rule": limit.rule, "reach": asdict(reach)}
    new = entry("reserve", json.dumps(body), run)
    append(transaction, row, [new], held=Holdings(held + cost).to_json(), rule=limit.rule)
    opened = {"run": run, "account": row.id, "delta": body["delta"], "left": json.dumps(body["charges"])}
    transaction.run(say.OPEN_RUN, {**opened, "committed": 0, "finished": RUNNING})


def commit_in(transaction: Transaction, row: Any, state: Any, releases: Sequence[tuple[str, Event]]) -> Committed:
    """Write releases down; extra ones are charged on top, or refused."""
    key, limit, held = Key.of(row), Limit(row.epsilon, row.delta, row.rule), Holdings.from_json(row.held).cost
    if state.finished == FINISHED:
        raise BudgetExceeded(f"run {state.run} on account {key} is finished; nothing was released.")
    if not limit.fits(held):
        raise BudgetExceeded(
            f"the limit of account {key} was lowered to epsilon {limit.epsilon:g}, below what it holds; nothing was released. "
            "Raise it with `taskveil ledger set`, or end the run with `taskveil ledger close`."
        )
    left, changes = json.loads(state.left), {}
    chosen = any(item["event"]["kind"] == GaussianTotal.kind for item in left)  # nothing is charged on top of a total
    entries: list[dict[str, str]] = []
    for release, event in releases:
        again = bool(state.committed) and _was_committed(transaction, row.id, state.run, release)
        again = again or any(e["release"] == release for e in entries)
        extra = not ((chosen or not again) and taken_from(left, event))
        if extra and chosen:
            raise BudgetExceeded(BEYOND_TOTAL.format(release))
        charged = event.made_again() if extra else event
        if extra:
            cost = cost_of([Charge(charged)], row.delta)
            require(limit, held, cost, key, f"release {release!r} must be charged once more")
            held = held + cost
            changes = {"held": Holdings(held).to_json()}
        entries.append(entry("commit", json.dumps({"event": charged.to_dict(), "extra": extra}), state.run, release))
    open_count = sum(item["count"] for item in left)
    values = {"left": json.dumps(left), "committed": state.committed + len(releases)}
    where = {"which": state.run, "where": row.id}
    transaction.run(say.COUNT_COMMIT, {**where, **values, "finished": RUNNING if open_count else COMPLETE})
    return Committed(append(transaction, row, entries, **changes), open_count)


def finish_in(transaction: Transaction, row: Any, state: Any) -> bool:
    """Give back what was reserved and never committed; whether this account can: sums of epsilons cannot be split again."""
    can = row.rule != SUM or state.committed == 0
    if state.finished == FINISHED:
        return can
    left, changes = json.loads(state.left), {}
    if any(item["count"] for item in left):
        back = unused(left, state.delta, nothing_committed=state.committed == 0)
        changes = {"held": Holdings(Holdings.from_json(row.held).cost.minus(back)).to_json()}
    transaction.run(say.FINISH_RUN, {"which": state.run, "where": row.id, "finished": FINISHED})
    append(transaction, row, [entry("finish", "{}", state.run)], **changes)
    return can


def _was_committed(transaction: Transaction, account: int, run: str, release: str) -> bool:
    values = {"account": account, "run": run, "release": release, "kind": "commit"}
    return bool(transaction.rows(say.COMMITTED_BEFORE, values))


def append(transaction: Transaction, row: Any, new: list[dict[str, str]], **changes: Any) -> list[str]:
    """More entries, and the account's row brought up to date with them; returns their ids."""
    at, head, rows = datetime.now(UTC).isoformat(timespec="microseconds"), row.head, []
    for number, one in enumerate(new, start=row.entries + 1):
        hashed = link(head, row.name, number, one["run"], one["kind"], one["release"], one["body"], at)
        rows.append({"account": row.id, "number": number, **one, "at": at, "previous": head, "hash": hashed})
        head = hashed
    transaction.run_many(say.APPEND, rows)
    moved = {"which": row.id, "entries": rows[-1]["number"], "head": head, **changes}
    transaction.run(say.ADVANCE[tuple(changes)], moved)
    return [f"{row.name}/{one['number']}" for one in rows]


def entry(kind: str, body: str, run: str = "", release: str = "") -> dict[str, str]:
    """One entry, before it is numbered and chained."""
    return {"run": run, "kind": kind, "release": release, "body": body}


def unused(left: list[dict[str, Any]], delta: float, nothing_committed: bool) -> Cost:
    """What a finished run gives back: curves and squares event by event, summed epsilons only where nothing was released."""
    charges = [Charge(event_from_dict(item["event"]), item["count"]) for item in left if item["count"]]
    cost = cost_of(charges, delta)
    return cost if nothing_committed else replace(cost, epsilon=0.0, delta=0.0)


def taken_from(left: list[dict[str, Any]], event: Event) -> bool:
    """Take one such event, or its part of a total, out of the reservation; False where it holds none any more."""
    wanted = event.to_dict()
    for item in left:
        if item["event"] == wanted and item["count"] > 0:
            item["count"] -= 1
            return True
    for item in left:
        rest = event_from_dict(item["event"]).without(event)
        if rest is not None:
            item["event"] = rest.to_dict()
            return True
    return False


def _plain(charges: Sequence[Charge]) -> list[dict[str, Any]]:
    """Equal events written once, with their count."""
    counts: Counter[Event] = Counter()
    for charge in charges:
        counts[charge.event] += charge.count
    return [{"event": event.to_dict(), "count": count} for event, count in counts.items()]


def require(limit: Limit, held: Cost, cost: Cost, key: Key, what: str) -> None:
    """Refuse what the limit does not cover."""
    after = held + cost
    if limit.fits(after):
        return
    now, then = limit.total(held), limit.total(after)
    raise BudgetExceeded(
        f"account {key} has spent epsilon {now:.4g} of {limit.epsilon:g} at delta {limit.delta:g}; {what}, which would "
        f"bring it to {then:.4g}. Nothing was released. Use fewer rounds or a smaller epsilon, or see "
        f"`taskveil ledger show`."
    )
