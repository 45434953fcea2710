"""Exact ridge solves of many small tasks at once, with leave-one-out in closed form.

    min over w, b of  (1/2n_i) |y_i - X_i w - b|^2 + (mu/2) (w - c)' A (w - c)

A is positive definite and shared, the intercept b is not penalised. With L L' = A^-1 and rows Z = (X_i -
mean) L, one eigendecomposition of the smaller of Z'Z and ZZ' gives the solution for every mu:

    w = c + L V diag(f) V'Z'(y - Xc),    f_j = t / (1 + t e_j),    t = 1 / (n_i mu)

and the residual of row k when it is left out is its residual over 1 - 1/n_i - sum_j f_j (Z V)_kj^2 (Allen
1974; the 1/n_i belongs to the intercept). Tasks come in stacks of similar size
(solvers/padding.py): there is no loop over tasks, and only one stack is in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskveil.solvers.held_out import mean_and_error
from taskveil.solvers.padding import Stack, stacks
from taskveil.solvers.penalty import Penalty
from taskveil.solvers.per_task import per_task
from taskveil.tasks.block import TaskBlock

Array = NDArray[np.floating]
LIMIT = 100_000  # numbers of X in one stack; a dozen arrays of this size live at a time, and should in the cache
ROUNDING = 1e-12  # what is left of equal targets after centring, relative to them, is not a signal
FLOOR = 1e-9  # smallest eigenvalue of a penalty matrix, relative to its largest


@dataclass(frozen=True)
class CentredRows:
    """Rows of a stack, centred (where there is an intercept) and multiplied by the root of their weight."""

    X: Array  # (k, n, d)
    y: Array  # (k, n)
    free: Array  # (k,) degrees of freedom: weights of the rows that count, less one for the intercept, at least 0

    @property
    def scale(self) -> Array:
        """(k,) standard deviation of the task's own target; 1 where there is none."""
        spread = np.sqrt(per_task("kn,kn->k", self.y, self.y) / np.maximum(self.free, 1.0))
        return np.where(spread > 0.0, spread, 1.0)


def centred_rows(stack: Stack, y: Array, weights: Array, fit_intercept: bool = True) -> CentredRows:
    """`y` (k, n) and row weights (k, n); rows of weight 0 vanish, and so does a task with a value that is
    not finite.
    """
    counted = weights > 0.0
    usable = np.asarray(((np.isfinite(stack.X).all(axis=2) & np.isfinite(y)) | ~counted).all(axis=1))
    w = np.where(usable[:, None], weights, 0.0)
    X, t = stack.X, y
    if not usable.all():
        X = np.where((usable[:, None] & counted)[:, :, None], X, 0.0)
        t = np.where(usable[:, None] & counted, t, 0.0)
    root = np.sqrt(w)
    if fit_intercept:
        total = w.sum(axis=1)
        share = np.divide(w, total[:, None], out=np.zeros_like(w), where=total[:, None] > 0.0)
        X = X - per_task("kn,knd->kd", share, X)[:, None, :]
        size = np.abs(np.where(counted, t, 0.0)).max(axis=1, initial=0.0)[:, None]
        t = np.where(counted, t - per_task("kn,kn->k", share, t)[:, None], 0.0)
        t = np.where(np.abs(t).max(axis=1, initial=0.0, keepdims=True) <= ROUNDING * size, 0.0, t)
    free = np.maximum(np.where(counted & usable[:, None], stack.weights, 0.0).sum(axis=1) - float(fit_intercept), 0.0)
    weighted = X if (root == 1.0).all() else X * root[:, :, None]
    return CentredRows(weighted, np.where(counted, t, 0.0) * root, free)


@dataclass(frozen=True)
class Spectrum:
    """One prior N(centre, factor factor') seen through every task's rows: all that any strength needs.

    values (k, j)       eigenvalues e_j of Z'Z
    basis (k, d, j), along (k, j)   w = centre + basis (f * along)
    rows (k, n, j)      leverage of a row = sum_j f_j rows_j^2
    """

    values: Array
    along: Array
    basis: Array
    centre: Array
    rows: Array

    def solution(self, filters: Array) -> Array:
        """w (k, d) for filter factors f (k, j)."""
        return self.centre + per_task("kdj,kj->kd", self.basis, filters * self.along)

    def filters(self, strengths: Array) -> Array:
        """f = t/(1 + t e) (k, g, j) for t (k, g)."""
        t = strengths[:, :, None]
        return t / (1.0 + t * self.values[:, None, :])


def spectrum(rows: CentredRows, factor: Array | None, centre: Array) -> Spectrum:
    """Decompose rows (k tasks) under the prior covariance factor factor' (d, p); None is the identity.

    `centre` is (k, d). The smaller of the two Gram matrices is decomposed.
    """
    t = rows.y - per_task("knd,kd->kn", rows.X, centre)
    Z = rows.X if factor is None else rows.X @ factor
    if Z.shape[1] >= Z.shape[2]:
        values, V = np.linalg.eigh(Z.transpose(0, 2, 1) @ Z)
        along, onto = per_task("kdj,kd->kj", V, per_task("knd,kn->kd", Z, t)), V
        scores = Z @ V
    else:
        values, U = np.linalg.eigh(Z @ Z.transpose(0, 2, 1))
        along, onto = per_task("knj,kn->kj", U, t), Z.transpose(0, 2, 1) @ U
        scores = U * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    return Spectrum(np.maximum(values, 0.0), along, onto if factor is None else factor @ onto, centre, scores)


@dataclass(frozen=True)
class RidgePath:
    """Ridge models for every strength and task, and their leave-one-out squared errors."""

    coef: Array  # (g, m, r, d)
    intercept: Array  # (g, m, r)
    left_out: Array  # (g, m) mean over rows and outputs of the squared leave-one-out residual
    standard_error: Array  # (g, m) of that mean, over the task's rows

    def best(self) -> NDArray[np.int64]:
        """(m,) the strength of least leave-one-out error; the first among equals."""
        return np.argmin(self.left_out, axis=0)


def ridge_path(block: TaskBlock, strengths: Array, penalty: Penalty | None = None, fit_intercept: bool = True) -> RidgePath:
    """All tasks under all strengths mu (g,); rows of weight 0 are left out of everything.

    A task without rows keeps w = c. Strengths may be as small as the rows allow: mu = 0 needs more rows
    than features.
    """
    m, r, d, g = block.n_tasks, block.n_outputs, block.n_features, len(strengths)
    penalty = penalty or Penalty()
    factor = None if penalty.matrix is None else inverse_factor(penalty.full(d))
    centres = penalty.centres((m, r, d))
    coef, intercept = np.empty((g, m, r, d)), np.zeros((g, m, r))
    left_out, error = np.zeros((g, m)), np.zeros((g, m))
    for stack in stacks(block, LIMIT):
        squares = np.zeros((g, *stack.weights.shape))
        for o in range(r):
            rows = centred_rows(stack, stack.y[:, :, o], stack.weights, fit_intercept)
            found = spectrum(rows, factor, centres[stack.tasks, o])
            models, residuals = _solve(found, rows, np.asarray(strengths, dtype=float), stack.weights, fit_intercept)
            squares += np.square(residuals)
            coef[:, stack.tasks, o] = models
            if fit_intercept:
                x_mean = per_task("kn,knd->kd", stack.shares(), stack.X)
                y_mean = per_task("kn,kn->k", stack.shares(), stack.y[:, :, o])
                intercept[:, stack.tasks, o] = y_mean - np.einsum("gkd,kd->gk", models, x_mean)
        left_out[:, stack.tasks], error[:, stack.tasks] = mean_and_error(squares, stack.weights)
    return RidgePath(coef, intercept, left_out, error)


def inverse_factor(matrix: Array) -> Array:
    """L (d, d) with L L' = A^-1, eigenvalues of A lifted to FLOOR times the largest."""
    values, vectors = np.linalg.eigh(matrix)
    return vectors / np.sqrt(np.maximum(values, FLOOR * max(float(values[-1]), 1e-300)))


def _solve(found: Spectrum, rows: CentredRows, mu: Array, weights: Array, fit_intercept: bool) -> tuple[Array, Array]:
    """Models (g, k, d) of one output, and every row's residual when it is left out (g, k, n)."""
    count = np.maximum(weights.sum(axis=1), 1.0)
    t = 1.0 / np.maximum(count[:, None] * mu[None], 1e-300)
    models, residuals = np.empty((len(mu), *found.centre.shape)), np.empty((len(mu), *weights.shape))
    intercept_share = (1.0 / count)[:, None] if fit_intercept else 0.0
    for g in range(len(mu)):
        f = found.filters(t[:, g : g + 1])[:, 0]
        models[g] = found.solution(f)
        leverage = intercept_share + per_task("knj,kj->kn", np.square(found.rows), f)
        residual = rows.y - per_task("knd,kd->kn", rows.X, models[g])
        residuals[g] = residual / np.maximum(1.0 - leverage, 1e-9) * (weights > 0.0)
    return models, residuals
