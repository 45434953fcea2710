"""The rules of the ledger. Every public function is one transaction; what it decides binds all processes when it returns.

1. The whole plan is reserved before the first round, or refused (BudgetExceeded, exit 3): nothing is released then.
   A reservation outlives its process but need not outlive a power cut: the run that held it has ended then, nothing of
   it was released, and resuming it reserves again. It is on the disk with the run's first commit at the latest.
2. Every release is committed, durably, before its noise is drawn. A commit is never refunded.
3. A release committed twice (a run that was killed and resumed) is charged twice.
4. What was reserved and never committed is given back when the run is finished; its noise was never drawn, because
   drawing it needs a commit, and a finished run takes none. A run that has committed all it reserved is complete: it has
   nothing to give back, and a release it makes again is charged again (rule 3).
5. Entries are append-only and chained by hashes; every column can be recomputed from them.
6. A run is charged to every account of its name that its statements reach (reach.py), in one transaction: all of them, or none.
   An account opened later starts with what earlier runs have spent against its observer (carry.py).
7. Lowering a limit below what is held stops every further commit, also of runs reserved before.

`LedgerAccount` is the durable account of one run: the `Account` protocol of release.py over this book.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from taskveil.checks import Number, Text
from taskveil.errors import BudgetExceeded, OptionError, UnknownName
from taskveil.privacy.aggregation import AGGREGATIONS
from taskveil.privacy.event_table import event_from_dict
from taskveil.privacy.events import Charge, Event
from taskveil.privacy.guarantees import check_delta
from taskveil.privacy.ledger import statements as say
from taskveil.privacy.ledger.carry import carry_over
from taskveil.privacy.ledger.database import UNREADABLE, Database, Transaction
from taskveil.privacy.ledger.holdings import GAUSSIAN, OPEN, Holdings, Limit
from taskveil.privacy.ledger.posting import RUNNING, START, Committed, append, commit_in, entry, finish_in, reserve_in
from taskveil.privacy.ledger.reach import Key, Priced, Reach
from taskveil.privacy.units import Neighbours

if TYPE_CHECKING:
    from taskveil.privacy.plan import Budget, Plan, PlannedRelease


class Book:
    """All accounts of one database."""

    def __init__(self, url: str):
        self.database = Database(url)

    def close(self) -> None:
        """Lets go of the database; the book can be opened again."""
        self.database.close()

    # ------------------------------------------------------------ limits

    def set_limit(self, key: Key, epsilon: float, delta: float, rule: str | None = None) -> None:
        """Open an account, or change its limit. Lowering it below what is spent only stops further spending.

        `rule="gaussian"` is for accounts whose releases are all Gaussian and unsampled. It is chosen when an account is opened.
        `None` leaves the rule to the first run (holdings.py).
        """
        Text(200).check("an account name", key.name)
        Number(above=0).check("the limit epsilon", epsilon)
        check_delta(delta)
        if rule not in (None, GAUSSIAN):
            raise OptionError(f"a rule is chosen by the first run, or {GAUSSIAN!r}; got {rule!r}")
        body = json.dumps({"epsilon": epsilon, "delta": delta, **key.sentence(), **({"rule": rule} if rule else {})})
        with self.database.transaction() as transaction:
            rows = self._rows(transaction, key.name)
            row = _row_of(rows, key)
            if row is None:
                opened = {"epsilon": epsilon, "delta": delta, "rule": rule or OPEN, "held": Holdings().to_json()}
                transaction.run(say.OPEN_ACCOUNT, {**key.columns(), **opened, "entries": 0, "head": START})
                row = _row_of(self._rows(transaction, key.name), key)
                append(transaction, row, [entry("limit", body)], epsilon=epsilon, delta=delta)
                carry_over(transaction, key)
            elif rule not in (None, row.rule):
                raise OptionError(f"account {key} composes by the rule {row.rule!r}; a rule is chosen when an account is opened")
            else:
                append(transaction, row, [entry("limit", body)], epsilon=epsilon, delta=delta)

    # ---------------------------------------------------------- spending

    def reserve(
        self,
        key: Key,
        charges: Priced[Charge],
        delta: float,
        run: str | None = None,
        *,
        also: Sequence[str] = (),
        resumed: bool = True,
    ) -> str:
        """Reserve a whole plan in every account that it is charged to, and return the id of the run.

        An account in which the run was reserved before keeps what it has. `also` names further observers the run makes a
        statement against; `resumed=False` says that the id is new, which saves looking for it.
        """
        continued, run, reach = resumed and run is not None, run or uuid.uuid4().hex, Reach.of(key, also)
        with self.database.transaction(durable=False) as transaction:
            rows = self._rows(transaction, key.name)
            if _row_of(rows, key) is None:
                raise _no_account(key)
            held = {state.account for state in transaction.rows(say.RUN, {"run": run})} if continued else set()
            for row in rows:
                if reach.relation(Key.of(row)) is not None and row.id not in held:
                    reserve_in(transaction, row, reach, reach.price(charges, Key.of(row)), delta, run)
        return run

    def commit(self, key: Key, run: str, release: str, event: Event) -> str:
        """Record one release of a run."""
        return self.commit_all(key, run, [(release, event)]).entries[0]

    def commit_all(self, key: Key, run: str, releases: Priced[tuple[str, Event]]) -> Committed:
        """Record releases of a run, all or none, in every account that the run is charged to.

        One that was committed before is charged again, or refused.
        """
        with self.database.transaction() as transaction:
            reserved = self._reserved(transaction, key, run)
            if not any(Key.of(row) == key for row, _ in reserved):
                raise BudgetExceeded(f"run {run} on account {key} was never reserved; nothing was released.")
            entries: list[str] = []
            left = 0
            for row, state in reserved:
                account = Key.of(row)
                reach = Reach(key.unit, key.neighbours, (account.observer,))
                written = commit_in(transaction, row, state, reach.price(releases, account))
                entries, left = written.entries if account == key else entries, max(left, written.left)
            return Committed(entries, left)

    def finish(self, key: Key, run: str) -> bool:
        """End a run: what was reserved and never committed goes back. Finishing twice does nothing.

        Returns whether every account can give back a part.
        """
        with self.database.transaction() as transaction:
            can = [finish_in(transaction, row, state) for row, state in self._reserved(transaction, key, run)]
            return all(can)

    # ----------------------------------------------------------- reading

    def accounts(self) -> list[Any]:
        """All accounts with their limits."""
        with self.database.transaction() as transaction:
            return transaction.rows(say.ALL_ACCOUNTS)

    def rows(self, account: int) -> list[Any]:
        """All entries of an account, in order."""
        with self.database.transaction() as transaction:
            return transaction.rows(say.HISTORY, {"account": account})

    def open_runs(self, key: Key) -> list[str]:
        """Runs that hold a reservation and are not finished: running, or killed and not resumed."""
        with self.database.transaction() as transaction:
            row = self._row(transaction, key)
            return [r.run for r in transaction.rows(say.UNFINISHED, {"account": row.id, "running": RUNNING})]

    def runs_of(self, name: str) -> set[str]:
        """Ids of all runs charged to an account of this name."""
        with self.database.transaction() as transaction:
            rows = transaction.rows(say.ACCOUNTS, {"name": name})
            return {state.run for row in rows for state in transaction.rows(say.RUNS_OF, {"account": row.id})}

    def committed(self, key: Key, run: str) -> list[tuple[str, Event]]:
        """Every commit of a run, in order."""
        with self.database.transaction() as transaction:
            row = self._row(transaction, key)
            rows = transaction.rows(say.COMMITS, {"account": row.id, "run": run, "kind": "commit"})
            return [(release, event_from_dict(json.loads(body)["event"])) for release, body in rows]

    def reserved(self, key: Key, run: str) -> list[Charge]:
        """What a run has reserved before its first release."""
        with self.database.transaction() as transaction:
            row = self._row(transaction, key)
            found = transaction.rows(say.COMMITS, {"account": row.id, "run": run, "kind": "reserve"})
            items = [item for _, body in found for item in json.loads(body)["charges"]]
            return [Charge(event_from_dict(item["event"]), item["count"]) for item in items]

    def spent(self, key: Key) -> tuple[float, float]:
        """(composed epsilon of everything committed or reserved, limit epsilon)."""
        with self.database.transaction() as transaction:
            row = self._row(transaction, key)
            return Limit(row.epsilon, row.delta, row.rule).total(Holdings.from_json(row.held).cost), row.epsilon

    def verify(self) -> list[str]:
        """Check every chain and recompute every column; a list of problems, empty when all is well."""
        from taskveil.privacy.ledger.replay import account_problems

        problems: list[str] = []
        for row in self.accounts():
            with self.database.transaction() as transaction:
                states = transaction.rows(say.RUNS_OF, {"account": row.id})
            try:
                problems += account_problems(row, self.rows(row.id), states)
            except UNREADABLE as problem:
                problems.append(f"{row.name}: a cell cannot be read any more ({type(problem).__name__})")
        return problems

    def key_for(self, name: str | None, unit: str, neighbours: str, observer: str) -> Key:
        """The account of a run: by name, with the run's own sentence; clear errors where there is none."""
        if name is not None and Key(name, unit, neighbours, observer) in self.database.open_accounts:
            return Key(name, unit, neighbours, observer)
        accounts = self.accounts()
        if name is None:
            names = sorted({row.name for row in accounts})
            if len(names) != 1:
                raise OptionError(
                    f"the ledger has {len(names)} accounts ({', '.join(names[:8]) or 'none'}); name one with account=... "
                    "or --account"
                )
            name = names[0]
        key = Key(name, unit, neighbours, observer)
        mine = [row for row in accounts if row.name == name]
        if not mine:
            raise UnknownName(
                f"no account {name!r} in this ledger; open it with: taskveil ledger set {name} --epsilon E --delta D"
            )
        if not any((r.unit, r.neighbours, r.observer) == (unit, neighbours, observer) for r in mine):
            choices = "; ".join(f"{r.unit}, {r.neighbours}, against {r.observer}" for r in mine)
            raise OptionError(
                f"account {name!r} is kept for ({choices}); this run protects ({unit}, {neighbours}, against {observer}). "
                "Open a second account for it with `taskveil ledger set`, or change the run."
            )
        self.database.open_accounts.add(key)
        return key

    # ---------------------------------------------------------- internals

    def _rows(self, transaction: Transaction, name: str) -> list[Any]:
        """All accounts of a name, locked, always in the same order."""
        return transaction.rows(say.ACCOUNTS_LOCKED if self.database.locks_rows else say.ACCOUNTS, {"name": name})

    def _row(self, transaction: Transaction, key: Key) -> Any:
        row = _row_of(self._rows(transaction, key.name), key)
        if row is None:
            raise _no_account(key)
        return row

    def _reserved(self, transaction: Transaction, key: Key, run: str) -> list[tuple[Any, Any]]:
        """Accounts of this name that hold the run, each with the run's state in it."""
        rows = {row.id: row for row in self._rows(transaction, key.name)}
        if _row_of(list(rows.values()), key) is None:
            raise _no_account(key)
        return [(rows[state.account], state) for state in transaction.rows(say.RUN, {"run": run}) if state.account in rows]


def _row_of(rows: Sequence[Any], key: Key) -> Any:
    return next((row for row in rows if Key.of(row) == key), None)


def _no_account(key: Key) -> UnknownName:
    return UnknownName(f"no account {key} in this ledger; open it with `taskveil ledger set {key.name} ...`")


class LedgerAccount:
    """One run on every account of a name that it reaches. With the id of an earlier run it goes on where that one stopped."""

    def __init__(self, book: Book, key: Key, budget: Budget, run: str | None = None, also: Sequence[str] = ()):
        self.book, self.key, self.budget, self.also = book, key, budget, tuple(also)
        self._new = uuid.uuid4().hex
        self.run = run or self._new  # known before it is reserved, so that a crash in between loses nothing
        self._complete = False

    @property
    def charged(self) -> dict[str, str]:
        """Where the books hold this run."""
        return {"account": self.key.name, "run": self.run}

    def reserve(self, plan: Plan) -> None:
        """Set the whole plan aside, unless this is a run that was reserved before."""
        resumed = self.run != self._new

        def charges(neighbours: str) -> list[Charge]:
            return plan.charges(Neighbours(neighbours))

        self.book.reserve(self.key, charges, plan.budget.delta, self.run, also=self.also, resumed=resumed)

    def commit(self, *planned: PlannedRelease) -> str:
        """Durable when it returns; the noise is drawn afterwards."""

        def releases(neighbours: str) -> list[tuple[str, Event]]:
            return [(p.id, p.event_under(Neighbours(neighbours), self.budget)) for p in planned]

        outcome = self.book.commit_all(self.key, self.run, releases)
        self._complete = outcome.left == 0
        return outcome.entries[-1]

    def finish(self) -> bool:
        """Give back what was reserved and never committed, where the accounts can."""
        return self._complete or self.book.finish(self.key, self.run)

    def spent(self) -> list[Charge]:
        """Every commit of this run."""
        return [Charge(event) for _, event in self.committed()]

    def committed(self) -> list[tuple[str, Any]]:
        """(release id, event) of every commit of this run, in order; a release charged twice stands twice."""
        return self.book.committed(self.key, self.run)


def open_account(
    ledger: Any, account: str | None, plan: Plan, observer: str = "other-tasks", run: str | None = None, also: Sequence[str] = ()
) -> LedgerAccount:
    """The account of a run with this plan. `ledger` is a URL or an open Book.

    `observer` names the account; `also` lists observers the method covers beyond those of the plan's aggregation.
    """
    book = ledger if isinstance(ledger, Book) else Book(str(ledger))
    budget = plan.budget
    key = book.key_for(account, budget.unit.value, budget.neighbours.value, observer)
    covered = [o.value for o in AGGREGATIONS.get(budget.aggregation).observers]
    return LedgerAccount(book, key, budget, run, [*covered, *also])
