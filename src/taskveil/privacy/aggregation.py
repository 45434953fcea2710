"""Where noise enters: the table of aggregations, called by release.py only, after the charge.

    curator   the server sums clipped messages and adds noise once; protects against the other tasks
    local     every task adds full noise to its own message; protects against the server too
    (secure)  shares of noise inside a secure sum; a later entry in this table

An aggregation gets the planned release, the bounded messages, the noise source and the task names, and
returns the noisy total; `observers` are those against whom the result is protected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from taskveil.privacy.bounds import Bounded, FloatArray
from taskveil.privacy.randomness import NoiseSource
from taskveil.privacy.units import Observer
from taskveil.registry import Table

if TYPE_CHECKING:
    from taskveil.privacy.plan import PlannedRelease

TaskNames = Sequence[str | int]


@dataclass(frozen=True)
class Aggregation:
    """One way to sum and noise."""

    name: str
    observers: tuple[Observer, ...]
    combine: Callable[[PlannedRelease, Bounded, NoiseSource, TaskNames | None], FloatArray]
    server_sees: str | None  # for the certificate's not_protected
    hides_cohort: bool = False  # whether no observer of this aggregation learns which tasks take part


def _curator(
    planned: PlannedRelease, bounded: Bounded, source: NoiseSource, tasks: TaskNames | None
) -> FloatArray:
    total = planned.contribution.total(bounded)
    return planned.mechanism.add(planned.contribution, total, source.at(planned.round, planned.name))


def _local(
    planned: PlannedRelease, bounded: Bounded, source: NoiseSource, tasks: TaskNames | None
) -> FloatArray:
    own = planned.contribution.each(bounded)
    names = range(len(own)) if tasks is None else tasks
    noisy = np.zeros(planned.contribution.total_shape)
    for message, task in zip(own, names, strict=True):
        noisy += planned.mechanism.add(
            planned.contribution, message, source.at(planned.round, planned.name, task)
        )
    return noisy


AGGREGATIONS: Table[Aggregation] = Table("aggregation")
AGGREGATIONS.add(
    "curator",
    Aggregation(
        "curator", (Observer.OTHER_TASKS,), _curator,
        "whoever runs the aggregation sees every task's clipped messages (aggregation 'curator')",
        hides_cohort=True,
    ),
)  # fmt: skip
AGGREGATIONS.add("local", Aggregation("local", (Observer.OTHER_TASKS, Observer.SERVER), _local, None))
