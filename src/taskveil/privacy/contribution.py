"""The base of all contributions: what one task puts into a sum, clipped in one place.

The sensitivities are in contributions.py (one sum each) and moments.py (a mean and a second moment together).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from taskveil.errors import DataError, OptionError
from taskveil.privacy.bounds import Bounded, FloatArray, _seal, check_norm, clip_rows
from taskveil.privacy.partial_sums import Partial
from taskveil.privacy.units import Neighbours, Unit


@dataclass(frozen=True)
class Sensitivity:
    """How far one unit moves the sum: l1 and l2 of the isometric vector, nuclear norm of the matrix."""

    l2: float
    l1: float | None = None
    nuclear: float | None = None


class Contribution(ABC):
    """Base of all contributions; frozen, serialisable, computed from public sizes only."""

    kind: ClassVar[str]
    symmetric: ClassVar[bool] = False
    unit: ClassVar[Unit] = Unit.TASK
    unbounded: ClassVar[float] = 1e70  # the bound where nothing is private: no clipping, yet its fourth power is a number
    bound: float

    @property
    @abstractmethod
    def message_shape(self) -> tuple[int, ...]:
        """Shape of one task's raw message."""

    @property
    @abstractmethod
    def total_shape(self) -> tuple[int, ...]:
        """Shape of the sum."""

    @abstractmethod
    def sensitivity(self, neighbours: Neighbours | str) -> Sensitivity:
        """How far one unit can move the sum."""

    @property
    def plain(self) -> Contribution:
        """What is summed, without the shares of tasks (per_task.py)."""
        return self

    def _partial(self, messages: FloatArray) -> Partial:
        """What these messages add to the total; the messages themselves where they do not add up."""
        return Partial((messages,), stacked=True)

    @abstractmethod
    def _total(self, partial: Partial) -> FloatArray:
        """The total from what all tasks add to it."""

    @abstractmethod
    def _each(self, messages: FloatArray) -> FloatArray: ...

    def clip(self, raw: Any) -> Bounded:
        """The per-task messages (k, *message_shape), each clipped to `bound` in Frobenius norm."""
        array = np.asarray(raw, dtype=np.float64)
        self._check_messages(array)
        flat = clip_rows(array.reshape(len(array), math.prod(self.message_shape)), self.bound)
        return _seal(flat.reshape(array.shape), self)

    def nothing(self, n_tasks: int) -> Bounded:
        """The zero message of each of `n_tasks` tasks: what a task sends that has nothing to send."""
        return self.clip(np.zeros((n_tasks, *self.message_shape)))

    def total(self, bounded: Bounded) -> FloatArray:
        """The sum over tasks; zeros when nobody takes part."""
        partial = self.partial(bounded)
        return self._total(partial)

    def partial(self, bounded: Bounded) -> Partial:
        """The sum over these tasks on the public integer grid: those of several blocks add up exactly (`seal_partials`)."""
        self._check_bounded(bounded)
        return bounded.value if isinstance(bounded.value, Partial) else self._partial(bounded.value)

    def unclipped_total(self, messages: FloatArray) -> FloatArray:
        """The sum of messages nobody clipped: for a paper's algorithm without a bound; never sealed."""
        self._check_messages(messages)
        return np.asarray(self._each(messages).sum(axis=0))

    def each(self, bounded: Bounded) -> FloatArray:
        """Every task's own contribution (k, *total_shape); they add up to `total`."""
        self._check_bounded(bounded)
        if bounded.summed:
            raise OptionError(
                "this value is already a sum over tasks; aggregation 'local' and 'secure' need one message per task"
            )
        return self._each(bounded.value)

    @property
    def vector_size(self) -> int:
        """Number of coordinates of the isometric vector."""
        return math.prod(self.total_shape)

    def to_vector(self, total: FloatArray) -> FloatArray:
        """Isometric flattening: l2 norm of the vector = Frobenius norm of the total."""
        return np.asarray(total, dtype=np.float64).reshape(-1)

    def from_vector(self, vector: FloatArray) -> FloatArray:
        """Inverse of `to_vector`."""
        return np.asarray(vector, dtype=np.float64).reshape(self.total_shape)

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `contribution_from_dict` reads it back."""
        fields = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}  # type: ignore[call-overload]
        return {"kind": self.kind, **fields}

    def __post_init__(self) -> None:
        check_norm(self.bound)

    def _check_messages(self, array: FloatArray) -> None:
        if array.ndim == 0 or array.shape[1:] != self.message_shape:
            raise DataError(
                f"{self.kind} expects messages of shape (tasks, {', '.join(map(str, self.message_shape))}); got {array.shape}"
            )

    def _check_bounded(self, bounded: Bounded) -> None:
        if not isinstance(bounded, Bounded):
            raise TypeError("expected a Bounded value made by contribution.clip; got a plain value")
        if bounded.contribution != self:
            raise OptionError(f"the value was clipped for {bounded.contribution!r}, not for {self!r}")


class SymmetricMatrix(Contribution):
    """Shared by totals that are symmetric matrices: the isometry through the upper triangle."""

    symmetric = True

    @property
    def vector_size(self) -> int:
        side = self.total_shape[0]
        return side * (side + 1) // 2

    def to_vector(self, total: FloatArray) -> FloatArray:
        """Diagonal as is, entries above it times sqrt(2)."""
        return upper_triangle(total)

    def from_vector(self, vector: FloatArray) -> FloatArray:
        return symmetric_matrix(vector, self.total_shape[0])


def upper_triangle(matrix: FloatArray) -> FloatArray:
    """Symmetric matrices (..., d, d) as vectors whose l2 norm is the Frobenius norm: entries above the diagonal times sqrt(2)."""
    rows, columns = np.triu_indices(np.shape(matrix)[-1])
    return np.asarray(np.asarray(matrix)[..., rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2)))


def symmetric_matrix(vector: FloatArray, side: int) -> FloatArray:
    """Inverse of `upper_triangle`."""
    rows, columns = np.triu_indices(side)
    values = np.asarray(vector) * np.where(rows == columns, 1.0, math.sqrt(0.5))
    matrix = np.zeros((*values.shape[:-1], side, side))
    matrix[..., rows, columns] = values
    matrix[..., columns, rows] = values
    return matrix


def factor(neighbours: Neighbours | str, add_remove: float, replace_one: float) -> float:
    """The number that belongs to these neighbours."""
    return add_remove if Neighbours(neighbours) is Neighbours.ADD_REMOVE else replace_one
