"""Local solves, all tasks at once: mean loss plus a quadratic penalty around a centre.

    min over w, b of  L_i(w, b) + (mu_i/2) (w - c_i)' A (w - c_i)

A is the identity, a diagonal, or a full positive semidefinite matrix shared by all tasks; mu_i >= 0 is per
task; the intercept b is not penalised. Solved by damped Newton (solvers/newton_steps.py); for the squared
loss one step is exact, but solvers/ridge.py is the faster way and has leave-one-out.

Always finite: a ridge of 1e-9 times the mean curvature is added, which decides separable data with mu = 0;
a task whose labels are all equal keeps w = c with the smoothed log-odds as intercept (as
solvers/centred.py), and one without rows keeps w = c, b = 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.base import Loss
from taskveil.solvers.cox import minimise_cox
from taskveil.solvers.held_out import CrossValidation, mean_and_error
from taskveil.solvers.newton_steps import LocalProblem
from taskveil.solvers.padding import normalised, stacks
from taskveil.solvers.penalty import Penalty
from taskveil.solvers.per_task import per_task
from taskveil.tasks.block import TaskBlock

Array = NDArray[np.floating]
__all__ = ["Penalty", "cross_validated", "minimise_local", "solve_grid"]


def minimise_local(
    block: TaskBlock,
    loss: Loss,
    strengths: Array | float,
    penalty: Penalty | None = None,
    fit_intercept: bool = True,
) -> tuple[Array, Array]:
    """(W (m, r, d), b (m, r)) for strengths mu: a number, (m,) or (m, r)."""
    m, r = block.n_tasks, block.n_outputs
    mu = np.asarray(strengths, dtype=float)
    mu = np.broadcast_to(mu[:, None] if mu.ndim == 1 else mu, (m, r))
    if not loss.rowwise:
        return minimise_cox(block, mu, penalty)
    W, b = solve_grid(block, loss, mu[None], penalty, fit_intercept)
    return W[0], b[0]


def solve_grid(
    block: TaskBlock,
    loss: Loss,
    grid: Array,
    penalty: Penalty | None = None,
    fit_intercept: bool = True,
) -> tuple[Array, Array]:
    """(W (g, m, r, d), b (g, m, r)) for a grid of strengths (g,) or (g, m, r), each started from the one
    before.

    Give strengths in descending order: warm starts then cost a step or two each.
    """
    m, r, d = block.n_tasks, block.n_outputs, block.n_features
    mu = np.asarray(grid, dtype=float)
    mu = np.broadcast_to(mu[:, None, None] if mu.ndim == 1 else mu, (len(mu), m, r))
    penalty = penalty or Penalty()
    W, b = np.empty((len(mu), m, r, d)), np.empty((len(mu), m, r))
    centres = penalty.centres((m, r, d))
    for stack in stacks(block):
        for o in range(r):
            local = LocalProblem(stack, o, loss, penalty.full(d), centres[stack.tasks, o], fit_intercept=fit_intercept)
            path = local.path(mu[:, stack.tasks, o], stack.shares())
            for k, (w, c) in enumerate(path):
                W[k, stack.tasks, o], b[k, stack.tasks, o] = w, c
    return W, b


def cross_validated(
    block: TaskBlock,
    loss: Loss,
    grid: Array,
    folds: int | NDArray[np.int64] = 5,
    penalty: Penalty | None = None,
    *,
    fit_intercept: bool = True,
) -> CrossValidation:
    """k-fold on every task's own rows for strengths (g,), descending; `folds`: how many, or one per row."""
    fold_of_row = block.folds(folds) if isinstance(folds, int) else folds
    m, r, d = block.n_tasks, block.n_outputs, block.n_features
    penalty = penalty or Penalty()
    centres = penalty.centres((m, r, d))
    mean, error = np.zeros((len(grid), m)), np.zeros((len(grid), m))
    for stack in stacks(block):
        held = np.zeros((len(grid), *stack.weights.shape))  # held-out loss of every row, summed over outputs
        mu = np.broadcast_to(np.asarray(grid, dtype=float)[:, None], (len(grid), len(stack.tasks)))
        for o in range(r):
            local = LocalProblem(stack, o, loss, penalty.full(d), centres[stack.tasks, o], fit_intercept=fit_intercept)
            for fold in np.unique(fold_of_row):
                out = (fold_of_row[stack.rows] == fold) & (stack.weights > 0.0)
                shares = normalised(stack.weights * ~out)
                for k, (w, c) in enumerate(local.path(mu, shares)):
                    scores = per_task("knd,kd->kn", stack.X, w) + c[:, None]
                    held[k] += np.where(out, loss.value(scores, stack.y[:, :, o]), 0.0)
        mean[:, stack.tasks], error[:, stack.tasks] = mean_and_error(held, stack.weights)
    return CrossValidation(mean, error)
