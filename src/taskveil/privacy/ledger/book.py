"""The rules of the ledger. Every public function is one transaction; what it decides is durable when it returns.

1. The whole plan is reserved before the first round, or refused (BudgetExceeded, exit 3): nothing is released then.
2. Every release is committed before its noise is drawn. A commit is never refunded.
3. A release committed twice (a run that was killed and resumed) is charged twice.
4. What was reserved and never committed is given back when the run is finished; its noise was never drawn, because
   drawing it needs a commit, and a finished run takes none.
5. Entries are append-only and chained by hashes; totals can be recomputed from them.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

from taskveil.errors import BudgetExceeded, OptionError, UnknownName
from taskveil.privacy.events import Charge, Event, event_from_dict
from taskveil.privacy.guarantees import check_delta
from taskveil.privacy.ledger import statements as say
from taskveil.privacy.ledger.chain import START, broken_links, link
from taskveil.privacy.ledger.database import Database
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


class Book:
    """All accounts of one database."""

    def __init__(self, url: str):
        self.database = Database(url)

    def close(self) -> None:
        self.database.close()

    # ------------------------------------------------------------ limits

    def set_limit(self, key: Key, epsilon: float, delta: float) -> None:
        """Open an account, or change its limit. Lowering it below what is spent only stops further spending."""
        if not 0 < epsilon < float("inf"):
            raise OptionError(f"the limit epsilon must be positive and finite, got {epsilon!r}")
        check_delta(delta)
        body = json.dumps({"epsilon": epsilon, "delta": delta})
        with self.database.transaction() as connection:
            row = self._find(connection, key)
            if row is None:
                opened = {"epsilon": epsilon, "delta": delta, "rule": OPEN, "held": Holdings().to_json()}
                connection.execute(say.OPEN_ACCOUNT, {**key.columns(), **opened, "entries": 0, "head": START})
                row = self._find(connection, key)
            assert row is not None
            self._append(connection, row, run="", kind="limit", body=body, epsilon=epsilon, delta=delta)

    # ---------------------------------------------------------- spending

    def reserve(self, key: Key, charges: Sequence[Charge], delta: float, run: str | None = None) -> str:
        """Set a whole plan aside; returns the id of the run. A run that was reserved before keeps what it has."""
        known, run = run is not None, run or uuid.uuid4().hex
        with self.database.transaction() as connection:
            row = self._row(connection, key)
            if known and self._run(connection, row.id, run) is not None:
                return run
            cost = cost_of(charges, min(delta, row.delta))
            held = Holdings.from_json(row.held).cost
            limit = Limit(row.epsilon, row.delta, row.rule).decided(cost)
            _require(limit, held, cost, key, f"this run plans {sum(c.count for c in charges)} release(s)")
            body = {"charges": _plain(charges), "delta": min(delta, row.delta), "rule": limit.rule}
            self._append(
                connection, row, run=run, kind="reserve", body=json.dumps(body),
                held=Holdings(held + cost).to_json(), rule=limit.rule,
            )  # fmt: skip
            opened = {"run": run, "account": row.id, "delta": body["delta"], "left": json.dumps(body["charges"])}
            connection.execute(say.OPEN_RUN, {**opened, "committed": 0, "finished": 0})
        return run

    def commit(self, key: Key, run: str, release: str, event: Event) -> str:
        """Write one release of a run down. A release that was committed before is charged again, or refused."""
        with self.database.transaction() as connection:
            row = self._row(connection, key)
            state = self._open_run(connection, row.id, run, key)
            left, changes = taken_from(json.loads(state.left), event), {}
            extra = left is None or self._was_committed(connection, run, release)
            if extra:
                event = event.made_again()
                cost, held = cost_of([Charge(event)], row.delta), Holdings.from_json(row.held).cost
                limit = Limit(row.epsilon, row.delta, row.rule)
                _require(limit, held, cost, key, f"release {release!r} must be charged once more")
                changes = {"held": Holdings(held + cost).to_json()}
                left = json.loads(state.left)
            body = json.dumps({"event": event.to_dict(), "extra": extra})
            values = {"left": json.dumps(left), "committed": state.committed + 1}
            connection.execute(say.COUNT_COMMIT, {"which": run, **values})
            return self._append(connection, row, run=run, kind="commit", body=body, release=release, **changes)

    def finish(self, key: Key, run: str) -> None:
        """No more commits; what was reserved and never committed goes back. Finishing twice does nothing."""
        with self.database.transaction() as connection:
            row = self._row(connection, key)
            state = self._run(connection, row.id, run)
            if state is None or state.finished:
                return
            left, changes = json.loads(state.left), {}
            if any(item["count"] for item in left):
                back = unused(left, state.delta, nothing_committed=state.committed == 0)
                changes = {"held": Holdings(Holdings.from_json(row.held).cost.minus(back)).to_json()}
            connection.execute(say.FINISH_RUN, {"which": run})
            self._append(connection, row, run=run, kind="finish", body="{}", **changes)

    # ----------------------------------------------------------- reading

    def accounts(self) -> list[Any]:
        with self.database.transaction() as connection:
            return list(connection.execute(say.ALL_ACCOUNTS).all())

    def rows(self, account: int) -> list[Any]:
        with self.database.transaction() as connection:
            return list(connection.execute(say.HISTORY, {"account": account}).all())

    def open_runs(self, key: Key) -> list[str]:
        """Runs that hold a reservation and are not finished: running, or killed and not resumed."""
        with self.database.transaction() as connection:
            row = self._row(connection, key)
            return list(connection.execute(say.UNFINISHED, {"account": row.id}).scalars())

    def committed(self, key: Key, run: str) -> list[tuple[str, Event]]:
        """Every commit of a run, in order."""
        with self.database.transaction() as connection:
            row = self._row(connection, key)
            found = connection.execute(say.COMMITS, {"account": row.id, "run": run}).all()
        return [(release, event_from_dict(json.loads(body)["event"])) for release, body in found]

    def spent(self, key: Key) -> tuple[float, float]:
        """(composed epsilon of everything committed or reserved, limit epsilon)."""
        with self.database.transaction() as connection:
            row = self._row(connection, key)
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
        return key

    # ---------------------------------------------------------- internals

    def _find(self, connection: Connection, key: Key) -> Any:
        chosen = say.ACCOUNT_LOCKED if self.database.locks_rows else say.ACCOUNT
        return connection.execute(chosen, key.columns()).one_or_none()

    def _row(self, connection: Connection, key: Key) -> Any:
        row = self._find(connection, key)
        if row is None:
            raise UnknownName(f"no account {key} in this ledger; open it with `taskveil ledger set {key.name} ...`")
        return row

    def _run(self, connection: Connection, account: int, run: str) -> Any:
        return connection.execute(say.RUN, {"run": run, "account": account}).one_or_none()

    def _open_run(self, connection: Connection, account: int, run: str, key: Key) -> Any:
        state = self._run(connection, account, run)
        if state is None or state.finished:
            why = "was never reserved" if state is None else "is finished"
            raise BudgetExceeded(f"run {run} on account {key} {why}; nothing was released.")
        return state

    def _was_committed(self, connection: Connection, run: str, release: str) -> bool:
        return connection.execute(say.COMMITTED_BEFORE, {"run": run, "release": release}).first() is not None

    def _append(
        self, connection: Connection, row: Any, *, run: str, kind: str, body: str, release: str = "", **changes: Any
    ) -> str:
        """One more entry, and the account's row brought up to date with it."""
        number, at = row.entries + 1, datetime.now(UTC).isoformat(timespec="microseconds")
        hashed = link(row.head, row.name, number, run, kind, release, body, at)
        entry = {"run": run, "kind": kind, "release": release, "body": body, "at": at, "previous": row.head, "hash": hashed}
        connection.execute(say.APPEND, {"account": row.id, "number": number, **entry})
        moved = {"which": row.id, "entries": number, "head": hashed, **changes}
        connection.execute(say.ADVANCE[tuple(changes)], moved)
        return f"{row.name}/{number}"


def unused(left: list[dict[str, Any]], delta: float, nothing_committed: bool) -> Cost:
    """What a finished run gives back: Renyi parts event by event, summed epsilons only where nothing was released."""
    charges = [Charge(event_from_dict(item["event"]), item["count"]) for item in left if item["count"]]
    cost = cost_of(charges, delta)
    return cost if nothing_committed else Cost(cost.curve, cost.slack, cost.failure, 0.0, 0.0)


def taken_from(left: list[dict[str, Any]], event: Event) -> list[dict[str, Any]] | None:
    """The reservation less one such event; None where it holds none any more."""
    wanted = event.to_dict()
    for item in left:
        if item["event"] == wanted and item["count"] > 0:
            item["count"] -= 1
            return left
    return None


def _plain(charges: Sequence[Charge]) -> list[dict[str, Any]]:
    """Equal events written once, with their count."""
    counts: dict[str, int] = {}
    for charge in charges:
        key = json.dumps(charge.event.to_dict(), sort_keys=True)
        counts[key] = counts.get(key, 0) + charge.count
    return [{"event": json.loads(key), "count": count} for key, count in counts.items()]


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
