"""Local solves, all tasks at once: mean loss plus a quadratic penalty around a centre.

    min over w, b of  L_i(w, b) + (mu_i/2) (w - c_i)' A (w - c_i)

A is the identity, a diagonal, or a full positive semidefinite matrix shared by all tasks; mu_i >= 0 is per
task; the intercept b is not penalised. Solved by damped Newton (solvers/newton_steps.py); for the squared
loss one step is exact.

Always finite: a ridge of 1e-9 times the mean curvature is added, which decides separable data with mu = 0;
a task whose labels are all equal keeps w = c with the smoothed log-odds as intercept (as
solvers/centred.py), and one without rows keeps w = c, b = 0.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.base import Loss
from taskveil.solvers.cox import minimise_cox
from taskveil.solvers.newton_steps import LocalProblem
from taskveil.solvers.padding import stacks
from taskveil.solvers.penalty import Penalty
from taskveil.tasks.block import TaskBlock

Array = NDArray[np.floating]
__all__ = ["Penalty", "minimise_local"]


def minimise_local(
    block: TaskBlock, loss: Loss, strengths: Array | float, penalty: Penalty | None = None, fit_intercept: bool = True
) -> tuple[Array, Array]:
    """(W (m, r, d), b (m, r)) for strengths mu: a number, (m,) or (m, r)."""
    m, r, d = block.n_tasks, block.n_outputs, block.n_features
    mu = np.asarray(strengths, dtype=float)
    mu = np.broadcast_to(mu[:, None] if mu.ndim == 1 else mu, (m, r))
    if not loss.rowwise:
        return minimise_cox(block, mu, penalty)
    penalty = penalty or Penalty()
    W, b = np.empty((m, r, d)), np.empty((m, r))
    centres = penalty.centres((m, r, d))
    for stack in stacks(block):
        for o in range(r):
            local = LocalProblem(stack, o, loss, penalty.full(d), centres[stack.tasks, o], fit_intercept=fit_intercept)
            W[stack.tasks, o], b[stack.tasks, o] = local.solve(mu[stack.tasks, o], stack.shares())
    return W, b
