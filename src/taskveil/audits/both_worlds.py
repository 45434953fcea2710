"""What units would have sent in both of their worlds, at the billboards everybody saw: the likelihood ratio of every release.

Whoever knows all rows, but not which of two data sets a unit holds, computes from the visible billboards every message in either
world. So a second task side, on the rows of the other worlds, steps at the same views as the real one; it sends nothing. With
noise of scale s on a sum, the log likelihood ratio of a unit's worlds is <what is left, its summand here minus there> / s^2,
where half of either summand of every unit, and all that is known of the others, is taken out of what was released.

This is an attacker's knowledge, of made-up units: it exists inside an audit only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.audits.spies import ServerSpy, TaskSpy, spied_on
from taskveil.errors import OptionError
from taskveil.methods.base import Billboard, Message, Method, ServerSide, State, TaskSide, View
from taskveil.privacy.contribution import upper_triangle
from taskveil.privacy.contributions import Contribution, TaskStack
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.tasks.block import TaskBlock

CELLS = 4_000_000  # numbers of summands that are held at once

OnRelease = Callable[[PlannedRelease, np.ndarray, np.ndarray, np.ndarray], None]  # planned, noisy, messages here and there


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
        for one in planned:
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
