"""The base of all contributions: what one task puts into a sum, clipped in one place; and the usual one, a vector.

Other sums, and the proofs of all sensitivities, are in contributions.py (one sum each) and moments.py (a mean and a second
moment together).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from taskveil.errors import DataError, OptionError
from taskveil.privacy.bounds import Bounded, FloatArray, _seal, check_norm, clip_rows
from taskveil.privacy.partial_sums import Partial, add_up, added_up, joined
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


class ArrayMessage(Contribution):
    """Shared by contributions whose message is an array of `shape` and of norm at most `bound`, part of the total as it is."""

    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        shape = (self.shape,) if isinstance(self.shape, int) else self.shape
        object.__setattr__(self, "shape", tuple(int(n) for n in shape))
        super().__post_init__()

    @property
    def message_shape(self) -> tuple[int, ...]:
        return self.shape

    def sensitivity(self, neighbours: Neighbours | str) -> Sensitivity:
        """C / 2C in l2; by Cauchy-Schwarz sqrt(p) times that in l1."""
        l2 = factor(neighbours, 1.0, 2.0) * self.bound
        return Sensitivity(l2=l2, l1=math.sqrt(math.prod(self.shape)) * l2)


@dataclass(frozen=True)
class VectorSum(ArrayMessage):
    """Sum over tasks of arrays of `shape`, each of l2 norm at most `bound`."""

    kind = "vector-sum"
    shape: tuple[int, ...]
    bound: float

    @property
    def total_shape(self) -> tuple[int, ...]:
        return self.shape

    def _partial(self, messages: FloatArray) -> Partial:
        return Partial((add_up(messages, self.bound),))

    def _total(self, partial: Partial) -> FloatArray:
        return added_up(partial.parts[0], self.bound)

    def _each(self, messages: FloatArray) -> FloatArray:
        return messages


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


def seal_clipped_sum(contribution: Contribution, value: Any, n_units: int) -> Bounded:
    """A total that a jitted round has clipped with `bounds.clip_rows` and summed, as a Bounded value.

    For engines only: the caller states that `clip_rows(..., contribution.bound)` was applied to every
    unit's message inside the trace. What can be checked is checked: shape, finiteness, and the norm against
    n_units * bound (`n_units` public: tasks for unit task, rows for unit record).
    """
    exact = isinstance(value, Partial)
    total = contribution._total(value) if exact else np.array(value, dtype=np.float64)
    if total.shape != contribution.total_shape or not isinstance(contribution, VectorSum):
        raise DataError(f"expected a vector sum of shape {contribution.total_shape}; got shape {total.shape}")
    if not np.linalg.norm(total) <= n_units * contribution.bound * (1 + 1e-6):  # a NaN is not either
        raise DataError("the clipped sum is not finite or exceeds what clipped units can add up to; nothing was released")
    return _seal(value if exact else Partial((add_up(total[None], contribution.bound),)), contribution, summed=True)


def seal_partials(contribution: Contribution, partials: Sequence[Partial]) -> Bounded:
    """What blocks of tasks add to a total, as one Bounded value; `partials` in the order of the blocks.

    For runtimes whose blocks are elsewhere: the caller states that each was made there by `contribution.partial` of clipped
    messages.
    """
    whole = joined(partials)
    return _seal(whole.parts[0], contribution) if whole.stacked else _seal(whole, contribution, summed=True)
