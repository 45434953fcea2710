"""What one task puts into a sum, how it is clipped, and how far one unit can move the sum.

Sensitivities, C or K the clipping norm, add-remove / replace-one (docs/theory/model-protected.md#symmetric-gaussian,
docs/theory/model-protected.md#gram):

    VectorSum     sum of vectors |v| <= C             l2  C                 / 2 C
    OuterSum      sum of M'M, |M|_F <= K               F   K^2               / sqrt(2) K^2
                                                       nuclear K^2           / 2 K^2
    MomentSum     (a sum M, b sum M'M), |M|_F <= 1     see moments.py
    DiagonalSum   diagonal of that                     l1  K^2 / 2 K^2       l2 K^2 / sqrt(2) K^2
    TaskGram      tasks x tasks, entries <M_i, M_j>    F   sqrt(2m-1) K^2    / sqrt(8(m-1)+1) K^2
                                                       nuclear sqrt(4m-3) K^2 / 4 sqrt(m-1) K^2
    TaskStack     every task's own row |v| <= C        l2  C                 / 2 C             (one row moves)
    RowSum        sum of row gradients |g| <= C        l2  C                 / 2 C             (unit: record)

Why sqrt(2): for positive semidefinite A, B with trace <= K^2, |A - B|_F^2 = |A|^2 + |B|^2 - 2<A, B> <= 2
K^4, because <A, B> >= 0. The same holds for nonnegative vectors (the diagonal).

TaskGram: one task changes one row and column b (both copies) and one diagonal entry a. The change has
eigenvalues (a +- sqrt(a^2 + 4|b|^2))/2, hence nuclear norm sqrt(a^2 + 4|b|^2). With |M_i| = K, |M_i'| = s
that is at most (K+s) sqrt((K-s)^2 + 4(m-1)K^2), which for m >= 2 grows with s up to 4 sqrt(m-1) K^2.

Messages are clipped jointly over outputs (Frobenius norm), by `bounds.clip_rows` and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from taskveil.errors import DataError, OptionError
from taskveil.privacy.bounds import Bounded, FloatArray, _seal, clip_factored_rows, clip_rows
from taskveil.privacy.contribution import ArrayMessage, Contribution, Sensitivity, SymmetricMatrix, VectorSum, factor
from taskveil.privacy.fields import check_fields
from taskveil.privacy.moments import MomentSum
from taskveil.privacy.partial_sums import Partial, add_up, add_up_squares, added_up, added_up_squares
from taskveil.privacy.per_task import Weighted
from taskveil.privacy.units import Neighbours, Unit

__all__ = [
    "CONTRIBUTIONS", "Contribution", "DiagonalSum", "MomentSum", "OuterSum", "RowSum", "Sensitivity", "TaskGram", "TaskStack",
    "VectorSum", "Weighted", "contribution_from_dict"
]  # fmt: skip


@dataclass(frozen=True)
class _ModelMessage(Contribution):
    """Shared by contributions whose message is one task's model, (n_outputs, n_features)."""

    n_features: int
    bound: float
    n_outputs: int = 1

    @property
    def message_shape(self) -> tuple[int, ...]:
        return (self.n_outputs, self.n_features)


@dataclass(frozen=True)
class OuterSum(_ModelMessage, SymmetricMatrix):
    """Sum over tasks of M'M (features x features), M one task's model of Frobenius norm at most `bound`."""

    kind = "outer-sum"

    @property
    def total_shape(self) -> tuple[int, ...]:
        return (self.n_features, self.n_features)

    def sensitivity(self, neighbours: Neighbours | str) -> Sensitivity:
        square = self.bound**2
        return Sensitivity(l2=factor(neighbours, 1.0, math.sqrt(2)) * square, nuclear=factor(neighbours, 1.0, 2.0) * square)

    def _partial(self, messages: FloatArray) -> Partial:
        return Partial((add_up_squares(messages.reshape(-1, self.n_features), self.bound),))

    def _total(self, partial: Partial) -> FloatArray:
        return added_up_squares(partial.parts[0], self.bound)

    def _each(self, messages: FloatArray) -> FloatArray:
        return np.asarray(np.matmul(messages.transpose(0, 2, 1), messages))


@dataclass(frozen=True)
class DiagonalSum(_ModelMessage):
    """The diagonal of OuterSum: per feature, the sum of squared coefficients over tasks and outputs."""

    kind = "diagonal-sum"

    @property
    def total_shape(self) -> tuple[int, ...]:
        return (self.n_features,)

    def sensitivity(self, neighbours: Neighbours | str) -> Sensitivity:
        square = self.bound**2
        return Sensitivity(l2=factor(neighbours, 1.0, math.sqrt(2)) * square, l1=factor(neighbours, 1.0, 2.0) * square)

    def _partial(self, messages: FloatArray) -> Partial:
        return Partial((add_up(self._each(messages), self.bound**2),))

    def _total(self, partial: Partial) -> FloatArray:
        return added_up(partial.parts[0], self.bound**2)

    def _each(self, messages: FloatArray) -> FloatArray:
        return np.asarray(np.einsum("krd,krd->kd", messages, messages))


@dataclass(frozen=True)
class TaskGram(SymmetricMatrix):
    """Tasks x tasks: entry (i, j) is <M_i, M_j>. One task moves a whole row and column."""

    kind = "task-gram"
    n_tasks: int
    n_features: int
    bound: float
    n_outputs: int = 1

    @property
    def message_shape(self) -> tuple[int, ...]:
        return (self.n_outputs, self.n_features)

    @property
    def total_shape(self) -> tuple[int, ...]:
        return (self.n_tasks, self.n_tasks)

    def sensitivity(self, neighbours: Neighbours | str) -> Sensitivity:
        m, square = self.n_tasks, self.bound**2
        frobenius = factor(neighbours, math.sqrt(2 * m - 1), math.sqrt(8 * (m - 1) + 1))
        nuclear = factor(neighbours, math.sqrt(4 * m - 3), max(4 * math.sqrt(m - 1), 1.0))
        return Sensitivity(l2=frobenius * square, nuclear=nuclear * square)

    def _total(self, partial: Partial) -> FloatArray:
        (messages,) = partial.parts
        if messages.shape[0] != self.n_tasks:
            raise DataError(f"task-gram needs the messages of all {self.n_tasks} tasks; got {messages.shape[0]}")
        rows = messages.reshape(self.n_tasks, -1)
        return np.asarray(rows @ rows.T)

    def unclipped_total(self, messages: FloatArray) -> FloatArray:
        self._check_messages(messages)
        return self._total(self._partial(messages))

    def _each(self, messages: FloatArray) -> FloatArray:
        raise OptionError("task-gram is not a sum of what single tasks can compute; use aggregation 'curator'")


@dataclass(frozen=True)
class TaskStack(ArrayMessage):
    """Every task's own array of `shape`, side by side: nothing is summed, one task moves one row.

    Noise of a row needs to hide that row only, so laws that are not coordinate-wise are drawn row by row.
    """

    kind = "task-stack"
    n_tasks: int
    shape: tuple[int, ...]
    bound: float

    @property
    def total_shape(self) -> tuple[int, ...]:
        return (self.n_tasks, *self.shape)

    def _total(self, partial: Partial) -> FloatArray:
        (messages,) = partial.parts
        if messages.shape[0] != self.n_tasks:
            raise DataError(f"task-stack needs the messages of all {self.n_tasks} tasks; got {messages.shape[0]}")
        return messages

    def _each(self, messages: FloatArray) -> FloatArray:
        self._total(self._partial(messages))
        placed = np.zeros((self.n_tasks, *self.total_shape))
        diagonal = np.arange(self.n_tasks)
        placed[diagonal, diagonal] = messages
        return placed


@dataclass(frozen=True)
class RowSum(VectorSum):
    """Sum of row gradients, each row clipped to `bound`; unit record, one person being one row of one task.

    Clipping must happen row by row before the sum, so `clip` refuses raw sums: use `sum_rows`,
    `sum_factored_rows` or, in a jitted round, `bounds.clip_rows` followed by `seal_clipped_sum`.
    """

    kind = "row-sum"
    unit = Unit.RECORD

    def clip(self, raw: Any) -> Bounded:
        """Accepts only what this class has already clipped row by row."""
        if isinstance(raw, Bounded):
            self._check_bounded(raw)
            return raw
        raise OptionError(
            "a sum of rows cannot be clipped after the fact; use row_sum.sum_rows(rows, offsets) or "
            "row_sum.sum_factored_rows(X, residuals, offsets)"
        )

    def nothing(self, n_tasks: int) -> Bounded:
        """One zero row for every task."""
        return self.sum_rows(np.zeros((n_tasks, *self.shape)), np.arange(n_tasks + 1))

    def sum_rows(self, rows: Any, offsets: Any) -> Bounded:
        """Clip each row gradient (N, *shape) and sum them task by task."""
        array = np.asarray(rows, dtype=np.float64)
        clipped = clip_rows(array.reshape(len(array), math.prod(self.shape)), self.bound)
        return _seal(_sum_segments(clipped, offsets).reshape(-1, *self.shape), self)

    def sum_factored_rows(self, X: Any, residuals: Any, offsets: Any) -> Bounded:
        """Clip the row gradients r_i x_i' of a linear model (shape (r, d)) and sum them task by task."""
        X = np.asarray(X, dtype=np.float64)
        clipped = clip_factored_rows(X, residuals, self.bound)
        finite = np.where(np.isfinite(X).all(axis=1, keepdims=True), X, 0.0)
        bounds = np.asarray(offsets)
        sums = [clipped[a:b].T @ finite[a:b] for a, b in pairwise(bounds)]
        return _seal(np.stack(sums).reshape(-1, *self.shape), self)


def _sum_segments(rows: FloatArray, offsets: Any) -> FloatArray:
    bounds = np.asarray(offsets)
    sums = np.zeros((len(bounds) - 1, rows.shape[1]))
    task_of_row = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    np.add.at(sums, task_of_row, rows)
    return sums


CONTRIBUTIONS: dict[str, type[Contribution]] = {
    c.kind: c for c in (VectorSum, OuterSum, MomentSum, DiagonalSum, TaskGram, TaskStack, RowSum, Weighted)
}


def contribution_from_dict(data: dict[str, Any]) -> Contribution:
    """The contribution written by `Contribution.to_dict`."""
    fields = dict(data)
    kind = fields.pop("kind", None)
    if kind not in CONTRIBUTIONS:
        raise DataError(f"unknown contribution {kind!r}: expected one of {', '.join(sorted(CONTRIBUTIONS))}")
    check_fields(CONTRIBUTIONS[kind], fields)
    if "inner" in fields:
        fields["inner"] = contribution_from_dict(fields["inner"])
    if "shape" in fields:
        fields["shape"] = tuple(fields["shape"])
    return CONTRIBUTIONS[kind](**fields)
