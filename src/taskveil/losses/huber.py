"""Huber's loss: squared up to THRESHOLD, linear beyond, so that one wild target counts no more than a moderate one (Huber 1964).

Rounds of gradients use it in the units of the run, whose scale is robust too (tasks/robust.py). What a task fits on its own
rows, for itself or for a message, has THRESHOLD times the usual error of its model instead (Huber's proposal 2, with the median
absolute error): declared ranges may be wide, and in them nothing would be wild. Where errors are normal 1.345 keeps 95 % of the
efficiency of least squares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.base import Array, Loss
from taskveil.tasks.robust import medians, robust_scales

if TYPE_CHECKING:
    from taskveil.tasks.block import TaskBlock

THRESHOLD = 1.345
LEAST_ERROR = 0.2  # of the spread of a task's target
STEPS = 30


class Huber(Loss):
    """Smooth with constant 1, Lipschitz with constant THRESHOLD."""

    name = "huber"
    smoothness = 1.0
    score_range = float("inf")

    def value(self, scores: Array, y: Array) -> Array:
        size = np.abs(scores - y)
        return np.where(size <= THRESHOLD, 0.5 * np.square(np.minimum(size, THRESHOLD)), THRESHOLD * (size - 0.5 * THRESHOLD))

    def derivative(self, scores: Array, y: Array) -> Array:
        return np.clip(scores - y, -THRESHOLD, THRESHOLD)

    def second_derivative(self, scores: Array, y: Array) -> Array:
        return (np.abs(scores - y) <= THRESHOLD).astype(float)

    def first_scores(self, y: Array, weights: Array) -> Array:
        return medians(y.ravel(), _ends(y), weights.ravel() > 0.0)

    def working(self, scores: Array, y: Array, weights: Array) -> tuple[Array, Array]:
        """Targets drawn in to THRESHOLD usual errors: the wildest says no more of the noise than a moderate one."""
        left, ends, counted = y - scores, _ends(y), weights.ravel() > 0.0
        most = THRESHOLD * _usual(left.ravel(), _least(y.ravel(), ends, counted), ends, counted)[:, None]
        return weights, scores + np.clip(left, -most, most)

    def intercepts(self, scores: Array, block: TaskBlock) -> Array:
        """Where the errors of drawn-in targets add up to zero; so many steps for every task, whatever others hold."""
        ends, of, counted = block.offsets, block.task_of_row, None if block.weights is None else block.weights > 0.0
        b = np.empty((block.n_tasks, scores.shape[1]))
        for k, y in enumerate(block.y.T):
            least, left = _least(y, ends, counted), y - scores[:, k]
            b[:, k] = medians(left, ends, counted)
            for _ in range(STEPS):
                error = left - b[of, k]
                most = THRESHOLD * _usual(error, least, ends, counted)[of]
                b[:, k] += block.means_by_task(np.clip(error, -most, most))
        return b


def _ends(y: Array) -> NDArray[np.int64]:
    """Where the rows of every task of a stack (k, n) begin and end."""
    return np.arange(len(y) + 1) * y.shape[1]


def _least(y: Array, ends: NDArray[np.int64], counted: NDArray[np.bool_] | None) -> Array:
    """(m,) the least size of a usual error: a few rows that are fitted by chance do not make all others wild."""
    return LEAST_ERROR * robust_scales(y, ends, medians(y, ends, counted), counted)


def _usual(errors: Array, least: Array, ends: NDArray[np.int64], counted: NDArray[np.bool_] | None) -> Array:
    """(m,) the size of a usual error."""
    return np.maximum(robust_scales(errors, ends, np.zeros(len(least)), counted), least)
