"""Splitters for scikit-learn's searches and scores that split rows within tasks, so that every task is in every training part.

    GridSearchCV(est, grid, cv=tv.TaskKFold(5, task_column="hospital")).fit(X, y)

Without `task_column` the tasks are what is passed as `groups`. With `group_column` rows of one group (a person) stay together.
A task with one row (or one group) is only trained on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from taskveil.checks import shown
from taskveil.errors import DataError
from taskveil.tasks.arguments import FOLDS, as_array, as_column, checked, row_count
from taskveil.tasks.grouping import factorize


class _WithinTasks:
    """What both splitters share: the task and the unit (a group, or the row itself) of every row."""

    n_splits: int

    @checked(FOLDS)
    def __init__(self, n_splits: int, task_column: Any, group_column: Any, random_state: int):
        self.n_splits, self.task_column, self.group_column = n_splits, task_column, group_column
        self.random_state = random_state

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"

    def get_metadata_routing(self) -> Any:
        """Tell scikit-learn's metadata routing that `split` takes `groups`, and `task` as estimators do."""
        from sklearn.utils.metadata_routing import MetadataRequest

        request = MetadataRequest(owner=type(self).__name__)
        request.split.add_request(param="groups", alias=True)
        request.split.add_request(param="task", alias=True)
        return request

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None, task: Any = None) -> int:
        """The number of splits. The arguments are not used; scikit-learn passes them."""
        return self.n_splits

    def split(self, X: Any, y: Any = None, groups: Any = None, task: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield the positions of the training rows and of the test rows, n_splits times."""
        groups = groups if task is None else task
        if self.task_column is None and groups is None:
            raise DataError("which task does each row belong to? Give task_column=, or pass the tasks as groups=")
        tasks = groups if self.task_column is None else _column(X, self.task_column)
        codes = factorize(as_column(tasks, "task"), what="task")[0]
        if X is not None and codes.size != row_count(X):
            raise DataError(f"there must be one task for each of the {row_count(X)} rows of X; got {codes.size}")
        rows = np.arange(codes.size)
        unit = (
            rows if self.group_column is None else factorize(as_column(_column(X, self.group_column), "group"), what="group")[0]
        )
        pairs = np.unique(np.stack([codes, unit], axis=1), axis=0, return_inverse=True)
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
    """Cross-validation folds within every task: each task has rows in every training part.

    Every row of a task with two or more rows is tested once. All folds together have about the same size. A task with fewer rows
    than folds is in only some of the test parts, and no test part is empty.

    Parameters
    ----------
    n_splits : int, default=5
        The number of folds.
    task_column : str or int or None, default=None
        Column of X that holds the task. `None` takes the tasks from `groups`.
    group_column : str or int or None, default=None
        Column of X that holds the person or another group whose rows stay together. `None` treats each row by itself.
    random_state : int, default=0
        Seed of the random order of rows.

    Examples
    --------
    >>> import numpy as np
    >>> import taskveil as tv
    >>> X, tasks = np.zeros((6, 1)), ["a", "a", "a", "b", "b", "b"]
    >>> [len(test) for train, test in tv.TaskKFold(3).split(X, groups=tasks)]
    [2, 2, 2]
    """

    def __init__(self, n_splits: int = 5, *, task_column: Any = None, group_column: Any = None, random_state: int = 0):
        super().__init__(n_splits, task_column, group_column, random_state)

    def _tests(self, task: np.ndarray) -> Iterator[np.ndarray]:
        rank, count = self._ranks(task, np.random.default_rng(self.random_state))
        tested = count > 1
        if tested.sum() < self.n_splits:
            raise DataError(
                f"{self.n_splits} folds need as many rows (or groups) in tasks with two or more of them; these tasks have "
                f"{tested.sum()}. Take fewer splits, or leave small tasks out."
            )
        place = np.empty(task.size, dtype=np.int64)  # tasks go on where the one before ended: folds are of one size
        place[np.lexsort((rank, task, ~tested))] = np.arange(task.size)
        for fold in range(self.n_splits):
            yield tested & (place % self.n_splits == fold)


class TaskShuffleSplit(_WithinTasks):
    """Random test parts within every task; at least one row of each task stays in the training part.

    Parameters
    ----------
    n_splits : int, default=10
        The number of random splits.
    test_size : float, default=0.2
        Share of each task's rows that are tested.
    task_column, group_column, random_state
        As in `TaskKFold`.
    """

    @checked(FOLDS)
    def __init__(
        self,
        n_splits: int = 10,
        *,
        test_size: float = 0.2,
        task_column: Any = None,
        group_column: Any = None,
        random_state: int = 0,
    ):
        super().__init__(n_splits, task_column, group_column, random_state)
        self.test_size = test_size

    def _tests(self, task: np.ndarray) -> Iterator[np.ndarray]:
        rng = np.random.default_rng(self.random_state)
        for _ in range(self.n_splits):
            rank, count = self._ranks(task, rng)
            if not (count > 1).any():
                raise DataError("no task has two rows (or groups) to be split; every one has a single one")
            wanted = np.clip(np.rint(self.test_size * count), 1, count - 1)
            yield rank < wanted


def _column(X: Any, column: Any) -> Any:
    if hasattr(X, "columns"):
        if column not in X.columns:
            raise DataError(f"the table has no column {shown(column)}")
        return X[column]
    table = as_array(X, "X")
    if table.ndim != 2 or not isinstance(column, int | np.integer) or not -table.shape[1] <= column < table.shape[1]:
        raise DataError(f"expected the position of a column of X; got {shown(column)}")
    return table[:, column]
