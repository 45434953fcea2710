"""What common units are: a scale and a centre for every column, found in a few rounds before a method's own.

Columns are the features and, in regression, the target. `Units` says what is sent and what the server makes of it; TaskUnits
(units_of_tasks.py) protects whole tasks, RecordUnits (units_of_records.py) single rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.methods.base import Message, PublicInfo, State, View
from taskveil.privacy.plan import Plan, Request
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.grouping import room_like, row_chunks
from taskveil.tasks.prepare.scaling import Scaling
from taskveil.threads import each

PUBLISHED = ("common/scale", "common/scaled", "common/centre", "common/centred")  # (columns,) each; -ed: 1 where there is one


class Units(ABC):
    """Releases that find common units, all of them before the method's own."""

    Weights = Callable[[float], float]  # part of what is spent on units -> weight of a request
    rounds: ClassVar[int]

    @abstractmethod
    def requests(self, public: PublicInfo, weights: Units.Weights) -> list[Request]:
        """The releases of rounds 1 to `rounds`."""

    @abstractmethod
    def worth_buying(self, plan: Plan, public: PublicInfo) -> bool:
        """Whether their noise is small enough to be of use: from public sizes alone."""

    @abstractmethod
    def message(self, block: TaskBlock, view: View, public: PublicInfo, plan: Plan) -> Message:
        """What tasks send in the round after this view."""

    @abstractmethod
    def publish(self, releases: Mapping[str, np.ndarray], values: State, public: PublicInfo, plan: Plan) -> State:
        """The published values after a release."""

    @abstractmethod
    def scaling(self, block: TaskBlock, values: Mapping[str, np.ndarray], loss: str = "squared") -> Scaling:
        """The units in which these tasks work, from what is published and, for unit task, their own rows."""

    @staticmethod
    def nothing(public: PublicInfo) -> State:
        """What is published before the first release."""
        ones, zeros = np.ones(n_columns(public)), np.zeros(n_columns(public))
        return dict(zip(PUBLISHED, (ones, zeros, zeros, zeros), strict=True))

    @staticmethod
    def as_scaling(block: TaskBlock, centre: np.ndarray, scale: np.ndarray) -> Scaling:
        """Centres and scales (m, columns) as a Scaling."""
        m, d = block.n_tasks, block.n_features
        target = (centre[:, d], scale[:, d]) if block.kind == "regression" else (np.zeros(m), np.ones(m))
        return Scaling("private", centre[:, :d], scale[:, :d], *target)


@dataclass(frozen=True, eq=False)
class CommonUnits(TaskBlock):
    """Rows that are in the released units already: what a method works on, held-out folds, new tasks."""


def in_common_units(block: TaskBlock, scaling: Scaling) -> CommonUnits:
    """The block's rows (and its targets, where they are numbers) in these units."""
    of = block.task_of_row
    X = room_like(block.X)

    def convert(rows: slice) -> None:
        X[rows] = (block.X[rows] - scaling.shift[of[rows]]) / scaling.scale[of[rows]]

    each(convert, row_chunks(block.n_rows))  # no second array of that size
    y = (block.y - scaling.y_shift[of, None]) / scaling.y_scale[of, None]
    return CommonUnits(X, y, block.offsets, block.weights, block.kind)


def n_columns(public: PublicInfo) -> int:
    """Features, and the target where it is a number."""
    return public.n_features + public.number_target


def columns_of(block: TaskBlock) -> np.ndarray:
    """All columns that get units (N, columns)."""
    return np.hstack([block.X, block.y]) if block.kind == "regression" else np.asarray(block.X)
