"""The one place that charges and adds noise.

    release(planned, bounded, account, source, aggregation)
    release_together([(planned, bounded, source), ...], account, aggregation)   the releases of one round
    release_alongside([(planned, source), ...], start, account)                 the same, charged before the sums are computed

Order, always: check the input, commit the planned event to the account (durable before it returns), draw
noise, return the noisy total. An account that refuses raises, and no noise is drawn. Only `Bounded` values
get in, and only those clipped for exactly the planned contribution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from taskveil.errors import OptionError
from taskveil.privacy.aggregation import AGGREGATIONS, TaskNames
from taskveil.privacy.bounds import Bounded, FloatArray
from taskveil.privacy.events import Event
from taskveil.privacy.plan import PlannedRelease
from taskveil.privacy.randomness import NoiseSource
from taskveil.privacy.spending import Account


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
        raise OptionError(f"a sum over tasks is all there is here; aggregation {aggregation!r} needs one message per task")
