"""The one place that charges and adds noise.

    release(planned, bounded, account, source, aggregation)
    release_together([(planned, bounded, source), ...], account, aggregation)   the releases of one round
    release_alongside([(planned, source), ...], start, account)                 the same, charged before the sums are computed

Order, always: check the input, commit the planned event to the account (durable before it returns), draw
noise, return the noisy total. An account that refuses raises, and no noise is drawn. Only `Bounded` values
get in, and only those clipped for exactly the planned contribution.

Accounts: reserve the whole plan first, commit every release before its noise is drawn.

Rules: nothing is committed that was not reserved; a release is committed once; a commit is never refunded,
whatever happens to the noise afterwards. `MemoryAccount` lives in the process; privacy/ledger keeps the
same protocol durable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from taskveil.errors import BudgetExceeded, OptionError
from taskveil.privacy.aggregation import AGGREGATIONS, TaskNames
from taskveil.privacy.bounds import Bounded, FloatArray
from taskveil.privacy.events import Charge, Event
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.randomness import NoiseSource

BEYOND_TOTAL = "release {0!r} does not fit into what is left of the total this run has declared. Nothing was released."


class Account(Protocol):
    """What release.py and runtimes need from an account."""

    def reserve(self, plan: Plan) -> None:
        """Set the cost of the whole plan aside, or raise BudgetExceeded; nothing is released on refusal."""

    def commit(self, *planned: PlannedRelease) -> str:
        """Write releases down, all or none, before the noise of any is drawn; returns the id of the last entry."""

    def finish(self) -> bool | None:
        """No more commits for this plan; what was reserved and not committed is given back, where books can (None: no books)."""

    def spent(self) -> list[Charge]:
        """All committed charges."""


class MemoryAccount:
    """An account of one process: the plan's budget is the limit. Limits over several runs are the ledger's."""

    def __init__(self) -> None:
        self._open: dict[str, PlannedRelease] = {}
        self._total: Event | None = None  # what is left of it, where the open plan has one
        self._charges: list[Charge] = []

    def reserve(self, plan: Plan) -> None:
        """Take the plan's releases, one plan after another."""
        if self._open:
            raise BudgetExceeded("another plan is still open on this account; call finish() first. Nothing was released.")
        self._open, self._total = {release.id: release for release in plan.releases}, plan.total

    def commit(self, *planned: PlannedRelease) -> str:
        """Refuse what was not reserved or was committed before."""
        left, total = dict(self._open), self._total
        for one in planned:
            if left.pop(one.id, None) != one:
                raise BudgetExceeded(f"release {one.id!r} was not reserved, or was already made. Nothing was released.")
            total = None if total is None else total.without(one.event)
            if total is None and self._total is not None:
                raise BudgetExceeded(BEYOND_TOTAL.format(one.id))
        self._open, self._total = left, total
        self._charges += [Charge(one.event) for one in planned]
        return planned[-1].id

    def finish(self) -> None:
        """Give back what was reserved and not committed."""
        self._open, self._total = {}, None

    def spent(self) -> list[Charge]:
        """All committed charges, in order."""
        return list(self._charges)


@dataclass(frozen=True)
class Release:
    """A noisy total, free to be seen by the observers of its aggregation."""

    name: str
    round: int
    value: FloatArray
    event: Event


def release(
    planned: PlannedRelease,
    bounded: Bounded,
    account: Account,
    source: NoiseSource,
    aggregation: str = "curator",
    tasks: TaskNames | None = None,
) -> Release:
    """Charge, then noise. `tasks` names the rows of `bounded` (keys of seeded noise under 'local')."""
    return next(release_together([(planned, bounded, source)], account, aggregation, tasks))


def release_together(
    wanted: Sequence[tuple[PlannedRelease, Bounded, NoiseSource]],
    account: Account,
    aggregation: str = "curator",
    tasks: TaskNames | None = None,
) -> Iterator[Release]:
    """The releases of one round: all are charged, all or none, before the noise of the first is drawn."""
    for planned, bounded, _ in wanted:
        _check(planned, bounded, aggregation)
    way = AGGREGATIONS.get(aggregation)
    account.commit(*(planned for planned, _, _ in wanted))
    for planned, bounded, source in wanted:
        yield Release(planned.name, planned.round, way.combine(planned, bounded, source, tasks), planned.event)


def release_alongside(
    wanted: Sequence[tuple[PlannedRelease, NoiseSource]], start: Callable[[], Callable[[], Sequence[Bounded]]], account: Account
) -> Iterator[Release]:
    """The releases of a round whose sums take long: noise is drawn while they are computed, by a curator.

    All are charged first, durably. Then `start` sends the computation off and returns the function that waits for its sums. A
    computation that fails stays charged: its noise may have been drawn.
    """
    account.commit(*(planned for planned, _ in wanted))
    wait = start()
    drawn = [p.mechanism.draw(p.contribution, source.at(p.round, p.name)) for p, source in wanted]
    for (planned, _), noise, bounded in zip(wanted, drawn, wait(), strict=True):
        _check(planned, bounded, "curator")
        total = planned.contribution.total(bounded)
        yield Release(planned.name, planned.round, planned.mechanism.put(planned.contribution, total, noise), planned.event)


def _check(planned: PlannedRelease, bounded: Bounded, aggregation: str) -> None:
    if not isinstance(bounded, Bounded):
        raise TypeError("only clipped values can be released: expected a Bounded made by contribution.clip")
    if bounded.contribution != planned.contribution:
        raise OptionError(f"release {planned.id!r} was planned for {planned.contribution!r}, not for {bounded.contribution!r}")
    if bounded.summed and aggregation != "curator":
        raise OptionError(f"only the sum over tasks is known here; aggregation {aggregation!r} needs one message per task")


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
