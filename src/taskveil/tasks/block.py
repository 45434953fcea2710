"""The numerical view of a set of tasks: what every method works on.

    X        (N, d)     rows of all tasks, grouped
    y        (N, r)     regression: r = 1; binary labels -1/+1, r = 1; c > 2 classes: one column per class,
             -1/+1
    offsets  (m + 1,)   task i owns rows offsets[i] to offsets[i + 1]
    weights  None or (N,) 0/1: rows held out have weight 0; means divide by the sum of weights
    constant whether every row ends in a one that is not stored: models then have d + 1 features (stacks and scores know)
    own_units  whether every task's rows are in units of their own: without some of them they would have others

Models over a block are W (m, r, d) and intercepts (m, r). Nothing here depends on where a task stands in the
block, so that a block of tasks equals its tasks one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from taskveil.errors import DataError, OptionError
from taskveil.tasks.grouping import row_chunks, sums_by_group, task_chunks
from taskveil.tasks.task import TaskSet
from taskveil.threads import each

REACH = 1e30  # eighth powers of it and of its inverse are still numbers


@dataclass(frozen=True, eq=False)
class TaskBlock:
    """Stacked rows of many tasks, ready for batched linear algebra."""

    X: np.ndarray
    y: np.ndarray
    offsets: np.ndarray
    weights: np.ndarray | None = None
    kind: str = "regression"
    constant: bool = False
    own_units: bool = False

    def __post_init__(self) -> None:
        if self.y.ndim == 1:
            object.__setattr__(self, "y", self.y[:, None])
        n = self.X.shape[0]
        fits = self.y.shape[0] == n and self.offsets[0] == 0 and self.offsets[-1] == n
        if not fits or (self.weights is not None and self.weights.shape != (n,)):
            raise DataError(f"a block's arrays do not fit: X {self.X.shape}, y {self.y.shape}, offsets to {self.offsets[-1]}.")

    @classmethod
    def from_tasks(cls, tasks: TaskSet) -> TaskBlock:
        """The rows as they are, without scaling."""
        y = label_columns(tasks) if tasks.kind == "classification" else tasks.y[:, None]
        return cls(X=tasks.X, y=y, offsets=tasks.offsets, kind=tasks.kind)

    @property
    def n_tasks(self) -> int:
        """How many tasks the block holds."""
        return int(self.offsets.size - 1)

    @property
    def n_rows(self) -> int:
        """Rows of all tasks together."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Columns of a model, the constant one included where there is one."""
        return int(self.X.shape[1]) + self.constant

    @property
    def n_outputs(self) -> int:
        """Columns of the target: 1, or the number of classes."""
        return int(self.y.shape[1])

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows per task (m,), held out or not."""
        return np.diff(self.offsets)

    @cached_property
    def counts(self) -> np.ndarray:
        """Sum of weights per task (m,): the n_i that means divide by."""
        return self.sizes.astype(np.float64) if self.weights is None else sums_by_group(self.weights, self.offsets)

    @cached_property
    def task_of_row(self) -> np.ndarray:
        """Task position of every row (N,)."""
        return np.repeat(np.arange(self.n_tasks, dtype=np.int32), self.sizes)

    @cached_property
    def row_weights(self) -> np.ndarray:
        """weight / n_i for every row (N,): multiply by it and sum to get means per task.

        Empty tasks give zero.
        """
        per_task = np.divide(1.0, self.counts, out=np.zeros(self.n_tasks), where=self.counts > 0)
        spread = per_task[self.task_of_row]
        return spread if self.weights is None else spread * self.weights

    def rows(self, i: int) -> slice:
        """Where the rows of task `i` lie in X and y."""
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))

    def sums_by_task(self, values: np.ndarray) -> np.ndarray:
        """Plain sum over each task's rows, (N, ...) -> (m, ...).

        Weights are not applied; empty tasks give zero.
        """
        return sums_by_group(values, self.offsets)

    def means_by_task(self, values: np.ndarray) -> np.ndarray:
        """Weighted mean over each task's rows, (N, ...) -> (m, ...)."""
        w = self.row_weights.reshape(-1, *([1] * (values.ndim - 1)))
        out = np.empty((self.n_tasks, *values.shape[1:]))
        for first, last in task_chunks(self.offsets):  # `values` may be as large as X: no second one
            rows = slice(int(self.offsets[first]), int(self.offsets[last]))
            offsets = self.offsets[first : last + 1] - self.offsets[first]
            out[first:last] = sums_by_group(values[rows] * w[rows], offsets)
        return out

    def scores(self, W: np.ndarray, intercept: np.ndarray | None = None) -> np.ndarray:
        """Row scores x'w + b of each row under its own task's model.

        W (m, r, d), or (1, r, d) where all have one model, intercept (m, r) -> (N, r).
        """
        of = self.task_of_row
        d, common = self.X.shape[1], len(W) == 1
        out = np.empty((self.n_rows, W.shape[1]), dtype=np.result_type(self.X, W))

        def some(r: slice) -> None:
            V = W if common else W[of[r]]
            out[r] = np.einsum("nd,kd->nk", self.X[r], V[0, :, :d]) if common else np.einsum("nd,nkd->nk", self.X[r], V[:, :, :d])
            if self.constant:
                out[r] += V[:, :, d]

        each(some, row_chunks(self.n_rows))
        return out if intercept is None else out + intercept[of]

    def folds(self, k: int, seed: int = 0) -> np.ndarray:
        """Fold 0..k-1 of every row (N,), balanced within each task.

        From (seed, position in the task) alone.
        """
        return position_folds(self.offsets, k, seed)

    def with_mask(self, mask: np.ndarray) -> TaskBlock:
        """The same rows; those where `mask` (N,) is false get weight 0. Nothing is copied but the weights."""
        mask = np.asarray(mask)
        if mask.shape != (self.n_rows,):
            raise DataError(f"a row mask must have shape ({self.n_rows},), got {mask.shape}.")
        kept = mask.astype(np.float64)
        return replace(self, weights=kept if self.weights is None else kept * self.weights)

    def with_rows(self, X: np.ndarray) -> TaskBlock:
        """The same targets over other features, (N, any); both within reach of what solvers compute with."""
        return replace(self, X=within_reach(X), y=within_reach(self.y))

    def with_targets(self, y: np.ndarray) -> TaskBlock:
        """The same rows with other targets, (N, any)."""
        return replace(self, y=within_reach(y))

    def parts(self) -> Iterator[TaskBlock]:
        """The block in pieces of a few thousand rows, views of it; whole tasks, in order."""
        for first, last in task_chunks(self.offsets):
            rows = slice(int(self.offsets[first]), int(self.offsets[last]))
            weights = None if self.weights is None else self.weights[rows]
            offsets = self.offsets[first : last + 1] - self.offsets[first]
            yield replace(self, X=self.X[rows], y=self.y[rows], offsets=offsets, weights=weights)

    def take(self, tasks: Sequence[int] | slice) -> TaskBlock:
        """Some tasks of the block; a contiguous range is a view, no copy."""
        picks = np.arange(self.n_tasks)[tasks]
        if picks.size and (np.diff(picks) == 1).all():
            rows: slice | np.ndarray = slice(int(self.offsets[picks[0]]), int(self.offsets[picks[-1] + 1]))
        else:
            rows = np.concatenate([np.arange(self.offsets[i], self.offsets[i + 1]) for i in picks] or [np.arange(0)])
        offsets = np.concatenate([[0], np.cumsum(self.sizes[picks])]).astype(np.int64)
        weights = None if self.weights is None else self.weights[rows]
        return replace(self, X=self.X[rows], y=self.y[rows], offsets=offsets, weights=weights)


def within_reach(values: np.ndarray) -> np.ndarray:
    """Encoded values cut off at REACH, and zero below its inverse; the same array where nothing is.

    What a solver does with a value of 1e150 or 1e-160 is overflow, and an error or a warning is a message nobody paid for.
    Each value by itself and by public numbers alone, so that it changes neither other rows nor other tasks.
    """

    def beyond(rows: slice) -> bool:
        size = np.abs(values[rows])
        return bool((size > REACH).any() or ((size < 1.0 / REACH) & (size > 0.0)).any())

    if not any(each(beyond, row_chunks(values.shape[0]))):
        return values
    out, size = values.copy(), np.abs(values)
    out[(size < 1.0 / REACH) & (size > 0.0)] = 0.0
    large = size > REACH
    out[large] = np.copysign(REACH, values[large])
    return out


def label_columns(tasks: TaskSet) -> np.ndarray:
    """Labels as -1/+1 columns.

    One column (+1 is the last class) for two classes or fewer, else one per class.
    """
    codes = tasks.codes()
    if tasks.n_classes <= 2:
        top = max(tasks.n_classes - 1, 1)
        return np.where(codes == top, 1.0, -1.0)[:, None]
    y = np.full((codes.size, tasks.n_classes), -1.0)
    y[np.arange(codes.size), codes] = 1.0
    return y


def position_folds(offsets: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Balanced fold ids per task: the ranks of a hash of (seed, position), modulo k.

    Only the position of a row inside its task enters, so a task gets the same folds alone and in any block,
    and no data value, label or other task can move a row to another fold.
    """
    if k < 2:
        raise OptionError(f"the number of folds must be at least 2, got {k}.")
    sizes = np.diff(offsets)
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    table = _hash(np.arange(sizes.max(initial=0), dtype=np.uint64), seed)
    task = np.repeat(np.arange(sizes.size), sizes)
    order = np.lexsort((table[position], task))
    fold = np.empty(position.size, dtype=np.int64)
    fold[order] = position % k  # rows come out of lexsort grouped by task, so `position` is also the rank
    return fold


def _hash(values: np.ndarray, seed: int) -> np.ndarray:
    """splitmix64 (Steele, Lea, Flood 2014): a fixed bit mixer; balance is all we need of it, not secrecy."""
    with np.errstate(over="ignore"):
        z = values + np.uint64(seed % 2**63) * np.uint64(0xD1342543DE82EF95) + np.uint64(0x9E3779B97F4A7C15)
        z = (values + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) ^ z
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))
