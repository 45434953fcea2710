"""Huber's loss: squared up to THRESHOLD, linear beyond, so that one wild target counts no more than a moderate one (Huber 1964).

The target is in robust units (median and median absolute deviation of a task's own rows, or declared ranges), in which 1.345
keeps 95 % of the efficiency of least squares where errors are normal and as large as the target's own spread.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from taskveil.losses.base import Array, Loss

if TYPE_CHECKING:
    from taskveil.tasks.block import TaskBlock

THRESHOLD = 1.345
STEPS = 100


class Huber(Loss):
    """Smooth with constant 1, Lipschitz with constant THRESHOLD."""

    name = "huber"
    smoothness = 1.0
    lipschitz = THRESHOLD
    score_range = float("inf")

    def value(self, scores: Array, y: Array) -> Array:
        size = np.abs(scores - y)
        return np.where(size <= THRESHOLD, 0.5 * np.square(np.minimum(size, THRESHOLD)), THRESHOLD * (size - 0.5 * THRESHOLD))

    def derivative(self, scores: Array, y: Array) -> Array:
        return np.clip(scores - y, -THRESHOLD, THRESHOLD)

    def second_derivative(self, scores: Array, y: Array) -> Array:
        return (np.abs(scores - y) <= THRESHOLD).astype(float)

    def conjugate(self, slopes: Array, y: Array) -> Array:
        return np.where(np.abs(slopes) <= THRESHOLD, 0.5 * np.square(slopes) + slopes * y, np.inf)

    def working(self, scores: Array, y: Array, weights: Array) -> tuple[Array, Array]:
        """Rows beyond the threshold count less: least squares that touch the loss at these scores and lie above it elsewhere."""
        return weights * tempered(scores - y), y

    def intercepts(self, scores: Array, block: TaskBlock) -> Array:
        """Each step lowers the loss; the number of steps is fixed, so that a task's numbers do not depend on others."""
        left = block.y - scores
        b = block.means_by_task(left)
        for _ in range(STEPS):
            weight = tempered(left - b[block.task_of_row])
            total = block.means_by_task(weight)
            b = np.where(total > 0.0, block.means_by_task(weight * left) / np.where(total > 0.0, total, 1.0), 0.0)
        return b


def tempered(errors: Array) -> Array:
    """The weight of an error: one inside the threshold, falling like its inverse beyond."""
    return THRESHOLD / np.maximum(np.abs(errors), THRESHOLD)
