"""Tasks of similar size as dense stacks, for solvers that work on whole matrices per task.

Sizes are ragged; stacking (tasks, rows, features) needs equal ones. Tasks are sorted by size, grouped so that
padding stays under a quarter, and padded with rows of weight 0. One group at a time is in memory.
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
    rows: NDArray[np.int64]  # (k, n) row numbers in the block; padding repeats a row of the block
    X: Array
    y: Array
    weights: Array

    def shares(self) -> Array:
        """weight / sum of weights of the task, (k, n); zeros for a task without rows."""
        return normalised(self.weights)


def stacks(block: TaskBlock, limit: int = LIMIT, same_size: bool = False) -> Iterator[Stack]:
    """All tasks of the block, each in exactly one stack.

    `same_size` groups tasks of one size only: without padding a task's numbers are the same, to the last bit,
    alone and among others.
    """
    sizes = np.diff(block.offsets)
    order = np.argsort(sizes, kind="stable")
    first = 0
    while first < order.size:
        last = _group_end(sizes[order], first, block.X.shape[1], limit=limit, same_size=same_size)
        yield _stack(block, order[first:last], sizes)
        first = last


def _group_end(ascending: NDArray[np.int64], first: int, d: int, *, limit: int, same_size: bool) -> int:
    """One past the last task whose size fits the group that starts at `first`."""
    widest = int(ascending[first])
    if not same_size:
        widest = max(widest * 5 // 4, widest + 2)
    fit = int(np.searchsorted(ascending, widest, side="right"))
    most = max(1, limit // max(1, widest * d))
    return min(fit, first + most)


def _stack(block: TaskBlock, tasks: NDArray[np.int64], sizes: NDArray[np.int64]) -> Stack:
    width = int(sizes[tasks].max(initial=0))
    position = np.arange(width)
    inside = position < sizes[tasks][:, None]
    rows = np.where(inside, block.offsets[tasks][:, None] + position, 0)
    weights = inside.astype(float)
    if block.weights is not None:
        weights *= block.weights[rows] if width else 1.0
    X = block.X[rows].astype(float, copy=False)
    return Stack(tasks, rows, X, block.y[rows].astype(float, copy=False), weights)


def normalised(weights: Array) -> Array:
    """Each row of (k, n) divided by its sum; zeros where the sum is zero."""
    total = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)
