"""One account for many: what all nodes or sites of a run in one process charge to."""

from __future__ import annotations

import threading

from taskveil.privacy.events import Charge
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.release import Account


class SharedAccount:
    """One account for many nodes of a run: release k is charged once, before the first of them draws its noise for it.

    A record enters the messages of its own node only, so nodes compose in parallel, and everybody's own events are a prefix of
    what is charged. Whoever owns the account has reserved the plan and will close it; without one there is nothing to charge.
    """

    def __init__(self, account: Account | None = None) -> None:
        self._account, self._seen, self._lock = account, set[str](), threading.Lock()

    def commit(self, *planned: PlannedRelease) -> str:
        with self._lock:
            new = [p for p in planned if p.id not in self._seen]
            if self._account is not None and new:
                self._account.commit(*new)
            self._seen.update(p.id for p in new)
        return planned[-1].id

    def reserve(self, plan: Plan) -> None:
        """Done by the owner, for everybody."""

    def finish(self) -> None:
        """Done by the owner."""

    def spent(self) -> list[Charge]:
        return [] if self._account is None else self._account.spent()
