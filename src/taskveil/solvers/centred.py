"""The smooth part of a joint problem, with intercepts in centred coordinates.

    f(W, b) = sum_i L_i(w_i, b_i) + (ridge/2) |W|_F^2,       scores x'w + b

Intercepts are local and unpenalised. Written as score = (x - xbar_i)'w + c with c = b + xbar_i'w, the
curvature in w is that of the centred rows and no longer couples with c, so that a feature with a large mean
does not slow the solver down. The rows themselves are never centred (that would copy X or break sparsity):
the mean enters through gradients only.

A task-output with one class has its optimal intercept at infinity. It is held at the smoothed log-odds
instead (half a row added to each class); its slopes are then equal on all rows at w = 0, the centred gradient
vanishes, and the task keeps w = 0 unless the structure moves it.

Squared loss, many steps: the gradient from the curvature of a task instead of its rows.

The mean loss of a task is a quadratic, so that between two points z and z0

    gradient(z) = gradient(z0) + C (z - z0),      C = (1/n) sum (x - xbar)(x - xbar)'

C is symmetric: half of it says all, in single precision half of that. At 100 rows of 100 features a step then reads a quarter
of the bytes. What single precision loses is proportional to z - z0, and the anchor z0 moves up to the iterate with its exact
gradient from the rows every EVERY steps: a fixed point of these steps is one of the exact ones, and the way to it differs by
about 1e-6 of its length.

Packing costs about as much as WAIT steps from the rows, so it is done after that many: at most twice what the better of the
two ways would have cost, without knowing how many steps will come. Whether it pays for a task depends on nothing but the
task's size, so that its numbers stay the same, to the last bit, alone and among others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.base import Loss
from taskveil.solvers.bands import packed_size
from taskveil.solvers.block_gradient import mean_gradients, row_weights, task_means
from taskveil.solvers.lipschitz import task_lipschitz
from taskveil.solvers.moves import subtract_products
from taskveil.tasks.block import TaskBlock
from taskveil.threads import over_tasks

WAIT = 10
EVERY = 16
MOST = 0.3  # of the bytes of a task's rows: memory, and there must be something to save
Array = NDArray[np.floating]


class Curvature:
    """What `kernels_step.accelerated_step` takes beside the rows; empty for the first steps.

    where     (m,) where the matrix of a task begins in `numbers`, -1 for a task that has none
    numbers   all packed matrices, each divided by the square of its task's length (m,), the root of its mean diagonal
    anchors   (m, d) z0 of every task, and in `slopes` the gradient there
    """

    def __init__(self, block: TaskBlock, mean_x: Array, usable: bool) -> None:
        self.block, self.mean_x = block, mean_x
        self.where = np.full(block.n_tasks, -1, dtype=np.int64)
        self.pays = self._pays() if usable else np.zeros(block.n_tasks, dtype=bool)
        self.numbers, self.lengths = np.empty(0, np.float32), np.empty(0)
        self.anchors, self.slopes = np.empty((0, 0)), np.empty((0, 0))
        self.steps = 0

    def next_step_from_rows(self) -> bool:
        """Counts one more step; whether tasks whose curvature is packed read their rows in it too, and move their anchors."""
        if self.steps == WAIT and self.pays.any():
            self.pack()
        self.steps += 1
        return (self.steps - 1 - WAIT) % EVERY == 0

    def _pays(self) -> NDArray[np.bool_]:
        most = MOST * self.block.sizes * self.block.n_features * self.block.X.itemsize
        return np.asarray(packed_size(self.block.n_features) * np.dtype(np.float32).itemsize <= most)

    def pack(self) -> None:
        """The matrices of the tasks for which it pays."""
        from taskveil.solvers import kernels_curvature

        block, weights = self.block, row_weights(self.block)
        each = packed_size(block.n_features)
        self.where[self.pays] = np.arange(self.pays.sum()) * each
        self.numbers, self.lengths = np.empty(int(self.pays.sum()) * each, np.float32), np.empty(block.n_tasks)
        self.anchors, self.slopes = np.empty(self.mean_x.shape), np.empty(self.mean_x.shape)

        def work(first: int, last: int) -> None:
            kernels_curvature.pack(
                block.X, weights, block.offsets, self.mean_x, self.where, first, last, self.numbers, self.lengths
            )

        over_tasks(work, block.offsets, block.n_features)


@dataclass(frozen=True)
class Evaluation:
    """f and its gradient at one point."""

    value: float
    grad_W: Array  # (m, r, d), of f in w with c fixed
    grad_c: Array  # (m, r), zero where the intercept is held


class SmoothPart:
    """f over one block; a point is (W (m, r, d), c (m, r)) with centred intercepts c.

    `from_rows`: every step reads the rows, so that it depends on nothing but the point it starts from (solvers/centred.py).
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
