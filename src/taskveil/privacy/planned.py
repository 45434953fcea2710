"""What is planned: the budget, what a method asks for, and the releases it gets. plan.py makes a plan; this is what one is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from taskveil.checks import Choice, Entries, ListOf, Number, Rule, Text, Whole, check_table, optional
from taskveil.errors import DataError, OptionError
from taskveil.privacy.accountants import ACCOUNTANTS, best_epsilon
from taskveil.privacy.aggregation import AGGREGATIONS
from taskveil.privacy.contributions import Contribution, contribution_from_dict
from taskveil.privacy.event_table import event_from_dict
from taskveil.privacy.events import CappedEvent, Charge, Event, GaussianEvent, GaussianTotal, SampledGaussianEvent
from taskveil.privacy.fields import check_fields
from taskveil.privacy.guarantees import check_delta
from taskveil.privacy.mechanisms import MECHANISMS, Mechanism, mechanism_from_dict
from taskveil.privacy.mechanisms.gaussian import Gaussian
from taskveil.privacy.per_task import counted_for
from taskveil.privacy.secure_options import SecureOptions
from taskveil.privacy.units import Neighbours, Unit

SMALLEST_RATE = 1e-6
VARIANTS = ("sound", "paper", "preprint")
MOST_RELEASES = 10_000_000
PLAN: dict[str, Rule] = {  # of a file or a message, as are the next two
    "version": Whole(1, 1), "budget": Entries(), "releases": ListOf(Entries(), at_least=0, at_most=MOST_RELEASES),
    "total": optional(Entries()), "policy": Text(100),
}  # fmt: skip
BUDGET: dict[str, Rule] = {
    "epsilon": optional(Number(above=0)), "delta": Number(at_least=0, below=1), "unit": Choice(*(u.value for u in Unit)),
    "neighbours": Choice(*(n.value for n in Neighbours)), "mechanism": optional(Text(100)), "accountant": optional(Text(100)),
    "aggregation": Choice(*AGGREGATIONS.names()), "variant": Choice(*VARIANTS), "secure": optional(Entries()),
    "task_epsilons": optional(ListOf(Number(above=0))),
}  # fmt: skip
RELEASE: dict[str, Rule] = {
    "name": Text(1000), "round": Whole(0, 10**12), "contribution": Entries(), "mechanism": Entries(), "event": Entries(),
    "rate": optional(Number(above=0, at_most=1)),
}  # fmt: skip


@dataclass(frozen=True)
class Budget:
    """What may be spent, on whom, and how. epsilon=None means: no noise, no guarantee."""

    epsilon: float | None
    delta: float
    unit: Unit = Unit.TASK
    neighbours: Neighbours = Neighbours.REPLACE_ONE
    mechanism: str | None = None
    accountant: str | None = None
    aggregation: str = "curator"
    variant: str = "sound"
    secure: SecureOptions | None = None  # figures of aggregation "secure"
    task_epsilons: tuple[float, ...] | None = None  # of every task, in order; `epsilon` is the largest then (per_task.py)

    def __post_init__(self) -> None:
        optional(Number(above=0)).check("epsilon", self.epsilon)
        object.__setattr__(self, "delta", check_delta(self.delta))
        object.__setattr__(self, "unit", _member(Unit, "unit", self.unit))
        object.__setattr__(self, "neighbours", _member(Neighbours, "neighbours", self.neighbours))
        if self.variant not in VARIANTS:
            raise OptionError(f"unknown variant {self.variant!r}: expected one of {', '.join(VARIANTS)}")
        for table, name in ((MECHANISMS, self.mechanism), (ACCOUNTANTS, self.accountant)):
            if name is not None:
                table.get(name)
        AGGREGATIONS.get(self.aggregation)
        if self.task_epsilons is not None:
            each = ListOf(Number(above=0)).check("task_epsilons", list(self.task_epsilons))
            object.__setattr__(self, "task_epsilons", tuple(each))
            if self.epsilon is None or max(self.task_epsilons) != self.epsilon:
                raise OptionError("where tasks have budgets of their own, epsilon is the largest of them")
        if isinstance(self.secure, dict):
            check_fields(SecureOptions, self.secure)
            object.__setattr__(self, "secure", SecureOptions(**self.secure))
        if self.mechanism is not None and MECHANISMS.get(self.mechanism).family == "paper" and self.variant == "sound":
            raise OptionError(f"mechanism {self.mechanism!r} is not private; it needs variant='paper' or 'preprint'")

    def to_dict(self) -> dict[str, Any]:
        """Plain data; budgets per task only where there are some."""
        fields = asdict(self)
        return fields if self.task_epsilons is not None else {k: v for k, v in fields.items() if k != "task_epsilons"}


@dataclass(frozen=True)
class Request:
    """What a method asks for: one release in one round; `weight` is its relative share of the budget.

    `rate` is the probability with which each *unit* takes part, independently and in secret: whole tasks
    for unit task (the runtime draws the cohort), single rows for unit record (coins are drawn per row;
    sampling whole tasks would not give the sampled-Gaussian event for a record, because its task's other
    rows come and go with it).
    """

    name: str
    round: int
    contribution: Contribution
    weight: float = 1.0
    rate: float | None = None
    mechanism: str | None = None
    most: int | None = None  # releases of this name that a unit takes part in at most; the runtime sees to it

    def __post_init__(self) -> None:
        Number(above=0).check(f"the weight of release {self.name!r}", self.weight)
        if self.rate is not None and not SMALLEST_RATE <= self.rate <= 1:
            raise OptionError(
                f"the sampling rate of release {self.name!r} must lie in [{SMALLEST_RATE:g}, 1], got {self.rate!r}; "
                "below that hardly anybody ever takes part: use a larger rate and fewer rounds"
            )


@dataclass(frozen=True)
class PlannedRelease:
    """One release with its mechanism and the event it will be charged as."""

    name: str
    round: int
    contribution: Contribution
    mechanism: Mechanism
    event: Event
    rate: float | None = None

    @property
    def id(self) -> str:
        """Unique within a plan."""
        return f"{self.round}/{self.name}"

    def event_under(self, neighbours: Neighbours, budget: Budget, share: float = 1.0) -> Event:
        """What this release costs a task with this share of the largest budget; the noise stays what it is."""
        if neighbours is budget.neighbours and share == 1.0:
            return self.event
        what = counted_for(self.contribution, share)
        event = event_of(self.mechanism, what, neighbours, self.rate, budget.aggregation)
        return CappedEvent(event, self.event.most) if isinstance(self.event, CappedEvent) else event

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "name": self.name, "round": self.round, "contribution": self.contribution.to_dict(),
            "mechanism": self.mechanism.to_dict(), "event": self.event.to_dict(), "rate": self.rate,
        }  # fmt: skip

    @staticmethod
    def from_dict(data: dict[str, Any]) -> PlannedRelease:
        """The release written by `to_dict`."""
        check_table(data, RELEASE, "a planned release", DataError, tuple(RELEASE))
        return PlannedRelease(
            data["name"], data["round"], contribution_from_dict(data["contribution"]),
            mechanism_from_dict(data["mechanism"]), event_from_dict(data["event"]), data["rate"],
        )  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """All releases of a run and the budget they were calibrated to.

    With a total the releases are those that are possible: of each round one at most is made, as the policy says in view of what
    was released before. The total covers the dearest of all that can happen, and accounts refuse what exceeds it.
    """

    releases: tuple[PlannedRelease, ...]
    budget: Budget
    total: GaussianTotal | None = None
    policy: str = ""  # the public name of the rule that chooses

    def __post_init__(self) -> None:
        if self.total is None:
            return
        if not all(type(r.event) is GaussianEvent for r in self.releases):
            raise OptionError("only unsampled Gaussian releases may be chosen as a run goes on; use delta > 0 and no sampling")
        if dearest(self.releases) > 1 / self.total.noise_multiplier**2:
            raise OptionError("the releases that are possible may cost more than the total of the plan")

    def rounds(self) -> list[tuple[int, list[PlannedRelease]]]:
        """Releases by round, in order."""
        by_round: dict[int, list[PlannedRelease]] = {}
        for release in self.releases:
            by_round.setdefault(release.round, []).append(release)
        return sorted(by_round.items())

    def charges(self, neighbours: Neighbours | None = None, share: float = 1.0) -> list[Charge]:
        """The events of all releases; under other neighbours than the budget's, or for another share, where they are given."""
        relation = neighbours or self.budget.neighbours
        if self.total is not None:  # a replaced unit is one removed and one added: twice mu
            twice = self.budget.neighbours is Neighbours.ADD_REMOVE and relation is Neighbours.REPLACE_ONE
            return [Charge(GaussianTotal(self.total.noise_multiplier / 2) if twice else self.total)]
        return [Charge(release.event_under(relation, self.budget, share)) for release in self.releases]

    def epsilon(self, delta: float | None = None) -> float:
        """Certified epsilon at delta (the budget's by default); infinite where nothing is certified."""
        return self.certified(delta)[0]

    def certified(self, delta: float | None = None, share: float = 1.0) -> tuple[float, str]:
        """Certified epsilon and the accountant that certifies it."""
        return best_epsilon(self.charges(share=share), self.budget.delta if delta is None else delta, self.budget.accountant)

    @property
    def most_participations(self) -> int | None:
        """How often a unit may take part, where the plan counts on a cap; the runtime asks nobody more often."""
        return next((r.event.most for r in self.releases if isinstance(r.event, CappedEvent)), None)

    def spent_after(self, rounds: int) -> float:
        """Certified epsilon of the releases of the first `rounds` rounds; known before any row is read."""
        first = {number for number, _ in self.rounds()[:rounds]}
        return replace(self, releases=tuple(r for r in self.releases if r.round in first)).epsilon()

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `Plan.from_dict` reads it back."""
        chosen = {} if self.total is None else {"total": self.total.to_dict(), "policy": self.policy}
        return {"version": 1, "budget": self.budget.to_dict(), "releases": [r.to_dict() for r in self.releases], **chosen}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Plan:
        """The plan written by `to_dict`."""
        check_table(data, PLAN, "a plan", DataError, ("version", "budget", "releases"))
        check_table(data["budget"], BUDGET, "the budget of a plan", DataError, tuple(n for n in BUDGET if n != "task_epsilons"))
        total = None if data.get("total") is None else event_from_dict(data["total"])
        if not (total is None or isinstance(total, GaussianTotal)):
            raise DataError("the total of a plan is a 'gaussian-total'")
        releases = tuple(PlannedRelease.from_dict(r) for r in data["releases"])
        return Plan(releases, Budget(**data["budget"]), total, data.get("policy", ""))


def spent_share(plan: Plan, made: Sequence[PlannedRelease]) -> float:
    """The part of a plan's total, of mu^2, that these releases cost."""
    assert plan.total is not None
    spent = (1 / r.event.noise_multiplier**2 for r in made if isinstance(r.event, GaussianEvent))
    return math.fsum(spent) * plan.total.noise_multiplier**2


def dearest(releases: Sequence[PlannedRelease]) -> float:
    """mu^2 of the dearest run in which one release of each round is made."""
    costs: dict[int, float] = {}
    for one in releases:
        assert isinstance(one.event, GaussianEvent)
        costs[one.round] = max(costs.get(one.round, 0.0), 1 / one.event.noise_multiplier**2)
    return math.fsum(costs.values())


def event_of(
    mechanism: Mechanism, contribution: Contribution, neighbours: Neighbours, rate: float | None, aggregation: str
) -> Event:
    """The event of one release: the mechanism's own, or the sampled one where the cohort is secret.

    Amplification needs an observer who cannot learn whether the unit takes part. With aggregation 'local'
    the server sees who sends, and the noise in the sum depends on the cohort, so every participation is
    charged in full. Where the unit is the record the coins are drawn for rows inside each task, every task
    sends and adds noise either way, and nobody else sees them.
    """
    sampled = rate is not None and rate < 1 and is_secret(contribution, aggregation)
    if rate is None or not sampled or not isinstance(mechanism, Gaussian):
        return mechanism.event(contribution, neighbours)
    relative = mechanism.event(contribution, Neighbours.ADD_REMOVE).noise_multiplier
    return SampledGaussianEvent(relative, rate, neighbours)


def charged(requests: Sequence[Request]) -> list[bool]:
    """Which requests cost something: all, or with a cap the first `most` of a name."""
    seen: Counter[str] = Counter()
    paid = []
    for request in requests:
        seen[request.name] += 1
        paid.append(request.most is None or seen[request.name] <= request.most)
    return paid


def is_sampled(request: Request, budget: Budget) -> bool:
    """Whether sampling amplifies: tasks take part at random, and the observer does not see who."""
    secret = is_secret(request.contribution, budget.aggregation)
    return request.rate is not None and request.rate < 1 and secret


def is_secret(contribution: Contribution, aggregation: str) -> bool:
    """Whether no observer of this aggregation can learn if a unit took part."""
    return contribution.unit is Unit.RECORD or AGGREGATIONS.get(aggregation).hides_cohort


def _member(enum: Any, name: str, value: Any) -> Any:
    try:
        return enum(value)
    except ValueError:
        raise OptionError(f"unknown {name} {value!r}: expected one of {', '.join(m.value for m in enum)}") from None
