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

Learning alone, from which such steps start, has computed these matrices already, and hands them on (solvers/evidence.py); what
it has not, because rows were fewer than features or nobody learnt alone, is computed before the first step, to the same bits.
Whether packing pays for a task depends on nothing but the task's size, so that its numbers stay the same, to the last bit, alone
and among others.
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
from taskveil.solvers.padding import Stack, centred_rows, of_ordinary_size, over_stacks
from taskveil.solvers.posterior import second_moment
from taskveil.tasks.block import TaskBlock
from taskveil.threads import over_tasks

EVERY = 16
MOST = 0.3  # of the bytes of a task's rows: memory, and there must be something to save
Array = NDArray[np.floating]


class Curvature:
    """What `kernels_step.accelerated_step` takes beside the rows.

    where     (m,) where the matrix of a task begins in `numbers`, -1 for a task that has none
    numbers   all packed matrices, each divided by the square of its task's length (m,), the root of its mean diagonal
    anchors   (m, d) z0 of every task, and in `slopes` the gradient there
    """

    def __init__(self, block: TaskBlock, usable: bool, centred: bool) -> None:
        self.block, self.centred = block, centred
        length = packed_size(block.n_features)
        pays = usable & (length * np.dtype(np.float32).itemsize <= MOST * block.sizes * block.n_features * block.X.itemsize)
        self.where = np.where(pays, (np.cumsum(pays) - 1) * length, -1)
        self.missing = pays.copy()  # not packed yet
        self.numbers, self.lengths = np.empty(int(pays.sum()) * length, np.float32), np.ones(block.n_tasks)
        room = (block.n_tasks, block.n_features) if pays.any() else (0, 0)
        self.anchors, self.slopes = np.empty(room), np.empty(room)
        self.steps = 0

    def next_step_from_rows(self) -> bool:
        """Counts one more step; whether tasks whose curvature is packed read their rows in it too, and move their anchors."""
        if self.missing.any():
            self.pack_missing()
        self.steps += 1
        return self.steps % EVERY == 1

    def pack_missing(self) -> None:
        def second_moments(stack: Stack) -> None:
            if self.missing[stack.tasks].any():
                stack, size = of_ordinary_size(stack)
                self.take(stack, *second_moment(centred_rows(stack, stack.y[:, :, 0], stack.weights, self.centred)), size)

        over_stacks(second_moments, self.block)

    def take(self, stack: Stack, G: Array, unit: Array, size: Array) -> None:
        """The matrices that pay among G (k, d, d): X'X / unit^2 of a stack's centred rows, which were divided by size (k,)."""
        from taskveil.solvers import kernels_step

        total, mean = stack.weights.sum(axis=1), np.einsum("kpp->k", G) / G.shape[1]
        some = mean > 0.0
        self.lengths[stack.tasks] = np.where(some, np.sqrt(mean / np.where(some, total, 1.0)) * unit * size, 1.0)
        kernels_step.pack(G, 1.0 / np.where(some, mean, 1.0), self.where[stack.tasks], self.numbers)
        self.missing[stack.tasks] = False


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
        usable = loss.quadratic and block.n_outputs == 1 and not from_rows
        self.curvature = Curvature(block, usable, centred=fit_intercept)

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
