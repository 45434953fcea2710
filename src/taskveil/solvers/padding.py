"""Tasks of similar size as dense stacks, for solvers that work on whole matrices per task.

Sizes are ragged; stacking (tasks, rows, features) needs equal ones. Every task is padded with rows of weight 0 to the next
width of a fixed ladder (under a quarter more), and tasks of one width are stacked, as many as fit into memory. The width
depends on the task's own size alone, so that its numbers are the same, to the last bit, alone and among any others: how many
rows somebody else has is private.

`per_task` makes sums of products the same to the last bit however many tasks stand in a stack. Which tasks share a stack depends
on the numbers of rows of all of them, which are private. NumPy's einsum adds up 8192 products at a time where a stack holds one
task, and all at once where it holds several; so a task that is alone stands there twice.

`centred_rows` is what every ridge problem starts from: rows of a stack, centred and weighed. There is no loop over tasks, and
only one stack is in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.tasks.block import TaskBlock
from taskveil.threads import each, small_matrix_threads

Array = NDArray[np.floating]
LIMIT = 500_000  # numbers of X in one stack: 4 MB
ORDINARY = 1e100  # features between this and its inverse can be squared and added up
SMALLEST = 1e-150


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


def stacks(block: TaskBlock, limit: int | None = None) -> Iterator[Stack]:
    """All tasks of the block, each in exactly one stack."""
    return (_stack(block, *some) for some in _alike(block, LIMIT if limit is None else limit, False))


def over_stacks(work: Callable[[Stack], None], block: TaskBlock, same_size: bool = False) -> None:
    """work(stack) for stacks that fit into the cache, made and worked on by all threads; `same_size`: without padding.

    BLAS has one thread: how it splits a product must not depend on how many rows other tasks have.
    """
    with small_matrix_threads(0):
        each(lambda some: work(_stack(block, *some)), list(_alike(block, CACHED, same_size)))


def _alike(block: TaskBlock, limit: int, same_size: bool) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Tasks that share a stack, and the width of their rows in it."""
    sizes = block.sizes
    widths = sizes if same_size else padded_width(sizes)
    order = np.argsort(widths, kind="stable")
    ascending = widths[order]
    first = 0
    while first < order.size:
        width = int(ascending[first])
        fit = int(np.searchsorted(ascending, width, side="right"))
        last = min(fit, first + max(1, limit // max(1, width * block.n_features)))
        yield order[first:last], width
        first = last


def padded_width(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The next of 1, 2, ..., 8, 10, 12, 14, 16, 20, 24, ...: four steps to a doubling."""
    step = 2 ** np.maximum(np.frexp(np.maximum(sizes - 1, 0))[1] - 3, 0)
    return np.asarray(-(-sizes // step) * step)


def _stack(block: TaskBlock, tasks: NDArray[np.int64], width: int) -> Stack:
    sizes, position = block.sizes, np.arange(width)
    inside = position < sizes[tasks][:, None]
    rows = block.offsets[tasks][:, None] + np.minimum(position, sizes[tasks][:, None] - 1)
    weights = inside.astype(float)
    if block.weights is not None:
        weights *= block.weights[rows] if width else 1.0
    d = block.X.shape[1]
    X = np.ones((*rows.shape, block.n_features))
    X[:, :, :d] = block.X[rows]
    return Stack(tasks, rows, X, block.y[rows].astype(float, copy=False), weights)


def of_ordinary_size(stack: Stack) -> tuple[Stack, Array]:
    """The stack, and what its tasks' features were divided by (k,): one, but for values whose squares leave the number range.

    Strengths are relative to the rows, so a task's features may be divided by any number, and its models with them: powers
    of two change no digit. Features too small for that are none.
    """
    if _clearly_ordinary(stack):
        return stack, np.ones(len(stack.X))
    of_row = np.maximum(stack.X.max(axis=2, initial=0.0), -stack.X.min(axis=2, initial=0.0))
    largest = np.where(stack.weights > 0.0, of_row, 0.0).max(axis=1, initial=0.0)
    ordinary = (largest > 1.0 / ORDINARY) & (largest < ORDINARY)
    if ordinary.all():
        return stack, np.ones(len(largest))
    usable = np.isfinite(largest) & (largest >= SMALLEST)
    size = np.where(ordinary | ~usable, 1.0, np.exp2(np.floor(np.log2(np.where(usable, largest, 1.0)))))
    return replace(stack, X=np.where((largest < SMALLEST)[:, None, None], 0.0, stack.X / size[:, None, None])), size


def _clearly_ordinary(stack: Stack) -> bool:
    """Whether nothing is too large, and the first row of every task not too small: two quick passes."""
    if not stack.X.size or not -ORDINARY < stack.X.min() <= stack.X.max() < ORDINARY:
        return False
    first = np.abs(stack.X[:, 0]).max(axis=1, initial=0.0)
    return bool(((first > 1.0 / ORDINARY) & (stack.weights[:, 0] > 0.0)).all())


def normalised(weights: Array) -> Array:
    """Each row of (k, n) divided by its sum; zeros where the sum is zero."""
    total = weights.sum(axis=1, keepdims=True)
    return np.divide(weights, total, out=np.zeros_like(weights), where=total > 0.0)


def per_task(pattern: str, *operands: np.ndarray) -> Any:
    """np.einsum of arrays whose first axis runs over the tasks of a stack."""
    if len(operands[0]) != 1:
        return np.einsum(pattern, *operands)
    return np.einsum(pattern, *(np.broadcast_to(a, (2, *a.shape[1:])) for a in operands))[:1]


CACHED = 100_000  # numbers of X in one stack; a dozen arrays of this size live at a time, and should in the cache
ROUNDING = 1e-12  # what is left of equal targets after centring, relative to them, is not a signal


@dataclass(frozen=True)
class CentredRows:
    """Rows of a stack, centred (where there is an intercept) and multiplied by the root of their weight."""

    X: Array  # (k, n, d)
    y: Array  # (k, n)
    free: Array  # (k,) degrees of freedom: weights of the rows that count, less one for the intercept, at least 0

    @property
    def scale(self) -> Array:
        """(k,) standard deviation of the task's own target; 1 where there is none."""
        spread = np.sqrt(per_task("kn,kn->k", self.y, self.y) / np.maximum(self.free, 1.0))
        return np.where(spread > 0.0, spread, 1.0)


def centred_rows(stack: Stack, y: Array, weights: Array, fit_intercept: bool = True) -> CentredRows:
    """`y` (k, n) and row weights (k, n); rows of weight 0 vanish, and so does a task with a value that is
    not finite.
    """
    counted = weights > 0.0
    finite = np.isfinite(stack.X)
    row = np.isfinite(y) if finite.all() else finite.all(axis=2) & np.isfinite(y)  # along short rows a reduction is slow
    usable = np.asarray((row | ~counted).all(axis=1))
    w = np.where(usable[:, None], weights, 0.0)
    X, t = stack.X, y
    if not usable.all():
        X = np.where((usable[:, None] & counted)[:, :, None], X, 0.0)
        t = np.where(usable[:, None] & counted, t, 0.0)
    root = np.sqrt(w)
    if fit_intercept:
        total = w.sum(axis=1)
        share = np.divide(w, total[:, None], out=np.zeros_like(w), where=total[:, None] > 0.0)
        X = X - per_task("kn,knd->kd", share, X)[:, None, :]
        size = np.abs(np.where(counted, t, 0.0)).max(axis=1, initial=0.0)[:, None]
        t = np.where(counted, t - per_task("kn,kn->k", share, t)[:, None], 0.0)
        t = np.where(np.abs(t).max(axis=1, initial=0.0, keepdims=True) <= ROUNDING * size, 0.0, t)
    free = np.maximum(np.where(counted & usable[:, None], stack.weights, 0.0).sum(axis=1) - float(fit_intercept), 0.0)
    weighted = X if (root == 1.0).all() else X * root[:, :, None]
    return CentredRows(weighted, np.where(counted, t, 0.0) * root, free)
