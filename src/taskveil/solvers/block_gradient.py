"""Mean loss of every task and its gradient, in one pass over the rows of a block.

    L_i(w, b) = (1/n_i) sum_rows loss(x'w + b, y)       summed over outputs

Rows of weight 0 do not count, and a task without rows has value and gradient 0. X is never copied; float32
rows are accumulated in float64. A task's numbers do not depend on the other tasks of the block, to the last
bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.base import Loss
from taskveil.tasks.block import TaskBlock
from taskveil.threads import over_tasks

Array = NDArray[np.floating]
NO_WEIGHTS = np.empty(0)
PART = 1_000_000  # numbers of X that the NumPy version handles at a time


def row_weights(block: TaskBlock) -> Array:
    """The weights as the kernels take them: empty where every row counts."""
    return NO_WEIGHTS if block.weights is None else np.asarray(block.weights, dtype=float)


def mean_gradients(block: TaskBlock, W: Array, b: Array, loss: Loss) -> tuple[Array, Array, Array]:
    """(grad_W (m, r, d), grad_b (m, r), values (m,)) at models W (m, r, d) and intercepts b (m, r)."""
    if loss.kernel is None:
        return mean_gradients_numpy(block, W, b, loss)
    from taskveil.solvers import kernels

    W, b = np.ascontiguousarray(W, dtype=float), np.ascontiguousarray(b, dtype=float)
    m, r, d = W.shape
    out = np.empty_like(W), np.empty_like(b), np.empty(m)
    kernel = kernels.single_output_gradients if r == 1 else kernels.gradients
    weights = row_weights(block)

    def work(first: int, last: int) -> None:
        kernel(block.X, block.y, weights, block.offsets, W, b, loss.kernel, first, last, *out)

    over_tasks(work, block.offsets, d * r)
    return out


def mean_gradients_numpy(block: TaskBlock, W: Array, b: Array, loss: Loss) -> tuple[Array, Array, Array]:
    """The same in plain NumPy: the reference in the tests, and the way for losses without a kernel.

    Tasks of equal size next to each other are stacked and multiplied at once; other tasks go one by one.
    """
    grad_W, grad_b, values = np.zeros(W.shape), np.zeros(b.shape), np.zeros(len(W))
    for first, last, size in equal_runs(block.offsets, block.X.shape[1]):
        rows = slice(block.offsets[first], block.offsets[last])
        tasks = slice(first, last)
        X = block.X[rows].reshape(last - first, size, -1)  # a view: rows of a task are contiguous
        y = block.y[rows].reshape(last - first, size, -1)
        weight = _row_shares(block.weights, rows, last - first, size)
        scores = X @ W[tasks].transpose(0, 2, 1) + b[tasks][:, None, :]
        slopes = weight * loss.derivative(scores, y)
        grad_W[tasks] = slopes.transpose(0, 2, 1) @ X
        grad_b[tasks] = slopes.sum(axis=1)
        values[tasks] = (weight * loss.value(scores, y)).sum(axis=(1, 2))
    return grad_W, grad_b, values


def equal_runs(offsets: NDArray[np.int64], n_features: int) -> Iterator[tuple[int, int, int]]:
    """Runs (first task, last task + 1, rows per task) of neighbours of one size, at most PART numbers."""
    sizes = np.diff(offsets)
    first = 0
    while first < len(sizes):
        size = int(sizes[first])
        longest = max(1, PART // max(1, size * n_features))
        window = sizes[first : first + longest]
        different = np.flatnonzero(window != size)
        last = first + (int(different[0]) if different.size else len(window))
        yield first, last, size
        first = last


def task_means(block: TaskBlock) -> tuple[Array, Array, Array]:
    """(mean of X (m, d), mean of y (m, r), sum of weights (m,)) per task; zeros for a task without rows."""
    from taskveil.solvers import kernels

    m, d, r = len(block.offsets) - 1, block.X.shape[1], block.y.shape[1]
    out = np.empty((m, d)), np.empty((m, r)), np.empty(m)
    weights = row_weights(block)

    def work(first: int, last: int) -> None:
        kernels.column_means(block.X, block.y, weights, block.offsets, first, last, *out)

    over_tasks(work, block.offsets, d)
    return out


def row_scores(block: TaskBlock, W: Array, b: Array) -> Array:
    """(N, r) scores x'w + b of every row under its own task's model, without a copy of X or W per row."""
    from taskveil.solvers import kernels

    W, b = np.ascontiguousarray(W, dtype=float), np.ascontiguousarray(b, dtype=float)
    out = np.empty((block.X.shape[0], W.shape[1]))

    def work(first: int, last: int) -> None:
        kernels.scores(block.X, block.offsets, W, b, first, last, out)

    over_tasks(work, block.offsets, W.shape[1] * W.shape[2])
    return out


def _row_shares(weights: Array | None, rows: slice, n_tasks: int, size: int) -> Any:
    """weight / sum of weights of the task, shaped to broadcast over (tasks, rows, outputs)."""
    if weights is None:
        return 1.0 / size if size else 0.0
    w = np.asarray(weights[rows], dtype=float).reshape(n_tasks, size, 1)
    total = w.sum(axis=1, keepdims=True)
    return np.divide(w, total, out=np.zeros_like(w), where=total > 0.0)
