"""Tasks of similar size as dense stacks, for solvers that work on whole matrices per task.

Sizes are ragged; stacking (tasks, rows, features) needs equal ones. Every task is padded with rows of weight 0 to the next
width of a fixed ladder (under a quarter more), and tasks of one width are stacked, as many as fit into memory. The width
depends on the task's own size alone, so that its numbers are the same, to the last bit, alone and among any others: how many
rows somebody else has is private.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskveil.tasks.block import TaskBlock

Array = NDArray[np.floating]
LIMIT = 500_000  # numbers of X in one stack: 4 MB


@dataclass(frozen=True)
class Stack:
    """Some tasks of a block: X (k, n, d), y (k, n, r), weights (k, n); padding has weight 0."""

    tasks: NDArray[np.int64]
    rows: NDArray[np.int64]  # (k, n) row numbers in the block; padding repeats the task's own last row
    X: Array
    y: Array
    weights: Array

    def shares(self) -> Array:
        """weight / sum of weights of the task, (k, n); zeros for a task without rows."""
        return normalised(self.weights)


def stacks(block: TaskBlock, limit: int = LIMIT, same_size: bool = False) -> Iterator[Stack]:
    """All tasks of the block, each in exactly one stack; `same_size`: without padding."""
    sizes = np.diff(block.offsets)
    widths = sizes if same_size else padded_width(sizes)
    order = np.argsort(widths, kind="stable")
    ascending = widths[order]
    first = 0
    while first < order.size:
        width = int(ascending[first])
        fit = int(np.searchsorted(ascending, width, side="right"))
        last = min(fit, first + max(1, limit // max(1, width * block.n_features)))
        yield _stack(block, order[first:last], sizes, width)
        first = last


def padded_width(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The next of 1, 2, ..., 8, 10, 12, 14, 16, 20, 24, ...: four steps to a doubling."""
    step = 2 ** np.maximum(np.frexp(np.maximum(sizes - 1, 0))[1] - 3, 0)
    return np.asarray(-(-sizes // step) * step)


def _stack(block: TaskBlock, tasks: NDArray[np.int64], sizes: NDArray[np.int64], width: int) -> Stack:
    position = np.arange(width)
    inside = position < sizes[tasks][:, None]
    rows = block.offsets[tasks][:, None] + np.minimum(position, sizes[tasks][:, None] - 1)
    weights = inside.astype(float)
    if block.weights is not None:
        weights *= block.weights[rows] if width else 1.0
    d = block.X.shape[1]
    X = np.ones((*rows.shape, block.n_features))
    X[:, :, :d] = block.X[rows]
    return Stack(tasks, rows, X, block.y[rows].astype(float, copy=False), weights)


def normalised(weights: Array) -> Array:
    """Each row of (k, n) divided by its sum; zeros where the sum is zero."""
    total = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)
