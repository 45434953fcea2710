"""What the observer of a certificate sees of a run, and nothing else, as one vector per run.

    other-tasks  every billboard after the first; of arrays with a part per task all parts but the canary's; who took part,
                 except for the canary's own bit (colluding tasks know theirs)
    public       every billboard with everybody's part, and the noisy releases: the finished models are made of them
    server       the noisy releases themselves. With aggregation 'local' the run holds one task, so that the release *is*
                 the canary's own noisy message

The method is watched through a copy of it: the same task side and server side, with a recorder around the server's step. The
last local fit, which nobody else sees, is left out; it comes after the last release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from taskveil.audits.canaries import CANARY
from taskveil.audits.spies import ServerSpy, TaskSpy, spied_on
from taskveil.methods.base import Billboard, Method, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.tasks.block import TaskBlock


@dataclass
class Transcript:
    """One run as the observer sees it: per round named arrays, and who else took part."""

    rounds: list[dict[str, np.ndarray]] = field(default_factory=list)
    others: list[int] = field(default_factory=list)

    def vector(self) -> np.ndarray:
        """All numbers, round by round, names in order."""
        parts = [np.ravel(seen[name]) for seen in self.rounds for name in sorted(seen)]
        return np.concatenate([*parts, np.asarray(self.others, dtype=np.float64)]).astype(np.float64)


@dataclass(frozen=True)
class Layout:
    """Where things stand in a transcript's vector."""

    slices: tuple[tuple[int, str, slice, tuple[int, ...]], ...]  # round, name, place, shape
    n_rounds: int
    size: int  # of the values; who took part comes after them

    @staticmethod
    def of(transcript: Transcript) -> Layout:
        """Where each release of a transcript lies in its vector."""
        places, position = [], 0
        for number, seen in enumerate(transcript.rounds):
            for name in sorted(seen):
                shape = np.shape(seen[name])
                length = int(np.prod(shape))
                places.append((number, name, slice(position, position + length), shape))
                position += length
        return Layout(tuple(places), len(transcript.rounds), position)


def watched(method: Method, transcript: Transcript, observer: str) -> Method:
    """A copy of the method that writes what the observer sees into `transcript`."""
    prepared: dict[int, TaskSide] = {}

    def task_side(block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        if id(block) not in prepared:  # the same rows run after run: set up once
            prepared[id(block)] = _WithoutEnd(method.task_side(block, public, plan))
        return prepared[id(block)]

    def server_side(public: PublicInfo, plan: Plan) -> ServerSide:
        transcript.rounds.clear()
        transcript.others.clear()
        return _Recorder(method.server_side(public, plan), transcript, observer, plan)

    return spied_on(method, task_side, server_side)


class _WithoutEnd(TaskSpy):
    """A task side that remembers its start and skips the last local fit, which no other party sees."""

    first: State | None = None

    def start(self) -> State:
        if self.first is None:
            self.first = self.inner.start()
        return {name: np.array(value) for name, value in self.first.items()}

    def finish(self, state: State, view: View) -> Models:
        return Models(np.zeros((0, 1, 1)), np.zeros((0, 1)))


class _Recorder(ServerSpy):
    def __init__(self, inner: ServerSide, transcript: Transcript, observer: str, plan: Plan):
        super().__init__(inner)
        self.transcript, self.observer, self.plan = transcript, observer, plan

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        state, billboard = self.inner.step(state, releases, accepted)
        self.note(releases, billboard, accepted)
        self.last = billboard, accepted
        return state, billboard

    def chosen(self, state: State, possible: list[PlannedRelease]) -> list[PlannedRelease]:
        """Where the run ends early the billboard stays as it is, and no release is seen as zeros: all runs have one shape."""
        wanted = self.inner.chosen(state, possible)
        while not wanted and len(self.transcript.rounds) < len(self.plan.rounds()):
            self.note({}, *self.last)
        return wanted

    def note(self, releases: Mapping[str, np.ndarray], billboard: Billboard, accepted: np.ndarray) -> None:
        if self.plan.total is not None:
            releases = {**{p.name: np.zeros(p.contribution.total_shape) for p in self.plan.releases}, **releases}
        seen = dict(releases) if self.observer != "other-tasks" else {}
        if self.observer != "server":
            seen |= public_part(billboard) if self.observer == "other-tasks" else dict(billboard.values)
        self.transcript.rounds.append({k: np.array(v, dtype=np.float64) for k, v in seen.items()})
        if accepted is not None:
            self.transcript.others.append(int(np.delete(accepted, CANARY).sum()))


def public_part(billboard: Billboard) -> dict[str, np.ndarray]:
    """All the other tasks together are sent: everything but the canary's own part."""
    return {
        name: np.delete(value, CANARY, axis=0) if name in billboard.per_task else np.asarray(value)
        for name, value in billboard.values.items()
    }
