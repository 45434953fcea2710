"""Asynchronous runs in one process, reproducible: nodes answer in the order of a virtual clock, nobody waits.

    node t receives its column -> (delay) -> message arrives -> clip, charge, noise -> server step -> node t receives ...

Every arrival is one release of one task. A record (or a task's data) enters the messages of its own node only, so nodes
compose in parallel: the account is charged for message number k once, when the first node sends its k-th; nobody's own
sequence of events is longer than what is charged. A node stops when its own budget is spent.

The schedule (who arrived when, after how many updates by others) is recorded and can be replayed.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.methods.base import ArrivalServer, Asynchronous, Billboard, Method, Models, PublicInfo, State
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.release import SharedAccount
from taskveil.runtime.round import Round, released
from taskveil.runtime.run import Run, RunRecord
from taskveil.tasks.block import TaskBlock

KINDS = ("uniform", "pareto", "constant")
PAPER = ("uniform", 0.015)
TAIL = 1.1
Watcher = Callable[[float, int, Any, State], bool | None]  # (virtual time, arrivals, server side, state); True stops


@dataclass(frozen=True)
class Arrival:
    """One message as the server met it."""

    task: int
    number: int  # which of this node's messages, from 0
    at: float  # virtual seconds
    delay: int  # updates by others between reading and writing


class Delays:
    """An endless sequence of delays for every node: how long it takes from receiving its column to delivering a message.

        uniform   0 to `scale` seconds, as in Xie et al. 2017, section 4.1 (0-15 ms)
        pareto    scale * (1 + Pareto(1.1)): heavy tails, infinite variance; a few messages take hundreds of times the median
        constant  always `scale`

    Part of a simulation, not of a guarantee: they come from an ordinary seeded generator keyed by (seed, node), so that a
    node's delays do not depend on the order of arrivals.
    """

    def __init__(self, n_nodes: int, kind: str = "uniform", scale: float = 0.015, seed: int = 0) -> None:
        if kind not in KINDS or not scale >= 0:
            raise OptionError(f"delays are ({' | '.join(KINDS)}, seconds >= 0); got {kind!r}, {scale!r}")
        self.kind, self.scale = kind, float(scale)
        self._generators = [np.random.default_rng([seed, node]) for node in range(n_nodes)]

    def next(self, node: int) -> float:
        rng = self._generators[node]
        if self.kind == "uniform":
            return float(rng.uniform(0.0, self.scale))
        if self.kind == "pareto":
            return float(self.scale * (1.0 + rng.pareto(TAIL)))
        return self.scale


def run(
    run: Run,
    block: TaskBlock,
    *,
    schedule: Sequence[int] | None = None,
    watch: Watcher | None = None,
    synchronous: bool = False,
    until: float = np.inf,
) -> RunRecord:
    """Train until every node has spent its messages.

    `schedule` replays recorded arrivals (task positions in order); `watch` is told after every server step (simulation
    only); `synchronous` waits for all nodes in every round, for comparison; `until` is the last virtual second.
    """
    started = time.perf_counter()
    run.account.reserve(run.plan)
    nodes, rounds = Nodes(replace(run, account=SharedAccount(run.account)), block), Round(run)
    at = rounds.start()
    clock = _replayed(schedule) if schedule is not None else _virtual(nodes, run.method, run.public, synchronous)
    arrivals: list[Arrival] = []
    for now, tasks in clock:
        if now > until:
            break
        releases = nodes.messages(tasks, at.billboards[-1])
        arrivals += [Arrival(t, int(nodes.sent[t]) - 1, now, _delay(at.state, t)) for t in tasks]
        rounds.published(at, releases, rounds.accepted(tasks), tasks)
        if watch is not None and watch(now, len(arrivals), rounds.server, at.state):
            break
        if run.progress is not None and len(arrivals) % block.n_tasks == 0:
            run.progress(len(arrivals) // block.n_tasks, int(nodes.limits.max()))
        if not nodes.private and _settled(rounds.server, at.state, run.method, len(arrivals)):
            break
    billboard = rounds.server.final(at.state)
    run.account.finish()
    record = RunRecord(
        nodes.finish(billboard), [at.billboards[0], billboard], run.plan, run.public, nodes.executed, run.source.describe(),
        [a.task for a in arrivals], time.perf_counter() - started, nodes.state(),
    )  # fmt: skip
    record.extra = {
        "trace": arrivals,
        "messages_per_task": nodes.sent.tolist(),
        "virtual_seconds": arrivals[-1].at if arrivals else 0.0,
        **rounds.server.statistics(at.state),
    }
    return record


class Nodes:
    """All nodes of a run: one task side each, its state, and how many messages it has sent."""

    def __init__(self, run: Run, block: TaskBlock) -> None:
        self.run, self.private = run, run.budget.epsilon is not None
        self.rounds = [releases for _, releases in run.plan.rounds()]
        self.sides = [run.method.task_side(block.take([t]), run.public, run.plan) for t in range(block.n_tasks)]
        self.states = [side.start() for side in self.sides]
        self.sent = np.zeros(block.n_tasks, dtype=np.int64)
        self.limits = message_limits(run.plan, run.method, block.n_tasks)
        self.executed: list[PlannedRelease] = []
        self.charged = 0  # messages of the node that is furthest

    def waiting(self, task: int) -> bool:
        return bool(self.sent[task] < self.limits[task])

    def messages(self, tasks: Sequence[int], billboard: Billboard) -> dict[str, np.ndarray]:
        """What these nodes send, noised; axis 0 runs over `tasks`."""
        parts = [self._message(t, billboard) for t in tasks]
        return {name: np.stack([part[name] for part in parts]) for name in parts[0]}

    def finish(self, billboard: Billboard) -> Models:
        views = [billboard.view(np.array([t])) for t in range(len(self.sides))]
        return stack_models([side.finish(s, v) for side, s, v in zip(self.sides, self.states, views, strict=True)])

    def state(self) -> State:
        return {name: np.concatenate([s[name] for s in self.states]) for name in self.states[0]}

    def _message(self, task: int, billboard: Billboard) -> dict[str, np.ndarray]:
        number = int(self.sent[task])
        view = replace(billboard.view(np.array([task])), round=number)
        self.states[task], message = self.sides[task].step(self.states[task], view)
        self.sent[task] += 1
        noisy = released(self.run, self.rounds[number], message, tasks=[task])
        if number == self.charged:
            self.executed += self.rounds[number]
            self.charged += 1
        return noisy


def message_limits(plan: Plan, method: Method, n_tasks: int) -> np.ndarray:
    """How many messages each node may send: the longest prefix of the plan within its own epsilon (same delta)."""
    budgets = method.budgets if isinstance(method, Asynchronous) else None
    rounds = [releases for _, releases in plan.rounds()]
    limits = np.full(n_tasks, len(rounds), dtype=np.int64)
    if budgets is None or plan.budget.epsilon is None:
        return limits
    prefixes = {float(e): longest_prefix(plan, rounds, float(e)) for e in set(budgets)}
    return np.array([prefixes[float(e)] for e in budgets], dtype=np.int64)


def longest_prefix(plan: Plan, rounds: list[list[PlannedRelease]], epsilon: float) -> int:
    """Largest n such that the first n messages cost at most `epsilon`; bisection, because cost grows with n."""
    charges = plan.charges()
    sizes = np.cumsum([0] + [len(r) for r in rounds])
    low, high = 0, len(rounds)
    while low < high:
        n = (low + high + 1) // 2
        cost, _ = best_epsilon(charges[: sizes[n]], plan.budget.delta, plan.budget.accountant)
        low, high = (n, high) if cost <= epsilon else (low, n - 1)
    return low


def stack_models(parts: Sequence[Models]) -> Models:
    """Models of single nodes as one block."""
    kept = None if parts[0].kept is None else np.concatenate([p.kept for p in parts])
    extra = {name: np.concatenate([p.extra[name] for p in parts]) for name in parts[0].extra}
    return Models(np.concatenate([p.coef for p in parts]), np.concatenate([p.intercept for p in parts]), kept, extra)


def _virtual(nodes: Nodes, method: Method, public: PublicInfo, synchronous: bool) -> Iterator[tuple[float, list[int]]]:
    kind, scale = (method.delays if isinstance(method, Asynchronous) else None) or PAPER
    delays = Delays(len(nodes.sent), kind, scale, seed=public.seed or 0)
    if synchronous:
        yield from _rounds(nodes, delays)
        return
    queue = [(delays.next(t), t) for t in range(len(nodes.sent)) if nodes.waiting(t)]
    heapq.heapify(queue)
    while queue:
        now, task = heapq.heappop(queue)
        yield now, [task]
        if nodes.waiting(task):
            heapq.heappush(queue, (now + delays.next(task), task))


def _rounds(nodes: Nodes, delays: Delays) -> Iterator[tuple[float, list[int]]]:
    """Everybody sends, the server waits for the last one."""
    now = 0.0
    while waiting := [t for t in range(len(nodes.sent)) if nodes.waiting(t)]:
        now += max(delays.next(t) for t in waiting)
        yield now, waiting


def _replayed(schedule: Sequence[int]) -> Iterator[tuple[float, list[int]]]:
    for position, task in enumerate(schedule):
        yield float(position), [int(task)]


def _delay(state: State, task: int) -> int:
    return int(state["version"][0] - state["read_at"][task])


def _settled(server: ArrivalServer, state: State, method: Method, arrivals: int) -> bool:
    """Without privacy: every task was heard and no message moved its column any more."""
    n = len(state["read_at"])
    if arrivals % n:
        return False
    scale = 1.0 + float(np.square(state["shared"]).sum() + np.square(state["own"]).sum())
    return isinstance(method, Asynchronous) and bool(server.residual(state) <= method.tol**2 * scale)
