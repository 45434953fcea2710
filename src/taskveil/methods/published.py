"""What a method puts on its billboard, as far as it is public before any row is read: names, shapes, types, ranges.

A view reaches a site from a server that may lie. The site compares it with this before it touches a row, so that a refusal
depends on the view alone (docs/theory/servers-and-sums.md#lying-server); the server keeps its own billboards inside, so that no
honest run is refused. Names, shapes and types come from the method's own server side, run on sums of zeros: a new method is
covered by being written. Ranges are what it declares in `Method.ranges`; anything else lies within +-LARGEST. Rows are of size
one, so no model a private run can publish comes near it, and products of a few such numbers with rows do not overflow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from taskveil.methods.base import LARGEST, Billboard, Method, PublicInfo
from taskveil.privacy.plan import Plan

TYPES = ("float64", "float32", "int64", "bool", "uint8")  # of numbers that travel; others become float64


@dataclass(frozen=True)
class Shown:
    """One array of a billboard."""

    shape: tuple[int, ...]  # on the whole billboard
    dtype: np.dtype
    per_task: bool  # a block of tasks is sent its own part of the first axis
    low: float
    high: float

    def broken_rule(self, array: np.ndarray, n_tasks: int) -> str | None:
        """Which rule an array breaks as part of the view of `n_tasks` tasks; None: it is admissible."""
        if array.shape != ((n_tasks, *self.shape[1:]) if self.per_task else self.shape):
            return "has another shape"
        if array.dtype != self.dtype:
            return "has another type"
        if not np.isfinite(array).all():
            return "is not finite"
        inside = array.size == 0 or (self.low <= float(array.min()) and float(array.max()) <= self.high)
        return None if inside else "lies outside its public range"


class Published:
    """What to expect of a server under this plan: the arrays of every billboard, which after a few rounds stay the same."""

    def __init__(self, method: Method, public: PublicInfo, plan: Plan) -> None:
        self.method, self.public, self.plan = method, public, plan
        self._server, self._ranges = method.server_side(public, plan), method.ranges(public)

    @cached_property
    def boards(self) -> list[Mapping[str, Shown]]:
        """Of round 0, 1, ... up to the one after which names, shapes and types no longer change."""
        state, board = self._server.start()
        boards: list[Mapping[str, Shown]] = [_shown(board, self._ranges)]
        if self.method.schedule == "asynchronous":  # columns change, what is shown of them does not
            return boards
        everybody = np.ones(self.public.n_tasks, dtype=bool)
        for _, releases in self.plan.rounds()[: self._server.settled]:
            zeros = {p.name: np.zeros(p.contribution.total_shape) for p in releases}
            state, board = self._server.step(state, zeros, everybody)
            boards.append(_shown(board, self._ranges))
        return boards

    def at(self, round: int) -> Mapping[str, Shown]:
        """What the billboard of a round shows, by name."""
        return self.boards[min(round, len(self.boards) - 1)]

    def inside(self, billboard: Billboard) -> Billboard:
        """The billboard with every value moved into its range: post-processing, and the identity in any ordinary run."""
        shown = self.at(billboard.round)
        values = {name: _inside(np.asarray(value), shown[name]) for name, value in billboard.values.items()}
        return replace(billboard, values=values)


def published(method: Method, public: PublicInfo, plan: Plan) -> Published | None:
    """None where nothing is private, and nothing is promised."""
    return None if plan.budget.epsilon is None or not plan.releases else Published(method, public, plan)


def _shown(billboard: Billboard, ranges: Mapping[str, tuple[float, float]]) -> dict[str, Shown]:
    values = {}
    for name, value in billboard.values.items():
        array = np.asarray(value)
        low, high = ranges.get(name, (-LARGEST, LARGEST))
        dtype = array.dtype if str(array.dtype) in TYPES else np.dtype(np.float64)
        values[name] = Shown(array.shape, dtype, name in billboard.per_task, low, high)
    return values


def _inside(array: np.ndarray, shown: Shown) -> np.ndarray:
    return np.clip(np.where(np.isnan(array), 0.0, array), shown.low, shown.high).astype(shown.dtype)
