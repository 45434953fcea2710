"""The durable account of one run: the `Account` protocol of spending.py over a ledger."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from taskveil.privacy.events import Charge
from taskveil.privacy.ledger.book import Book, Key

if TYPE_CHECKING:
    from taskveil.privacy.plan import Plan, PlannedRelease


class LedgerAccount:
    """One run on one account. With the id of an earlier run it goes on where that one stopped."""

    def __init__(self, book: Book, key: Key, run: str | None = None):
        self.book, self.key = book, key
        self._new = uuid.uuid4().hex
        self.run = run or self._new  # known before it is reserved, so that a crash in between loses nothing
        self._complete = False

    def reserve(self, plan: Plan) -> None:
        """Set the whole plan aside, unless this is a run that was reserved before."""
        resumed = self.run != self._new
        self.book.reserve(self.key, plan.charges(), plan.budget.delta, self.run, resumed=resumed)

    def commit(self, *planned: PlannedRelease) -> str:
        """Durable when it returns; the noise is drawn afterwards."""
        done = self.book.commit_all(self.key, self.run, [(p.id, p.event) for p in planned])
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
    ledger: Any, account: str | None, plan: Plan, observer: str = "other-tasks", run: str | None = None
) -> LedgerAccount:
    """The account of a run with this plan. `ledger` is a URL or an open Book."""
    book = ledger if isinstance(ledger, Book) else Book(str(ledger))
    budget = plan.budget
    key = book.key_for(account, budget.unit.value, budget.neighbours.value, observer)
    return LedgerAccount(book, key, run)
