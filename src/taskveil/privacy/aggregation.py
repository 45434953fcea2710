"""Where noise enters: the table of aggregations, called by release.py only, after the charge.

    curator      the server sums clipped messages and adds noise once; protects against the other tasks
    local        every task adds full noise to its own part of the sum; protects against the server too
    local-model  every task adds noise to its own message, before outer products are taken (MP-MTL, Alg. 5)
    secure       every site adds a share of the noise, and a secure sum shows the server the total only;
                 protects against the server and up to a stated number of sites together

An aggregation gets the planned release, the bounded messages, the noise source and the task names, and
returns the noisy total; `observers` are those against whom the result is protected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import EnvironmentMissing, OptionError, SecureSumRefused
from taskveil.privacy.bounds import Bounded, FloatArray
from taskveil.privacy.mechanisms.model_laplace import ModelLaplace, PaperModelLaplace
from taskveil.privacy.mechanisms.shared import SharedNoise
from taskveil.privacy.randomness import NoiseSource
from taskveil.privacy.units import Observer
from taskveil.registry import Table

if TYPE_CHECKING:
    from taskveil.privacy.plan import PlannedRelease

TaskNames = Sequence[str | int]
IntArray = NDArray[np.int64]


@dataclass(frozen=True)
class Aggregation:
    """One way to sum and noise."""

    name: str
    observers: tuple[Observer, ...]
    combine: Callable[[PlannedRelease, Bounded, NoiseSource, TaskNames | None], FloatArray]
    server_sees: str | None  # for the certificate's not_protected
    hides_cohort: bool = False  # whether no observer of this aggregation learns which tasks take part


def _curator(planned: PlannedRelease, bounded: Bounded, source: NoiseSource, tasks: TaskNames | None) -> FloatArray:
    total = planned.contribution.total(bounded)
    return planned.mechanism.add(planned.contribution, total, source.at(planned.round, planned.name))


def _local(planned: PlannedRelease, bounded: Bounded, source: NoiseSource, tasks: TaskNames | None) -> FloatArray:
    own = planned.contribution.each(bounded)
    names = range(len(own)) if tasks is None else tasks
    noisy = np.zeros(planned.contribution.total_shape)
    for message, task in zip(own, names, strict=True):
        noisy += planned.mechanism.add(planned.contribution, message, source.at(planned.round, planned.name, task))
    return noisy


class IntegerSum(Protocol):
    """A secure sum of integer messages (sites, coordinates): the total, or SecureSumRefused."""

    def __call__(self, messages: IntArray, mechanism: SharedNoise) -> IntArray: ...


_integer_sums: list[IntegerSum] = []


def use_integer_sum(function: IntegerSum) -> None:
    """Runtimes say here how messages are summed without being seen (privacy/ imports no runtime)."""
    _integer_sums[:] = [function]


def _secure(planned: PlannedRelease, bounded: Bounded, source: NoiseSource, tasks: TaskNames | None) -> FloatArray:
    if not _integer_sums:
        raise EnvironmentMissing("no secure sum is installed; call taskveil.runtime.secure.install() first")
    messages = secure_messages(planned, bounded, source, tasks)
    mechanism = _shared_noise(planned)
    return mechanism.finish(planned.contribution, _integer_sums[0](messages, mechanism))


def secure_messages(planned: PlannedRelease, bounded: Bounded, source: NoiseSource, tasks: TaskNames | None) -> IntArray:
    """What all sites put into the secure sum (sites, coordinates), where one process plays them all."""
    mechanism, own = _shared_noise(planned), planned.contribution.each(bounded)
    if len(own) != mechanism.n_tasks:
        raise SecureSumRefused(f"the plan is for {mechanism.n_tasks} tasks, {len(own)} are here; nothing is released")
    names = range(len(own)) if tasks is None else tasks
    return np.stack([_site_message(planned, own[at], source, [names[t] for t in at]) for at in mechanism.sites()])


def site_message(planned: PlannedRelease, bounded: Bounded, source: NoiseSource, tasks: TaskNames) -> IntArray:
    """What one site puts into the secure sum: its tasks' rounded messages and one share of the noise."""
    return _site_message(planned, planned.contribution.each(bounded), source, tasks)


def _site_message(planned: PlannedRelease, own: FloatArray, source: NoiseSource, tasks: TaskNames) -> IntArray:
    streams = [source.at(planned.round, planned.name, task) for task in tasks]
    return _shared_noise(planned).message(planned.contribution, own, streams)


def _shared_noise(planned: PlannedRelease) -> SharedNoise:
    if not isinstance(planned.mechanism, SharedNoise):
        raise OptionError("aggregation 'secure' needs noise shares; epsilon=None has none, use 'curator'")
    return planned.mechanism


def _local_model(planned: PlannedRelease, bounded: Bounded, source: NoiseSource, tasks: TaskNames | None) -> FloatArray:
    contribution, mechanism = planned.contribution, planned.mechanism
    if bounded.summed:
        raise OptionError("aggregation 'local-model' needs one message per task, not their sum")
    names = range(len(bounded.value)) if tasks is None else tasks
    streams = [source.at(planned.round, planned.name, task) for task in names]
    if isinstance(mechanism, PaperModelLaplace):
        common = source.at(planned.round, planned.name)
        return mechanism.noisy_total(contribution, bounded.value, streams, common)
    if not isinstance(mechanism, ModelLaplace):
        raise OptionError("aggregation 'local-model' needs a private plan; use 'curator' with epsilon=None")
    return mechanism.noisy_total(contribution, bounded.value, streams)


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
AGGREGATIONS.add("local-model", Aggregation("local-model", (Observer.OTHER_TASKS, Observer.SERVER), _local_model, None))
AGGREGATIONS.add("secure", Aggregation("secure", (Observer.OTHER_TASKS, Observer.SERVER), _secure, None))
