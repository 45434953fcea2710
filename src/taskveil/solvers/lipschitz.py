"""How steep the mean loss of a task can get: a certain upper bound on the Lipschitz constant of its gradient.

The gradient of L_i(w) = (1/n_i) sum loss(x'w, y) has Lipschitz constant at most smoothness *
lambda_max(X_i'X_i / n_i). Power iteration estimates lambda_max from below, and a step 1/L from below is not
safe. We square instead: with A the Gram matrix of the shorter side and p = 2^k,

    (|A^p|_F^2 / |A^(p/2)|_F^2)^(1/p)  <=  lambda_max(A)  <=  |A^p|_F^(1/p),

both from sums of powers of eigenvalues. Squaring stops once the two are within `slack`; the upper one is
returned. For squared loss learning alone has brought the very same matrix into tridiagonal form (solvers/posterior.py), where
bisection gives the largest eigenvalue for next to nothing.

These numbers are functions of private rows. In a private run a task may use its own as its local step; the
largest over tasks is not public, and methods take a bound from declared ranges instead (|x| <= R gives R^2 *
smoothness).
"""

from __future__ import annotations

from functools import partial

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.base import Loss
from taskveil.solvers.padding import Stack, centred_rows, of_ordinary_size, over_stacks
from taskveil.solvers.posterior import Reduced, largest_eigenvalue, reduced
from taskveil.solvers.solved_once import kept_or
from taskveil.tasks.block import TaskBlock

Array = NDArray[np.floating]
STEEPEST = "steepest"  # under which learning alone puts curvatures aside
MOST_SQUARINGS = 12
GRID = 2e-3
ROUNDING = 1e-6  # per row of the matrix: sixteen times the unit roundoff of single precision


def task_lipschitz(block: TaskBlock, loss: Loss, centred: bool = False, slack: float = 0.1) -> Array:
    """(m,) upper bounds per task, at most (1 + slack) times the true constants; 0 for tasks without rows.

    `centred`: of the rows minus their mean, which is what remains when an intercept absorbs the mean
    (solvers/centred.py); 0 where only rounding remains.
    """
    if loss.quadratic:
        return loss.smoothness * kept_or(partial(_steepest, block, centred), block, STEEPEST, centred)
    bounds = np.zeros(block.n_tasks)

    def bound(stack: Stack) -> None:
        largest = largest_eigenvalues(_grams(stack, centred), slack)
        bounds[stack.tasks] = np.where(largest > _rounding(stack), largest, 0.0) if centred else largest

    over_stacks(bound, block, same_size=True)
    return loss.smoothness * bounds


def _steepest(block: TaskBlock, centred: bool) -> Array:
    """(m,) for squared loss, where learning alone has not put them aside."""
    found = np.zeros(block.n_tasks)

    def bound(stack: Stack) -> None:
        stack, size = of_ordinary_size(stack)
        found[stack.tasks] = steepness(stack, reduced(centred_rows(stack, stack.y[:, :, 0], stack.weights, centred)), size)

    over_stacks(bound, block)
    return found


def steepness(stack: Stack, rows: Reduced, size: Array) -> Array:
    """(k,) largest eigenvalue of the second moment of a stack's (centred) rows, which were divided by `size` (k,)."""
    total = stack.weights.sum(axis=1)
    largest = largest_eigenvalue(rows) / np.where(total > 0.0, total, 1.0)
    return np.asarray(np.where(largest > _rounding(stack), largest, 0.0) * np.square(size))


def largest_eigenvalues(A: Array, slack: float = 0.1) -> Array:
    """Upper bounds on lambda_max of positive semidefinite A (k, p, p), at most (1 + slack) times it.

    Each matrix stops on its own and its bound is rounded up to a grid of GRID in the logarithm: a task then
    gets the same step alone, at its own site, and in a block of others.
    """
    bound = np.zeros(len(A))
    trace = np.einsum("kii->k", A)
    live = np.flatnonzero(trace > 0.0)
    # Eigenvalues in [0, 1], sum 1. Single precision is twice as fast; its error is rounded up below.
    B = (A[live] / trace[live, None, None]).astype(np.float32)
    norm, log_scale, power = _frobenius(B), np.zeros(live.size), 1.0
    logs = np.full(live.size, np.nan)
    for _ in range(MOST_SQUARINGS):
        # B, scaled by exp(log_scale) to avoid underflow, is the power-th power; squaring doubles both.
        log_before = np.log(norm) + log_scale
        B = B @ B
        log_scale, power = 2.0 * log_scale, 2.0 * power
        norm = _frobenius(B)
        upper = (np.log(norm) + log_scale) / power
        lower = 2.0 * (np.log(norm) + log_scale - log_before) / power
        good = np.isnan(logs) & (upper - lower <= np.log1p(slack) - 2 * GRID)
        logs[good] = upper[good]
        if not np.isnan(logs).any():
            break
        B /= norm[:, None, None].astype(np.float32)
        log_scale = log_scale + np.log(norm)
        norm = np.ones_like(norm)
    # A product of p x p matrices errs by at most p 2^-24 of its factors' norms; roots only shrink that.
    if live.size:
        logs = np.where(np.isnan(logs), upper, logs)
        certain = np.log(trace[live]) + logs + ROUNDING * max(1.0, A.shape[1])
        bound[live] = np.exp(np.ceil(certain / GRID) * GRID)
    return bound


def _grams(stack: Stack, centred: bool) -> Array:
    """X'X / n or XX' / n of each task, whichever is smaller, of (centred) rows that count."""
    share = stack.shares()
    X = stack.X
    if centred:
        X = X - share[:, None, :] @ X
    X = X * np.sqrt(share)[:, :, None]
    transposed = X.transpose(0, 2, 1)
    return X @ transposed if X.shape[1] < X.shape[2] else transposed @ X


def _rounding(stack: Stack) -> Array:
    """(k,) what subtracting the mean leaves of equal rows: n roundings of it. A step of 1 / that would be one of 1e30."""
    means = (stack.shares()[:, None, :] @ stack.X)[:, 0]
    return np.asarray(np.square(stack.X.shape[1] * np.finfo(float).eps) * np.square(means).sum(axis=1))


def _frobenius(B: Array) -> Array:
    return np.sqrt(np.square(B.reshape(len(B), B.shape[1] * B.shape[2])).sum(axis=1)).astype(float)
