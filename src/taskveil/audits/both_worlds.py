"""What units would have sent in both of their worlds, at the billboards everybody saw: the likelihood ratio of every release.

Whoever knows all rows, but not which of two data sets a unit holds, computes from the visible billboards every message in either
world. So a second task side, on the rows of the other worlds, steps at the same views as the real one; it sends nothing. With
noise of scale s on a sum, the log likelihood ratio of a unit's worlds is <what is left, its summand here minus there> / s^2,
where half of either summand of every unit, and all that is known of the others, is taken out of what was released.

This is an attacker's knowledge, of made-up units: it exists inside an audit only.

Two runs are enough where every release is visible: each release is an experiment of its own.

Nasr, Hayes, Steinke, Balle, Tramer, Jagielski, Carlini, Terzis 2023 (arXiv:2302.07956), section 6: an attacker who sees all
releases need not repeat the run. One run of each neighbour with T releases gives T scores of each, n runs nT. Here a score is the
likelihood ratio of one release at the billboards that were seen, around the middle of both neighbours.

**Bound.** The threshold is the middle, fixed beforehand. If releases of one kind are at most mu-Gaussian DP each, whatever came
before, the score is above it with probability at most Phi(mu/2) in one world and at least Phi(-mu/2) in the other, given that:
so the counts are dominated by binomials, and Clopper-Pearson's limits hold although later releases depend on earlier ones. Least
mu of every kind compose to sqrt(sum of squares). This is a bound for noise of the recorded, Gaussian kind; it says nothing about
other curves and is printed as such, beside the bound that assumes nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.audits.canaries import CANARY
from taskveil.audits.lower_bound import CONFIDENCE, mu_bound
from taskveil.audits.parallel import noise_seed
from taskveil.audits.spies import ServerSpy, TaskSpy, spied_on
from taskveil.errors import OptionError
from taskveil.methods.base import Billboard, Message, Method, ServerSide, State, TaskSide, View
from taskveil.privacy.contribution import upper_triangle
from taskveil.privacy.contributions import Contribution, DiagonalSum, MomentSum, OuterSum, TaskStack, VectorSum
from taskveil.privacy.events import GaussianEvent
from taskveil.privacy.guarantees import gaussian_epsilon
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.runtime.run import Run
from taskveil.tasks.block import TaskBlock

CELLS = 4_000_000  # numbers of summands that are held at once

OnRelease = Callable[[PlannedRelease, np.ndarray, np.ndarray, np.ndarray], None]  # planned, noisy, messages here and there
SCORES = 4000  # of each neighbour: more tell little more
ALARM = 1e-7  # of the verdict's 1e-6
SUMS = (VectorSum, OuterSum, MomentSum, DiagonalSum, TaskStack)  # in which one task's summand is known


def with_other_worlds(method: Method, others: TaskBlock, on_release: OnRelease) -> Method:
    """A copy of the method; after every release `on_release` is told what was sent and would have been sent by `others`."""
    sent: list[tuple[Message, Message]] = []

    def task_side(block: TaskBlock, public: Any, plan: Plan) -> TaskSide:
        return _Side(method.task_side(block, public, plan), method.task_side(others, public, plan), sent)

    return spied_on(method, task_side, lambda public, plan: _Server(method.server_side(public, plan), plan, sent, on_release))


class _Side(TaskSpy):
    """The real task side, with the other worlds beside it."""

    def __init__(self, here: TaskSide, there: TaskSide, sent: list[tuple[Message, Message]]):
        super().__init__(here)
        self.there, self.sent = there, sent
        self.state: State | None = None

    def start(self) -> State:
        self.state = self.there.start()
        return super().start()

    def step(self, state: State, view: View) -> tuple[State, Message]:
        assert self.state is not None
        state, message = super().step(state, view)
        self.state, other = self.there.step(self.state, view)
        self.sent.append((message, other))
        return state, message


class _Server(ServerSpy):
    def __init__(self, inner: ServerSide, plan: Plan, sent: list[tuple[Message, Message]], on_release: OnRelease):
        super().__init__(inner)
        self.rounds, self.sent, self.on_release = iter(plan.rounds()), sent, on_release

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        _, planned = next(self.rounds)
        here, there = self.sent.pop()
        for one in (p for p in planned if p.name in releases):  # where releases are chosen, one of a round's is made
            self.on_release(one, np.asarray(releases[one.name], dtype=np.float64), here[one.name], there[one.name])
        return super().step(state, releases, accepted)


@dataclass(frozen=True)
class Ratios:
    """Of every unit: the log likelihood ratio of its own world to the other, around their middle, and how far they lie apart.

    In units of the planned noise. `overlaps` are inner products of the units' moves; None where that would be too many numbers.
    """

    own: np.ndarray
    distances: np.ndarray  # squared
    overlaps: np.ndarray | None

    def __add__(self, more: Ratios) -> Ratios:
        both = None if self.overlaps is None or more.overlaps is None else self.overlaps + more.overlaps
        return Ratios(self.own + more.own, self.distances + more.distances, both)


def log_ratios(planned: PlannedRelease, noisy: np.ndarray, here: np.ndarray, there: np.ndarray, first: int) -> Ratios:
    """Of every unit from `first` on, in one release."""
    what, scale = planned.contribution, planned.mechanism.scale
    mixed = np.concatenate([here[:first], there[first:]])
    middle = (what.total(what.clip(here)) + what.total(what.clip(mixed))) / 2
    left = what.to_vector(noisy) - what.to_vector(middle)
    if isinstance(what, TaskStack):  # a unit's row holds its summand alone
        (rows,) = _moves(what, here[first:], there[first:])
        own, distances = (left.reshape(len(here), -1)[first:] * rows).sum(axis=1), np.square(rows).sum(axis=1)
        return Ratios(own / scale**2, distances / scale**2, np.diag(distances) / scale**2)
    parts = []
    for moves in _moves(what, here[first:], there[first:]):
        parts.append((moves @ left, np.square(moves).sum(axis=1)))
    overlaps = moves @ moves.T / scale**2 if len(parts) == 1 else None
    own, distances = (np.concatenate(p) / scale**2 for p in zip(*parts))
    return Ratios(own, distances, overlaps)


def squared_distances(what: Contribution, here: np.ndarray, there: np.ndarray) -> np.ndarray:
    """How far the two worlds of every unit lie apart in the sum."""
    return np.concatenate([np.square(moves).sum(axis=1) for moves in _moves(what, here, there)])


def _moves(what: Any, here: np.ndarray, there: np.ndarray) -> Iterator[np.ndarray]:
    """Summands here minus there as isometric vectors, some units at a time."""
    if not all(isinstance(raw, np.ndarray) for raw in (here, there)):
        raise OptionError("this method sums before its messages can be told apart; audit it with many runs")
    if isinstance(what, TaskStack):
        yield (np.asarray(what.clip(here).value) - np.asarray(what.clip(there).value)).reshape(len(here), -1)
        return
    step = max(CELLS // what.vector_size, 1)
    for start in range(0, len(here), step):
        at = slice(start, min(start + step, len(here)))
        move = what.each(what.clip(here[at])) - what.each(what.clip(there[at]))
        yield upper_triangle(move) if what.symmetric else move.reshape(len(move), -1)


def every_release_visible(plan: Plan, observer: str, linear: bool, schedule: str) -> bool:
    """Whether this observer sees all releases, each an unsampled Gaussian sum of messages that can be told apart."""
    tasks = str(plan.budget.unit) == "task"  # rows are clipped and summed at once
    sums = (
        tasks
        and plan.total is None
        and all(isinstance(p.event, GaussianEvent) and isinstance(p.contribution, SUMS) for p in plan.releases)
    )
    told_apart = linear and schedule == "synchronous" and plan.budget.aggregation == "curator"
    return sums and told_apart and observer in ("server", "public")


def steps_in_sight(worlds: Sequence[Any], observer: str, trials: int, key: int, delta: float) -> dict[str, Any] | None:
    """What single releases show to this observer; None where it does not see them all."""
    plan, method = worlds[1].log.plan, worlds[1].log.method
    if not every_release_visible(plan, observer, method.linear, method.schedule):
        return None
    return step_bounds(worlds, trials, key, delta)


def step_bounds(worlds: Sequence[Any], trials: int, key: int, delta: float) -> dict[str, Any]:
    """Runs of both neighbours and what their releases show, one by one."""
    plan: Plan = worlds[1].log.plan
    runs = max(2, min(trials, -(-SCORES // len(plan.releases))))
    scores = [_scores(worlds, world, runs, key) for world in (0, 1)]
    stated, sure = (_epsilon(plan, scores, delta, alpha) for alpha in (1 - CONFIDENCE, ALARM))
    return {"runs": runs, "releases": len(plan.releases), "lower_bound": stated, "refutation_bound": sure}


def _scores(worlds: Sequence[Any], world: int, runs: int, key: int) -> np.ndarray:
    """(runs, releases), larger where a release speaks for world 1."""
    here, there = worlds[world].log, worlds[1 - world].log
    seen: list[float] = []

    def on_release(planned: Any, noisy: np.ndarray, mine: np.ndarray, other: np.ndarray) -> None:
        ratios = log_ratios(planned, noisy, mine, other, 0)
        ratio = ratios.own[CANARY] / math.sqrt(max(ratios.distances[CANARY], 1e-300))
        seen.append(float(ratio if world else -ratio))

    estimator = worlds[world].estimator
    method = with_other_worlds(here.method, there.block, on_release)
    for number in range(runs):
        estimator.insecure_noise_seed = noise_seed(key, world, number)
        estimator._run(Run(method, here.public, here.plan), here.block)
    return np.asarray(seen).reshape(runs, -1)


def _epsilon(plan: Plan, scores: Sequence[np.ndarray], delta: float, alpha: float) -> float:
    """Least mu of every kind of release, composed; the error probability is shared between kinds."""
    kinds = [_kind(p) for p in plan.releases]
    squares = []
    for kind, count in Counter(kinds).items():
        columns = [i for i, k in enumerate(kinds) if k == kind]
        above = [int((s[:, columns] > 0).sum()) for s in scores]
        n = scores[0].shape[0] * count
        mu = float(mu_bound(np.array(above[1]), n, np.array(above[0]), n, delta, alpha / len(set(kinds))))
        squares.append(count * mu**2)
    return gaussian_epsilon(delta, math.sqrt(math.fsum(squares)))


def _kind(planned: Any) -> tuple[str, float]:
    return planned.name, round(planned.event.noise_multiplier, 9)
