"""A survival model for every task.

Baseline hazards and Kaplan-Meier curves come from a task's own rows: never sent, and nobody else's grid of times. A task has
POINTS times of its own (its event times, thinned where there are more), so that curves are arrays over tasks like everything else
a task keeps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from taskveil.errors import DataError, OptionError
from taskveil.estimators import inputs
from taskveil.estimators.base import TaskEstimator
from taskveil.estimators.metrics import concordance, over_tasks
from taskveil.losses.cox import expected_events
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.survival import survival_target
from taskveil.tasks.task import TaskSet

POINTS = 50


class StepFunction:
    """A function that jumps at times x to values y, and is 1 before the first: a row's chance to be free of the event so far."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        self.x, self.y = x, y

    def __call__(self, times: np.ndarray | float) -> np.ndarray:
        at = np.searchsorted(self.x, np.asarray(times, dtype=float), side="right")
        return np.concatenate([[1.0], self.y])[at]

    def __repr__(self) -> str:
        return f"StepFunction({self.x.size} times)"


def own_curves(tasks: TaskSet, scores: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays (m, POINTS): times, Breslow's cumulative hazard at score zero, and the Kaplan-Meier curve. `scores` (N,) of rows.

    A task without an event has one time, its last, and the hazard of half an event up to it.
    """
    curves = {name: np.zeros((tasks.n_tasks, POINTS)) for name in ("times", "hazard", "kaplan_meier")}
    for i in range(tasks.n_tasks):
        rows = tasks.rows(i)
        y, s = tasks.y[rows], np.clip(scores[rows], -700.0, 700.0)
        if y.size:
            for name, values in zip(curves, _curves(y, s), strict=True):
                curves[name][i, : values.size], curves[name][i, values.size :] = values, values[-1]
    return curves


def _curves(y: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    time, event = np.abs(y), y > 0.0
    if not event.any():
        at_risk = max(float(np.exp(scores - scores.max()) @ time), 1e-300)
        return time.max()[None], np.array([0.5 * time.max() / at_risk * np.exp(-scores.max())]), np.ones(1)
    hazards = expected_events(scores, y, np.ones(y.size)) * np.exp(-scores)
    times, where, deaths = np.unique(time[event], return_index=True, return_counts=True)
    left = (time[None] >= times[:, None]).sum(axis=1)
    survivors = np.cumprod(1.0 - deaths / left)
    kept = np.unique(np.linspace(0, times.size - 1, POINTS).round().astype(int))
    return times[kept], hazards[event][where][kept], survivors[kept]


CURVE = "curve_"  # what a task's own curves are called among the things its model keeps


class TaskSurvival(TaskEstimator):
    """A personal survival model for every task, trained jointly, with a privacy certificate.

    The hazard of a row x is the task's own baseline hazard times exp(x'w). With unit "task", every task fits a Cox model that
    starts from what is shared. With unit "record", the shared model has a hazard that is constant on parts of a declared time
    span (the horizon), because its gradients are then sums over rows. Personal models are Cox models again.

    Parameters
    ----------
    method : str or Method, default="together"
        "together", "local", "pooled", "mean" or "subspace". With unit "record" only "mean" and "pooled".
    epsilon : float, dict or None, default=1.0
        The budget of this fit. `None` trains without privacy, and the certificate says so.
    bounds : mapping, file name, PublicBounds or None, default=None
        Declared public ranges. `target` = [0, horizon]: longer times are cut off at the horizon. Needed with unit "record".
    **others
        All other parameters are those of `TaskRegressor`, with the same defaults.

    Attributes
    ----------
    coef_ : ndarray of shape (n_tasks, n_features)
        Log hazard ratios, one model per task.
    intercept_ : ndarray of shape (n_tasks,)
        Log of the mean hazard of each task, per unit of time.
    certificate_ : Certificate
        What is protected, against whom and how well.

    The other attributes are those of `TaskRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> import taskveil as tv
    >>> rng = np.random.default_rng(0)
    >>> X, ids = rng.standard_normal((200, 3)), np.repeat(["a", "b", "c", "d"], 50)
    >>> time = rng.exponential(np.exp(-X[:, 0]))
    >>> y = np.column_stack([time < 2.0, np.minimum(time, 2.0)])
    >>> est = tv.TaskSurvival(epsilon=None).fit(X, y, task=ids)
    >>> est.predict(X, task=ids).shape
    (200,)
    >>> est.score(X, y, task=ids) > 0.7
    True
    """

    _kind = "survival"
    _losses = ("cox",)

    def predict(self, X: Any, task: Any = None) -> np.ndarray:
        """Predict the risk of every row by the model of its task: the log of its mean hazard. Higher means an earlier event.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
        task : array of shape (n_rows,), default=None
            The task of each row. Not needed for a TaskSet or with `task_column`.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return self._scores(X, task)[:, 0]

    def predict_survival_function(self, X: Any, task: Any = None, times: Any = None) -> np.ndarray:
        """Predict, for every row, the probability that the event has not happened up to a time.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
        task : array of shape (n_rows,), default=None
        times : array of shape (n_times,), default=None
            The times to predict for. `None` returns a function of time for every row, on the event times of its task.

        Returns
        -------
        ndarray of shape (n_rows, n_times), or of n_rows functions with attributes `x` and `y`
        """
        X = self._table(X)
        scores = self._scores(X, task)[:, 0]
        rows = inputs.rows_of(X, task, inputs.column_there(X, self.task_column, self.task_names_), self.feature_names_)
        position = inputs.task_positions(rows.task, self.task_names_)
        if len(self.task_names_) == 1 and task is None:
            position = np.zeros(len(scores), dtype=np.int64)
        if (position < 0).any():
            raise DataError("a task that was not there in fit has no baseline hazard: train a model for it with adapt(X, y)")
        grid, hazard = self.models_.extra[CURVE + "times"], self.models_.extra[CURVE + "hazard"]
        used = [np.unique(grid[i], return_index=True) for i in range(len(grid))]
        relative = np.exp(np.clip(scores, -700.0, 700.0))
        functions = np.empty(len(scores), dtype=object)
        for n, (i, r) in enumerate(zip(position, relative, strict=True)):
            at, where = used[i]
            functions[n] = StepFunction(at, np.exp(-np.minimum(hazard[i][where] * r, 700.0)))
        return functions if times is None else np.stack([f(np.asarray(times, dtype=float)) for f in functions])

    def score(self, X: Any, y: Any = None, task: Any = None, sample_weight: Any = None) -> float:
        """Concordance within tasks, averaged over them: 1 is perfect, 0.5 is chance. Tasks without comparable rows are left out.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
        y : structured array or array of shape (n_rows, 2), default=None
            Event and time; not needed for a TaskSet, which has its own.
        task : array of shape (n_rows,), default=None
        sample_weight : None
            Not supported.

        Returns
        -------
        float
        """
        if sample_weight is not None:
            raise OptionError("concordance compares pairs of rows and takes no sample_weight; leave it out")
        X = self._table(X)
        column = inputs.column_there(X, self.task_column, self.task_names_)
        groups = inputs.rows_of(X, task, column, self.feature_names_).task
        times, risk, groups, _ = self._compared(X, None if y is None else survival_target(y), task, groups)
        return over_tasks(groups, lambda rows: concordance(risk[rows], times[rows]))

    def _keep_own(self, tasks: TaskSet, block: TaskBlock) -> None:
        """The baseline of every task goes with its model. Scores come from the block: rows may have been scaled in place."""
        scores = block.scores(self.models_.coef, self.models_.intercept)[:, 0]
        curves = own_curves(tasks, scores - np.log(self.scaling_.y_scale)[block.task_of_row])
        extra = {**self.models_.extra, **{CURVE + name: values for name, values in curves.items()}}
        self.models_ = self.record_.models = replace(self.models_, extra=extra)
