"""Training and test rows, task by task.

Splits come from a seeded generator and positions, never from values. Every task that has rows keeps at least
one for training. With `group`, rows of one group (a recording, a person) never fall on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.arguments import SPLIT, as_column, checked
from taskveil.tasks.block import position_folds
from taskveil.tasks.grouping import factorize
from taskveil.tasks.task import TaskSet


def split_rows(
    tasks: TaskSet, train_fraction: float, seed: int, group: str | np.ndarray | None = None
) -> tuple[TaskSet, TaskSet]:
    """Split the rows of every task at random into a training part and a test part.

    Parameters
    ----------
    tasks : TaskSet
    train_fraction : float
        Share of each task's rows that go into the training part.
    seed : int
        Seed of the random choice.
    group : str or array of shape (n_rows,), default=None
        Rows of one group stay together. Either the name of a column loaded with `groups=`, or one value per row.

    Returns
    -------
    (TaskSet, TaskSet)
        The training part and the test part, with the same tasks.

    Examples
    --------
    >>> import taskveil as tv
    >>> train, test = tv.split_rows(tv.get_synthetic("hospitals", seed=0).train, 0.8, seed=0)
    >>> train.n_tasks == test.n_tasks
    True
    """
    if not isinstance(tasks, TaskSet):
        raise DataError(f"expected tasks as load_tasks gives them (a TaskSet); got {type(tasks).__name__}")
    mask = train_mask(tasks, train_fraction, seed, group)
    return tasks.select(mask), tasks.select(~mask)


@checked(SPLIT)
def train_mask(tasks: TaskSet, train_fraction: float, seed: int, group: str | np.ndarray | None = None) -> np.ndarray:
    """Which rows (N,) train: round(fraction * rows) of each task, at least 1.

    Whole groups when `group` is given.
    """
    rng = np.random.default_rng(seed)
    if group is None:
        draw, task = rng.random(tasks.n_rows), tasks.task_of_row()
        order = np.lexsort((draw, task))
        rank = np.empty(tasks.n_rows, dtype=np.int64)
        rank[order] = np.arange(tasks.n_rows) - np.repeat(tasks.offsets[:-1], tasks.sizes)
        wanted = np.maximum(np.rint(train_fraction * tasks.sizes), 1)
        return rank < wanted[task]
    return _grouped_mask(tasks, train_fraction, rng, _group_codes(tasks, group))


def k_fold(tasks: TaskSet, k: int, seed: int) -> Iterator[tuple[TaskSet, TaskSet]]:
    """k pairs (training, held out); a task with fewer rows than folds is whole in some training parts."""
    fold = position_folds(tasks.offsets, k, seed)
    for i in range(k):
        yield tasks.select(fold != i), tasks.select(fold == i)


def _group_codes(tasks: TaskSet, group: str | np.ndarray) -> np.ndarray:
    if not isinstance(group, str):
        if len(group := as_column(group, "group")) != tasks.n_rows:
            raise DataError(f"group has {len(group)} values for {tasks.n_rows} rows; give one per row.")
        return factorize(group, what="group")[0]
    if group == "person" and tasks.person is not None:
        return tasks.person
    if group not in tasks.groups:
        columns = ", ".join(sorted(tasks.groups)) or "none"
        raise DataError(f"no column {group!r} to split by; columns carried along: {columns}.")
    return factorize(tasks.groups[group], what="group")[0]


def _grouped_mask(tasks: TaskSet, fraction: float, rng: np.random.Generator, codes: np.ndarray) -> np.ndarray:
    """Groups join the training part in random order until it holds the wanted share of the task's rows."""
    mask = np.zeros(tasks.n_rows, dtype=bool)
    for i in range(tasks.n_tasks):
        rows = tasks.rows(i)
        groups, inverse, count = np.unique(codes[rows], return_inverse=True, return_counts=True)
        order = rng.permutation(groups.size)
        before = np.cumsum(count[order]) - count[order]
        # a group joins when more than half of it is still wanted; the first always does
        joins = before + count[order] / 2 <= fraction * count.sum()
        joins[:1] = True
        if joins.all() and joins.size > 1:
            joins[-1] = False
        chosen = np.zeros(groups.size, dtype=bool)
        chosen[order[joins]] = True
        mask[rows] = chosen[inverse]
    return mask
