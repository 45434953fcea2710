"""Squared loss, many steps: the gradient from the curvature of a task instead of its rows.

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

import numpy as np
from numpy.typing import NDArray

from taskveil.solvers.bands import packed_size
from taskveil.solvers.block_gradient import row_weights
from taskveil.tasks.block import TaskBlock
from taskveil.threads import over_tasks

Array = NDArray[np.floating]
WAIT = 10
EVERY = 16
MOST = 0.3  # of the bytes of a task's rows: memory, and there must be something to save


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
