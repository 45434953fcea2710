"""Splitters for scikit-learn's searches and scores that split rows within tasks, so that every task is in every training part.

    GridSearchCV(est, grid, cv=tv.TaskKFold(5, task_column="hospital")).fit(X, y)

Without `task_column` the tasks are what is passed as `groups`. With `group_column` rows of one group (a person) stay together.
A task with one row (or one group) is only trained on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from taskveil.errors import DataError, OptionError
from taskveil.tasks.grouping import factorize

__all__ = ["TaskKFold", "TaskShuffleSplit"]


class _WithinTasks:
    """What both splitters share: the task and the unit (a group, or the row itself) of every row."""

    n_splits: int

    def __init__(self, n_splits: int, task_column: Any, group_column: Any, random_state: int):
        if n_splits < 2:
            raise OptionError(f"n_splits must be at least 2, got {n_splits}")
        self.n_splits, self.task_column, self.group_column = n_splits, task_column, group_column
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """How many splits there are."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions of training and test rows, n_splits times."""
        if self.task_column is None and groups is None:
            raise DataError("which task does each row belong to? Give task_column=, or pass the tasks as groups=")
        tasks = groups if self.task_column is None else _column(X, self.task_column)
        task = factorize(np.asarray(tasks), what="task")[0]
        rows = np.arange(task.size)
        unit = rows if self.group_column is None else factorize(np.asarray(_column(X, self.group_column)), what="group")[0]
        pairs = np.unique(np.stack([task, unit], axis=1), axis=0, return_inverse=True)
        of_unit, of_row = pairs[0][:, 0], pairs[1].ravel()  # units lie task by task
        for test in self._tests(of_unit):
            yield rows[~test[of_row]], rows[test[of_row]]

    def _tests(self, task: np.ndarray) -> Iterator[np.ndarray]:
        """Which units (n,) are tested, n_splits times; `task` says whose they are."""
        raise NotImplementedError

    def _ranks(self, task: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """A random rank of every unit within its task, and how many units the task has."""
        order = np.lexsort((rng.random(task.size), task))
        counts = np.bincount(task)
        rank = np.empty(task.size, dtype=np.int64)
        rank[order] = np.arange(task.size) - np.repeat(np.cumsum(counts) - counts, counts)
        return rank, counts[task]


class TaskKFold(_WithinTasks):
    """k folds of the rows of every task; every row of a task with several is tested once."""

    def __init__(self, n_splits: int = 5, *, task_column: Any = None, group_column: Any = None, random_state: int = 0):
        super().__init__(n_splits, task_column, group_column, random_state)

    def _tests(self, task: np.ndarray) -> Iterator[np.ndarray]:
        rank, count = self._ranks(task, np.random.default_rng(self.random_state))
        for fold in range(self.n_splits):
            yield (rank % self.n_splits == fold) & (count > 1)


class TaskShuffleSplit(_WithinTasks):
    """Random test parts of the rows of every task; at least one row of each is trained on."""

    def __init__(
        self, n_splits: int = 10, *, test_size: float = 0.2, task_column: Any = None, group_column: Any = None, random_state: int = 0
    ):
        super().__init__(n_splits, task_column, group_column, random_state)
        if not 0 < test_size < 1:
            raise OptionError(f"test_size must lie strictly between 0 and 1, got {test_size}")
        self.test_size = test_size

    def _tests(self, task: np.ndarray) -> Iterator[np.ndarray]:
        rng = np.random.default_rng(self.random_state)
        for _ in range(self.n_splits):
            rank, count = self._ranks(task, rng)
            wanted = np.clip(np.rint(self.test_size * count), 1, count - 1)
            yield rank < wanted


def _column(X: Any, column: Any) -> Any:
    if hasattr(X, "columns"):
        if column not in X.columns:
            raise DataError(f"the table has no column {column!r}")
        return X[column]
    return np.asarray(X)[:, column]
