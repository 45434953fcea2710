"""The durable account of one run: the `Account` protocol of spending.py over a ledger."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from taskveil.privacy.aggregation import AGGREGATIONS
from taskveil.privacy.events import Charge, Event
from taskveil.privacy.ledger.book import Book
from taskveil.privacy.ledger.reach import Key
from taskveil.privacy.units import Neighbours

if TYPE_CHECKING:
    from taskveil.privacy.plan import Budget, Plan, PlannedRelease


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

        done = self.book.commit_all(self.key, self.run, releases)
        self._complete = done.left == 0
        return done.entries[-1]

    def finish(self) -> None:
        """Give back what was reserved and never committed."""
        if not self._complete:
            self.book.finish(self.key, self.run)

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
