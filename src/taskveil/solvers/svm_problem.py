"""The multi-task support vector machine as an optimisation problem: rows, boxes, objective, duality gap.

    P(w, v) = coupling/2 |w|^2 + (C2/2) sum_k |v_k|^2 + sum_ik c_ik l((w + v_k)'x_ik, y_ik)
    D(b)    = sum_ik (t_ik b_ik - e |b_ik|) - coupling/2 |sum_k r_k|^2 - (1/(2 C2)) sum_k |r_k|^2,   r_k = sum_i b_ik x_ik

with l the hinge loss (t = y, e = 0, b between 0 and y c) or the epsilon-insensitive loss (t = y, |b| <= c). At the optimum
w = sum_k r_k and v_k = r_k / C2 (Ponomarenko-Timofeev et al., eq. 6, 18). The equations there lack the box in the update
(eq. 13) and have a wrong sign and divisor for regression (eq. 26-27): docs/theory/svm.md#wrong. The same optimum is that of one
linear SVM on the stacked features (x, 0.., x/sqrt(C2), ..0) (Evgeniou & Pontil 2004), which the tests solve with liblinear.

Three scopes share the code: `joint`, `local` (w = 0: coupling 0) and `pooled` (v = 0: 1/C2 = 0).
Letters: c cost of a row (C1 times its class weight), u = w + v_k a task's point. The gap is a private figure.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from taskveil.errors import DataError
from taskveil.losses.base import Loss
from taskveil.losses.epsilon_insensitive import EpsilonInsensitive
from taskveil.losses.hinge import Hinge

SCOPES = ("joint", "local", "pooled")
EMPTY = np.zeros(0)


@dataclass(frozen=True, eq=False)
class SvmProblem:
    """One output's problem over the rows of many tasks. Build it with `make_problem`."""

    values: np.ndarray  # rows one after another
    width: int
    constant: float  # value of the appended constant feature, 0 for none
    offsets: np.ndarray
    target: np.ndarray  # (N,)
    cost: np.ndarray  # (N,) c
    loss: Loss
    coupling: float  # 1; 0 forces w to zero
    inverse: float  # 1/C2; 0 forces v to zero

    @property
    def n_tasks(self) -> int:
        return int(self.offsets.size - 1)

    @property
    def n_rows(self) -> int:
        return int(self.target.size)

    @property
    def size(self) -> int:
        """Length of w and v_k: the features and one more for the intercept (unused, and zero, without one)."""
        return self.width + 1

    @property
    def band(self) -> float:
        return self.loss.insensitivity if isinstance(self.loss, EpsilonInsensitive) else 0.0

    @cached_property
    def squares(self) -> np.ndarray:
        """|x_i|^2, the constant feature included."""
        rows = self.values.reshape(-1, self.width)
        return np.einsum("nd,nd->n", rows, rows, dtype=np.float64) + self.constant**2

    @cached_property
    def flat(self) -> np.ndarray:
        """Rows with |x| = 0."""
        return np.flatnonzero(self.squares <= 0.0)

    @cached_property
    def low(self) -> np.ndarray:
        return np.minimum(self.target * self.cost, 0.0) if isinstance(self.loss, Hinge) else -self.cost

    @cached_property
    def high(self) -> np.ndarray:
        return np.maximum(self.target * self.cost, 0.0) if isinstance(self.loss, Hinge) else self.cost

    @property
    def rows(self) -> tuple[Any, ...]:
        """How kernels are told where the rows are."""
        return self.values, self.width, self.constant

    @property
    def boxes(self) -> tuple[Any, ...]:
        """How kernels are told what each coordinate minimises."""
        return self.squares, self.target, self.low, self.high, self.band

    def scores(self, points: np.ndarray) -> np.ndarray:
        """x'u of every row under its own task's point (tasks, size)."""
        from taskveil.solvers.dual_coordinate import scores

        out = np.empty(self.n_rows)
        scores(*self.rows, self.offsets, np.ascontiguousarray(points), out)  # type: ignore[call-arg]
        return out

    def sums(self, dual: np.ndarray) -> np.ndarray:
        """r_k = sum_i b_i x_i, (tasks, size)."""
        from taskveil.solvers.dual_coordinate import weighted_sums

        out = np.zeros((self.n_tasks, self.size))
        weighted_sums(*self.rows, self.offsets, np.ascontiguousarray(dual), out)  # type: ignore[call-arg]
        return out

    def losses(self, points: np.ndarray) -> np.ndarray:
        """c times the loss, summed over each task's rows, (tasks,)."""
        return self._by_task(self.cost * self.loss.value(self.scores(points), self.target))

    def dual_terms(self, dual: np.ndarray) -> np.ndarray:
        """sum_i (t b - e |b|) per task: minus the conjugate, (tasks,).

        Rows with |x| = 0 are never visited; their best b is known, moves nothing else, and is counted here.
        """
        if self.flat.size:
            dual = dual.copy()
            edge = np.where(self.target[self.flat] > 0, self.high[self.flat], self.low[self.flat])
            dual[self.flat] = np.where(np.abs(self.target[self.flat]) > self.band, edge, 0.0)
        return self._by_task(self.target * dual - self.band * np.abs(dual))

    def primal(self, shared: np.ndarray, own: np.ndarray) -> float:
        """P at w = shared (size,), v = own (tasks, size)."""
        quadratic = 0.5 * self.coupling * float(shared @ shared)
        if self.inverse > 0:
            quadratic += 0.5 / self.inverse * float(np.sum(own * own))
        return quadratic + float(self.losses(shared + own).sum())

    def dual_value(self, dual: np.ndarray, sums: np.ndarray) -> float:
        """D at b = dual with r = sums."""
        total = sums.sum(axis=0)
        quadratic = 0.5 * self.coupling * float(total @ total) + 0.5 * self.inverse * float(np.sum(sums * sums))
        return float(self.dual_terms(dual).sum()) - quadratic

    def gap(self, dual: np.ndarray, sums: np.ndarray) -> tuple[float, float]:
        """(P, D) at the primal point the dual suggests: w = sum r, v = r / C2."""
        shared = self.coupling * sums.sum(axis=0)
        return self.primal(shared, self.inverse * sums), self.dual_value(dual, sums)

    def with_scope(self, scope: str) -> SvmProblem:
        """The same rows learnt jointly, alone, or pooled."""
        if scope == "pooled":
            return replace(self, coupling=1.0, inverse=0.0)
        return replace(self, coupling=0.0 if scope == "local" else 1.0)

    def _by_task(self, values: np.ndarray) -> np.ndarray:
        ends = np.concatenate([[0.0], np.cumsum(values)])
        return ends[self.offsets[1:]] - ends[self.offsets[:-1]]


def make_problem(
    X: Any,
    y: np.ndarray,
    offsets: np.ndarray,
    loss: Loss,
    C1: float = 1.0,
    C2: float = 1.0,
    fit_intercept: bool = True,
    cost_factors: np.ndarray | None = None,
) -> SvmProblem:
    """X (N, d), y (N,), offsets (m + 1,); `cost_factors` (N,) multiplies C1 per row."""
    offsets = np.ascontiguousarray(offsets, dtype=np.int64)
    X, y = np.ascontiguousarray(X), np.ascontiguousarray(y, dtype=np.float64).reshape(-1)
    values = X.reshape(-1) if X.dtype in (np.float32, np.float64) else X.reshape(-1).astype(np.float64)
    if isinstance(loss, Hinge) and not np.isin(y, (-1.0, 1.0)).all():
        raise DataError(
            "the hinge loss needs labels -1 and +1 (two classes); recode the labels or split them one against the rest"
        )
    cost = np.full(y.size, float(C1)) if cost_factors is None else float(C1) * np.asarray(cost_factors, dtype=np.float64)
    constant = 1.0 if fit_intercept else 0.0
    return SvmProblem(values, X.shape[1], constant, offsets, y, cost, loss, 1.0, 1.0 / C2)


def balanced_factors(y: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Per row n_k / (2 n_k,class): both classes of a task weigh the same; a task with one class keeps weight 1."""
    factors = np.ones(y.size)
    for a, b in pairwise(offsets):
        positive = y[a:b] > 0
        p = int(positive.sum())
        if 0 < p < b - a:
            factors[a:b] = np.where(positive, 0.5 * (b - a) / p, 0.5 * (b - a) / (b - a - p))
    return factors
