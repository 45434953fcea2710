"""Every task alone with an l1 penalty: the lasso and l1-penalised logistic regression, all tasks in one
compiled loop.

    min over w, b of  L_i(w, b) + strength_i |w|_1          (intercept not penalised)

Proximal Newton: quadratic model of the loss, coordinate descent on it, a line search on the true objective
(Friedman, Hastie & Tibshirani 2010; Lee, Sun & Saunders 2014). For the squared loss the model is exact. Each
task stops on its own duality gap. Rows are centred in a private copy of one task at a time, which decouples
the intercept.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.base import Loss
from taskveil.solvers.block_gradient import mean_gradients, row_scores, row_weights
from taskveil.tasks.block import TaskBlock
from taskveil.threads import over_tasks

Array = NDArray[np.floating]


def minimise_l1(
    block: TaskBlock,
    loss: Loss,
    strengths: Array | float,
    fit_intercept: bool = True,
    *,
    tol: float = 1e-8,
    start: tuple[Array, Array] | None = None,
) -> tuple[Array, Array]:
    """(W (m, r, d), b (m, r)) for strengths: a number or (m,); stops at duality gap <= tol * objective per
    task.

    A one-class task has w = 0 and the smoothed log-odds as intercept; one without rows w = 0, b = 0.
    """
    from taskveil.solvers import kernels_l1

    m, r, d = block.n_tasks, block.n_outputs, block.n_features
    strengths = np.broadcast_to(np.asarray(strengths, dtype=float), (m,)).copy()
    W, b = (np.zeros((m, r, d)), np.zeros((m, r))) if start is None else (start[0].copy(), start[1].copy())
    weights = row_weights(block)

    def work(first: int, last: int) -> None:
        kernels_l1.lasso(block.X, block.y, weights, block.offsets, strengths, loss.kernel, fit_intercept, tol, first, last, W, b)

    over_tasks(work, block.offsets, 10 * d * r)
    return W, b


def largest_useful_strength(block: TaskBlock, loss: Loss, fit_intercept: bool = True) -> Array:
    """(m,) the smallest strength at which every weight is zero: the largest slope at the constant model."""
    m, r, d = block.n_tasks, block.n_outputs, block.n_features
    _, b = minimise_l1(block, loss, 1e300, fit_intercept)
    grad_W, _, _ = mean_gradients(block, np.zeros((m, r, d)), b, loss)
    return np.abs(grad_W).max(axis=(1, 2), initial=0.0)


def cross_validated_l1(
    block: TaskBlock,
    loss: Loss,
    grid: Array,
    folds: int | NDArray[np.int64] = 5,
    fit_intercept: bool = True,
    *,
    tol: float = 1e-5,
) -> Array:
    """(g, m) held-out mean loss of k folds of every task's own rows, for strengths (g,) or (g, m), descending, warm starts."""
    fold_of_row = block.folds(folds) if isinstance(folds, int) else folds
    counted = np.ones(block.n_rows) if block.weights is None else block.weights
    held = np.zeros((len(grid), block.n_rows))
    for fold in np.unique(fold_of_row):
        out = fold_of_row == fold
        rest, start = block.with_mask(~out), None
        for k, strengths in enumerate(np.asarray(grid, dtype=float)):
            start = minimise_l1(rest, loss, strengths, fit_intercept, tol=tol, start=start)
            losses = loss.value(row_scores(block, *start), block.y).sum(axis=1)
            held[k, out] = losses[out]
    return np.asarray(block.sums_by_task((held * counted).T).T / np.maximum(block.sums_by_task(counted), 1.0))
