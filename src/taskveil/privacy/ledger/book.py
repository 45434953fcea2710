"""The rules of the ledger. Every public function is one transaction; what it decides binds all processes when it returns.

1. The whole plan is reserved before the first round, or refused (BudgetExceeded, exit 3): nothing is released then.
   A reservation outlives its process but need not outlive a power cut: the run that held it has ended then, nothing of
   it was released, and resuming it reserves again. It is on the disk with the run's first commit at the latest.
2. Every release is committed, durably, before its noise is drawn. A commit is never refunded.
3. A release committed twice (a run that was killed and resumed) is charged twice.
4. What was reserved and never committed is given back when the run is finished; its noise was never drawn, because
   drawing it needs a commit, and a finished run takes none. A run that has committed all it reserved is complete: it has
   nothing to give back, and a release it makes again is charged again (rule 3).
5. Entries are append-only and chained by hashes; totals can be recomputed from them.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, NamedTuple

from taskveil.checks import Number
from taskveil.errors import BudgetExceeded, OptionError, UnknownName
from taskveil.privacy.events import Charge, Event, event_from_dict
from taskveil.privacy.guarantees import check_delta
from taskveil.privacy.ledger import statements as say
from taskveil.privacy.ledger.chain import START, broken_links, link
from taskveil.privacy.ledger.database import Database, Transaction
from taskveil.privacy.ledger.holdings import OPEN, Cost, Holdings, Limit, cost_of
from taskveil.privacy.units import Neighbours, Observer, Unit


@dataclass(frozen=True)
class Key:
    """Whom an account protects, how, and against whom."""

    name: str
    unit: str = Unit.TASK.value
    neighbours: str = Neighbours.REPLACE_ONE.value
    observer: str = Observer.OTHER_TASKS.value

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 200:
            raise OptionError("an account name must have 1 to 200 characters")
        for kind, value in ((Unit, self.unit), (Neighbours, self.neighbours), (Observer, self.observer)):
            if value not in {m.value for m in kind}:
                raise OptionError(f"expected one of {', '.join(m.value for m in kind)}; got {value!r}")

    def __str__(self) -> str:
        return f"{self.name} ({self.unit}, {self.neighbours}, against {self.observer})"

    def columns(self) -> dict[str, str]:
        return {"name": self.name, "unit": self.unit, "neighbours": self.neighbours, "observer": self.observer}


RUNNING, FINISHED, COMPLETE = 0, 1, 2  # the column "finished" of a run


class Committed(NamedTuple):
    """Ids of the entries of a commit, and how many reserved releases the run has left."""

    entries: list[str]
    left: int


class Book:
    """All accounts of one database."""

    def __init__(self, url: str):
        self.database = Database(url)

    def close(self) -> None:
        self.database.close()

    # ------------------------------------------------------------ limits

    def set_limit(self, key: Key, epsilon: float, delta: float) -> None:
        """Open an account, or change its limit. Lowering it below what is spent only stops further spending."""
        Number(above=0).check("the limit epsilon", epsilon)
        check_delta(delta)
        body = json.dumps({"epsilon": epsilon, "delta": delta})
        with self.database.transaction() as transaction:
            row = self._find(transaction, key)
            if row is None:
                opened = {"epsilon": epsilon, "delta": delta, "rule": OPEN, "held": Holdings().to_json()}
                transaction.run(say.OPEN_ACCOUNT, {**key.columns(), **opened, "entries": 0, "head": START})
                row = self._find(transaction, key)
            assert row is not None
            self._append(transaction, row, [_entry("limit", body)], epsilon=epsilon, delta=delta)

    # ---------------------------------------------------------- spending

    def reserve(
        self, key: Key, charges: Sequence[Charge], delta: float, run: str | None = None, *, resumed: bool = True
    ) -> str:
        """Set a whole plan aside; returns the id of the run. A run that was reserved before keeps what it has.

        `resumed=False` says that the id is new, which saves looking for it.
        """
        known, run = resumed and run is not None, run or uuid.uuid4().hex
        with self.database.transaction(durable=False) as transaction:
            row = self._row(transaction, key)
            if known and self._run(transaction, row.id, run) is not None:
                return run
            cost = cost_of(charges, min(delta, row.delta))
            held = Holdings.from_json(row.held).cost
            limit = Limit(row.epsilon, row.delta, row.rule).decided(cost)
            _require(limit, held, cost, key, f"this run plans {sum(c.count for c in charges)} release(s)")
            body = {"charges": _plain(charges), "delta": min(delta, row.delta), "rule": limit.rule}
            entry = _entry("reserve", json.dumps(body), run)
            self._append(transaction, row, [entry], held=Holdings(held + cost).to_json(), rule=limit.rule)
            opened = {"run": run, "account": row.id, "delta": body["delta"], "left": json.dumps(body["charges"])}
            transaction.run(say.OPEN_RUN, {**opened, "committed": 0, "finished": RUNNING})
        return run

    def commit(self, key: Key, run: str, release: str, event: Event) -> str:
        """Write one release of a run down."""
        return self.commit_all(key, run, [(release, event)]).entries[0]

    def commit_all(self, key: Key, run: str, releases: Sequence[tuple[str, Event]]) -> Committed:
        """Write releases of a run down, all or none. One that was committed before is charged again, or refused."""
        with self.database.transaction() as transaction:
            row = self._row(transaction, key)
            state = self._open_run(transaction, row.id, run, key)
            left, changes = json.loads(state.left), {}
            limit, held = Limit(row.epsilon, row.delta, row.rule), None
            entries: list[dict[str, str]] = []
            for release, event in releases:
                again = bool(state.committed) and self._was_committed(transaction, run, release)
                extra = again or any(e["release"] == release for e in entries) or not taken_from(left, event)
                charged = event.made_again() if extra else event
                if extra:
                    held = held or Holdings.from_json(row.held).cost
                    cost = cost_of([Charge(charged)], row.delta)
                    _require(limit, held, cost, key, f"release {release!r} must be charged once more")
                    held = held + cost
                    changes = {"held": Holdings(held).to_json()}
                body = json.dumps({"event": charged.to_dict(), "extra": extra})
                entries.append(_entry("commit", body, run, release))
            open_count = sum(item["count"] for item in left)
            values = {"left": json.dumps(left), "committed": state.committed + len(releases)}
            transaction.run(say.COUNT_COMMIT, {"which": run, **values, "finished": RUNNING if open_count else COMPLETE})
            return Committed(self._append(transaction, row, entries, **changes), open_count)

    def finish(self, key: Key, run: str) -> None:
        """No more commits; what was reserved and never committed goes back. Finishing twice does nothing."""
        with self.database.transaction() as transaction:
            row = self._row(transaction, key)
            state = self._run(transaction, row.id, run)
            if state is None or state.finished == FINISHED:
                return
            left, changes = json.loads(state.left), {}
            if any(item["count"] for item in left):
                back = unused(left, state.delta, nothing_committed=state.committed == 0)
                changes = {"held": Holdings(Holdings.from_json(row.held).cost.minus(back)).to_json()}
            transaction.run(say.FINISH_RUN, {"which": run, "finished": FINISHED})
            self._append(transaction, row, [_entry("finish", "{}", run)], **changes)

    # ----------------------------------------------------------- reading

    def accounts(self) -> list[Any]:
        with self.database.transaction() as transaction:
            return transaction.rows(say.ALL_ACCOUNTS)

    def rows(self, account: int) -> list[Any]:
        with self.database.transaction() as transaction:
            return transaction.rows(say.HISTORY, {"account": account})

    def open_runs(self, key: Key) -> list[str]:
        """Runs that hold a reservation and are not finished: running, or killed and not resumed."""
        with self.database.transaction() as transaction:
            row = self._row(transaction, key)
            return [r.run for r in transaction.rows(say.UNFINISHED, {"account": row.id, "running": RUNNING})]

    def committed(self, key: Key, run: str) -> list[tuple[str, Event]]:
        """Every commit of a run, in order."""
        with self.database.transaction() as transaction:
            row = self._row(transaction, key)
            found = transaction.rows(say.COMMITS, {"account": row.id, "run": run, "kind": "commit"})
        return [(release, event_from_dict(json.loads(body)["event"])) for release, body in found]

    def spent(self, key: Key) -> tuple[float, float]:
        """(composed epsilon of everything committed or reserved, limit epsilon)."""
        with self.database.transaction() as transaction:
            row = self._row(transaction, key)
        return Limit(row.epsilon, row.delta, row.rule).total(Holdings.from_json(row.held).cost), row.epsilon

    def verify(self) -> list[str]:
        """Check every chain and recompute every total; a list of problems, empty when all is well."""
        from taskveil.privacy.ledger.replay import replayed_cost

        problems: list[str] = []
        for row in self.accounts():
            history = self.rows(row.id)
            wrong = broken_links(row.name, history, row.head, row.entries)
            if not wrong and not _same(replayed_cost(history), Holdings.from_json(row.held).cost):
                wrong = [f"{row.name}: the stored total is not what the entries add up to"]
            problems += wrong
        return problems

    def key_for(self, name: str | None, unit: str, neighbours: str, observer: str) -> Key:
        """The account of a run: by name, with the run's own sentence; clear errors where there is none."""
        if name is not None and Key(name, unit, neighbours, observer) in self.database.known:
            return Key(name, unit, neighbours, observer)
        known = self.accounts()
        if name is None:
            names = sorted({row.name for row in known})
            if len(names) != 1:
                raise OptionError(
                    f"the ledger has {len(names)} accounts ({', '.join(names[:8]) or 'none'}); name one with account=... "
                    "or --account"
                )
            name = names[0]
        key = Key(name, unit, neighbours, observer)
        mine = [row for row in known if row.name == name]
        if not mine:
            raise UnknownName(
                f"no account {name!r} in this ledger; open it with: taskveil ledger set {name} --epsilon E --delta D"
            )
        if not any((r.unit, r.neighbours, r.observer) == (unit, neighbours, observer) for r in mine):
            kept = "; ".join(f"{r.unit}, {r.neighbours}, against {r.observer}" for r in mine)
            raise OptionError(
                f"account {name!r} is kept for ({kept}); this run protects ({unit}, {neighbours}, against {observer}). "
                "Open a second account for it with `taskveil ledger set`, or change the run."
            )
        self.database.known.add(key)
        return key

    # ---------------------------------------------------------- internals

    def _find(self, transaction: Transaction, key: Key) -> Any:
        chosen = say.ACCOUNT_LOCKED if self.database.locks_rows else say.ACCOUNT
        return next(iter(transaction.rows(chosen, key.columns())), None)

    def _row(self, transaction: Transaction, key: Key) -> Any:
        row = self._find(transaction, key)
        if row is None:
            raise UnknownName(f"no account {key} in this ledger; open it with `taskveil ledger set {key.name} ...`")
        return row

    def _run(self, transaction: Transaction, account: int, run: str) -> Any:
        return next(iter(transaction.rows(say.RUN, {"run": run, "account": account})), None)

    def _open_run(self, transaction: Transaction, account: int, run: str, key: Key) -> Any:
        state = self._run(transaction, account, run)
        if state is None or state.finished == FINISHED:
            why = "was never reserved" if state is None else "is finished"
            raise BudgetExceeded(f"run {run} on account {key} {why}; nothing was released.")
        return state

    def _was_committed(self, transaction: Transaction, run: str, release: str) -> bool:
        return bool(transaction.rows(say.COMMITTED_BEFORE, {"run": run, "release": release, "kind": "commit"}))

    def _append(self, transaction: Transaction, row: Any, new: list[dict[str, str]], **changes: Any) -> list[str]:
        """More entries, and the account's row brought up to date with them; returns their ids."""
        at, head, rows = datetime.now(UTC).isoformat(timespec="microseconds"), row.head, []
        for number, entry in enumerate(new, start=row.entries + 1):
            hashed = link(head, row.name, number, entry["run"], entry["kind"], entry["release"], entry["body"], at)
            rows.append({"account": row.id, "number": number, **entry, "at": at, "previous": head, "hash": hashed})
            head = hashed
        transaction.run_many(say.APPEND, rows)
        moved = {"which": row.id, "entries": rows[-1]["number"], "head": head, **changes}
        transaction.run(say.ADVANCE[tuple(changes)], moved)
        return [f"{row.name}/{entry['number']}" for entry in rows]


def _entry(kind: str, body: str, run: str = "", release: str = "") -> dict[str, str]:
    return {"run": run, "kind": kind, "release": release, "body": body}


def unused(left: list[dict[str, Any]], delta: float, nothing_committed: bool) -> Cost:
    """What a finished run gives back: Renyi parts event by event, summed epsilons only where nothing was released."""
    charges = [Charge(event_from_dict(item["event"]), item["count"]) for item in left if item["count"]]
    cost = cost_of(charges, delta)
    return cost if nothing_committed else Cost(cost.curve, cost.slack, cost.failure, 0.0, 0.0)


def taken_from(left: list[dict[str, Any]], event: Event) -> bool:
    """Take one such event out of the reservation; False where it holds none any more."""
    wanted = event.to_dict()
    for item in left:
        if item["event"] == wanted and item["count"] > 0:
            item["count"] -= 1
            return True
    return False


def _plain(charges: Sequence[Charge]) -> list[dict[str, Any]]:
    """Equal events written once, with their count."""
    counts: Counter[Event] = Counter()
    for charge in charges:
        counts[charge.event] += charge.count
    return [{"event": event.to_dict(), "count": count} for event, count in counts.items()]


def _require(limit: Limit, held: Cost, cost: Cost, key: Key, what: str) -> None:
    after = held + cost
    if limit.fits(after):
        return
    now, then = limit.total(held), limit.total(after)
    raise BudgetExceeded(
        f"account {key} has spent epsilon {now:.4g} of {limit.epsilon:g} at delta {limit.delta:g}; {what}, which would "
        f"bring it to {then:.4g}. Nothing was released. Use fewer rounds or a smaller epsilon, or see "
        f"`taskveil ledger show`."
    )


def _same(a: Cost, b: Cost) -> bool:
    import numpy as np

    return bool(
        np.allclose(a.curve, b.curve, rtol=1e-6, atol=1e-9)
        and abs(a.epsilon - b.epsilon) <= 1e-6 * (1 + abs(b.epsilon))
        and abs(a.delta - b.delta) <= 1e-9
    )
