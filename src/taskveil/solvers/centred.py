"""The smooth part of a joint problem, with intercepts in centred coordinates.

    f(W, b) = sum_i L_i(w_i, b_i) + (ridge/2) |W|_F^2,       scores x'w + b

Intercepts are local and unpenalised. Written as score = (x - xbar_i)'w + c with c = b + xbar_i'w, the
curvature in w is that of the centred rows and no longer couples with c, so that a feature with a large mean
does not slow the solver down. The rows themselves are never centred (that would copy X or break sparsity):
the mean enters through gradients only.

A task-output with one class has its optimal intercept at infinity. It is held at the smoothed log-odds
instead (half a row added to each class); its slopes are then equal on all rows at w = 0, the centred gradient
vanishes, and the task keeps w = 0 unless the structure moves it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.base import Loss
from taskveil.solvers.block_gradient import mean_gradients, row_weights, task_means
from taskveil.solvers.curvature import Curvature
from taskveil.solvers.lipschitz import task_lipschitz
from taskveil.solvers.moves import subtract_products
from taskveil.tasks.block import TaskBlock
from taskveil.threads import over_tasks

Array = NDArray[np.floating]


@dataclass(frozen=True)
class Evaluation:
    """f and its gradient at one point."""

    value: float
    grad_W: Array  # (m, r, d), of f in w with c fixed
    grad_c: Array  # (m, r), zero where the intercept is held


class SmoothPart:
    """f over one block; a point is (W (m, r, d), c (m, r)) with centred intercepts c.

    `from_rows`: every step reads the rows, so that it depends on nothing but the point it starts from (solvers/curvature.py).
    """

    def __init__(
        self, block: TaskBlock, loss: Loss, ridge: float = 0.0, fit_intercept: bool = True, from_rows: bool = False
    ) -> None:
        self.block, self.loss, self.ridge, self.fit_intercept = block, loss, ridge, fit_intercept
        self.shape = (block.n_tasks, block.n_outputs, block.n_features)
        mean_x, mean_y, self.counts = task_means(block)
        self.mean_x, self.mean_y = (v if fit_intercept else np.zeros_like(v) for v in (mean_x, mean_y))
        held = (np.abs(mean_y) == 1.0) & loss.labels & fit_intercept
        self.free = fit_intercept & ~held
        self.first_intercepts = np.zeros_like(mean_y)
        self.first_intercepts[held] = _smoothed_log_odds(mean_y, self.counts)[held]
        self.curvature = Curvature(block, self.mean_x, usable=loss.quadratic and not from_rows)

    def lipschitz(self) -> Array:
        """(m,) Lipschitz constants of the gradient in w, per task, rounded up."""
        return task_lipschitz(self.block, self.loss, centred=self.fit_intercept) + self.ridge

    def evaluate(self, W: Array, c: Array) -> Evaluation:
        grad_W, grad_b, values = mean_gradients(self.block, W, self.intercepts(W, c), self.loss)
        if self.fit_intercept:
            subtract_products(grad_W, grad_b, self.mean_x)
        value = float(values.sum())
        if self.ridge:
            grad_W += self.ridge * W
            value += 0.5 * self.ridge * float(np.square(W).sum())
        return Evaluation(value, grad_W, np.where(self.free, grad_b, 0.0))

    def accelerated_step(
        self, at: tuple[Array, Array], before: tuple[Array, Array], beta: float, steps: Array
    ) -> tuple[Array, Array]:
        """z - steps * gradient(z) at z = at + beta (at - before), for (W, c) pairs; steps (m,).

        With one output and a compiled loss this is one pass over rows and models, with nothing stored between.
        The step in c is 1 / smoothness, because in centred coordinates the curvature in c is the loss's own.
        """
        if self.shape[1] == 1 and self.loss.kernel is not None:
            return self._fused_step(at, before, beta, steps)
        z, zc = (now + beta * (now - then) for now, then in zip(at, before, strict=True))
        here = self.evaluate(z, zc)
        return z - steps[:, None, None] * here.grad_W, zc - here.grad_c / self.loss.smoothness

    def _fused_step(self, at: tuple[Array, Array], before: tuple[Array, Array], beta: float, steps: Array) -> tuple[Array, Array]:
        from taskveil.solvers import kernels_step

        new, new_c = np.empty(self.shape), np.empty(self.shape[:2])
        block, weights = self.block, row_weights(self.block)
        (W, c), (W_before, c_before) = at, before
        packed = self.curvature
        from_rows = packed.next_step_from_rows()

        def work(first: int, last: int) -> None:
            kernels_step.accelerated_step(
                block.X, block.y, weights, block.offsets, W, W_before, c, c_before, beta, self.mean_x, self.mean_y,
                self.free, steps, 1.0 / self.loss.smoothness, self.ridge, self.loss.kernel, packed.where, packed.numbers,
                packed.lengths, packed.anchors, packed.slopes, from_rows, first, last, new, new_c,
            )  # fmt: skip

        over_tasks(work, block.offsets, self.shape[2])
        return new, new_c

    def intercepts(self, W: Array, c: Array) -> Array:
        """b = c - xbar'w."""
        return c - np.einsum("mrd,md->mr", W, self.mean_x)

    def centred(self, W: Array, b: Array) -> Array:
        """c = b + xbar'w; held intercepts keep their value."""
        c = b + np.einsum("mrd,md->mr", W, self.mean_x)
        return np.where(self.free, c, self.first_intercepts)


def _smoothed_log_odds(mean_y: Array, counts: Array) -> Array:
    """log((n+ + 1/2) / (n- + 1/2)) for labels -1/+1 with these means and counts."""
    n = counts[:, None]
    mean_y = np.clip(mean_y, -1.0, 1.0)  # regression targets pass through here too, and are not used
    return np.log((n * (1.0 + mean_y) + 1.0) / (n * (1.0 - mean_y) + 1.0))
