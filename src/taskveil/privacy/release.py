"""The one place that charges and adds noise.

    release(planned, bounded, account, source, aggregation)

Order, always: check the input, commit the planned event to the account (durable before it returns), draw
noise, return the noisy total. An account that refuses raises, and no noise is drawn. Only `Bounded` values
get in, and only those clipped for exactly the planned contribution.
"""

from __future__ import annotations

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
    if not isinstance(bounded, Bounded):
        raise TypeError("only clipped values can be released: expected a Bounded made by contribution.clip")
    if bounded.contribution != planned.contribution:
        raise OptionError(
            f"release {planned.id!r} was planned for {planned.contribution!r}, "
            f"not for {bounded.contribution!r}"
        )
    way = AGGREGATIONS.get(aggregation)
    if bounded.summed and aggregation != "curator":
        raise OptionError(
            f"a sum over tasks is all there is here; aggregation {aggregation!r} needs one message per task"
        )
    account.commit(planned)
    return Release(planned.name, planned.round, way.combine(planned, bounded, source, tasks), planned.event)


def release_sum(planned: PlannedRelease, raw_sum: Bounded, account: Account, source: NoiseSource) -> Release:
    """The same for a jitted round that ends at the clipped sum (`contributions.seal_clipped_sum`)."""
    if not (isinstance(raw_sum, Bounded) and raw_sum.summed):
        raise TypeError("release_sum expects a Bounded sum made by seal_clipped_sum")
    return release(planned, raw_sum, account, source, "curator")
