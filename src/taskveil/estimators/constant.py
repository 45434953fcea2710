"""The constant baseline of a comparison: every task predicts its own training mean, or its own share of every class.

What every model has to beat. Shares are smoothed by one row that is spread over the classes as the rows of all tasks are.
"""

from __future__ import annotations

import numpy as np

from taskveil.tasks.task import TaskSet

__all__ = ["Constant"]


class Constant:
    """Predicts the rows of a TaskSet with the same tasks, as far as `metrics.evaluate` asks."""

    def __init__(self, train: TaskSet):
        self.classes_ = train.classes
        of = train.task_of_row()
        values = train.y[:, None] if train.classes is None else np.eye(train.n_classes)[train.codes()]
        overall = values.mean(axis=0)
        sums = np.stack([np.bincount(of, column, minlength=train.n_tasks) for column in values.T], axis=1)
        rows = train.sizes[:, None]
        if train.classes is None:
            self.levels = np.where(rows > 0, sums / np.maximum(rows, 1), overall)
        else:
            self.levels = (sums + overall) / (rows + 1.0)

    def score(self, test: TaskSet) -> float:
        """Concordance of a model that ranks nothing."""
        return 0.5

    def predict_proba(self, test: TaskSet) -> np.ndarray:
        return self.levels[test.task_of_row()]

    def decision_function(self, test: TaskSet) -> np.ndarray:
        """The same for every row of a task: it ranks nothing, so its AUC is one half."""
        shares = self.predict_proba(test)
        return shares[:, 1] if shares.shape[1] == 2 else shares

    def predict(self, test: TaskSet) -> np.ndarray:
        levels = self.levels[test.task_of_row()]
        return levels[:, 0] if self.classes_ is None else self.classes_[levels.argmax(axis=1)]
