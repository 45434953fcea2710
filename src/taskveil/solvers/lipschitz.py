"""How steep the mean loss of a task can get: a certain upper bound on the Lipschitz constant of its gradient.

The gradient of L_i(w) = (1/n_i) sum loss(x'w, y) has Lipschitz constant at most smoothness *
lambda_max(X_i'X_i / n_i). Power iteration estimates lambda_max from below, and a step 1/L from below is not
safe. We square instead: with A the Gram matrix of the shorter side and p = 2^k,

    (|A^p|_F^2 / |A^(p/2)|_F^2)^(1/p)  <=  lambda_max(A)  <=  |A^p|_F^(1/p),

both from sums of powers of eigenvalues. Squaring stops once the two are within `slack`; the upper one is
returned.

These numbers are functions of private rows. In a private run a task may use its own as its local step; the
largest over tasks is not public, and methods take a bound from declared ranges instead (|x| <= R gives R^2 *
smoothness).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.base import Loss
from taskveil.solvers.padding import Stack, stacks
from taskveil.tasks.block import TaskBlock

Array = NDArray[np.floating]
MOST_SQUARINGS = 12


def task_lipschitz(block: TaskBlock, loss: Loss, centred: bool = False, slack: float = 0.05) -> Array:
    """(m,) upper bounds per task, at most (1 + slack) times the true constants; 0 for tasks without rows.

    `centred`: of the rows minus their mean, which is what remains when an intercept absorbs the mean
    (solvers/centred.py).
    """
    bounds = np.zeros(block.n_tasks)
    for stack in stacks(block):
        bounds[stack.tasks] = largest_eigenvalues(_grams(stack, centred), slack)
    return loss.smoothness * bounds


def common_lipschitz(block: TaskBlock, loss: Loss, centred: bool = False, slack: float = 0.05) -> float:
    """The largest over tasks: 1 / it is a safe common step for the sum of all task losses."""
    return float(task_lipschitz(block, loss, centred, slack).max(initial=0.0))


def largest_eigenvalues(A: Array, slack: float = 0.05) -> Array:
    """Upper bounds on lambda_max of positive semidefinite A (k, p, p), at most (1 + slack) times it."""
    bound = np.zeros(len(A))
    trace = np.einsum("kii->k", A)
    live = np.flatnonzero(trace > 0.0)
    B = A[live] / trace[live, None, None]  # eigenvalues in [0, 1], sum 1
    norm, log_scale, power = _frobenius(B), np.zeros(live.size), 1.0
    for _ in range(MOST_SQUARINGS):
        # B, scaled by exp(log_scale) to avoid underflow, is the power-th power; squaring doubles both.
        log_before = np.log(norm) + log_scale
        B = B @ B
        log_scale, power = 2.0 * log_scale, 2.0 * power
        norm = _frobenius(B)
        upper = (np.log(norm) + log_scale) / power
        lower = 2.0 * (np.log(norm) + log_scale - log_before) / power
        if np.all(upper - lower <= np.log1p(slack)):
            break
        B /= norm[:, None, None]
        log_scale = log_scale + np.log(norm)
        norm = np.ones_like(norm)
    # Rounding in the products is far below 1e-9 relative; round up by that much.
    bound[live] = trace[live] * np.exp(upper) * (1.0 + 1e-9) if live.size else 0.0
    return bound


def _grams(stack: Stack, centred: bool) -> Array:
    """X'X / n or XX' / n of each task, whichever is smaller, of (centred) rows that count."""
    share = stack.shares()
    X = stack.X
    if centred:
        X = X - np.einsum("kn,knd->kd", share, X)[:, None, :]
    X = X * np.sqrt(share)[:, :, None]
    transposed = X.transpose(0, 2, 1)
    return X @ transposed if X.shape[1] < X.shape[2] else transposed @ X


def _frobenius(B: Array) -> Array:
    return np.sqrt(np.einsum("kij,kij->k", B, B))
