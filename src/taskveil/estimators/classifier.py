"""A classification model for every task."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit, softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from taskveil.estimators.base import TaskEstimator
from taskveil.estimators.inputs import is_lazy
from taskveil.losses.logistic import shortened_for


class TaskClassifier(ClassifierMixin, TaskEstimator):
    """A personal classifier for every task, trained jointly, with a privacy certificate.

    Labels may be numbers, text or booleans. The set of labels counts as public.

    Parameters
    ----------
    method : str or Method, default="together"
        A name from `taskveil.methods.names()`, or a method with options: `taskveil.methods.get("low-rank", rounds=50)`.
    epsilon : float or None, default=1.0
        The budget of this fit. `None` trains without privacy, and the certificate says so.
    delta : float or None, default=None
        `None` means min(1e-5, 1/(10 tasks)), or min(1e-6, 1/(10 rows)) for unit "record".
    **others
        All other parameters are those of `TaskRegressor`, with the same defaults.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, in the order of `predict_proba`.
    coef_ : ndarray of shape (n_tasks, n_features) or (n_tasks, n_classes, n_features)
        One model per task; with more than two classes, one model per class against the rest. Only for linear methods.
    intercept_ : ndarray of shape (n_tasks,) or (n_tasks, n_classes)
        The intercepts of these models.
    certificate_ : Certificate
        What is protected, against whom and how well.

    The other attributes are those of `TaskRegressor`.

    Examples
    --------
    >>> import taskveil as tv
    >>> data = tv.get_synthetic("hospitals", seed=0).train
    >>> names = [data.task_names[i] for i in data.task_of_row()]
    >>> long_stay = data.y > data.y.mean()
    >>> est = tv.TaskClassifier(epsilon=2.0).fit(data.X, long_stay, task=names)
    >>> est.predict_proba(data.X[:4], task=names[:4]).shape
    (4, 2)
    """

    _kind = "classification"
    _losses = ("logistic",)

    def decision_function(self, X: Any, task: Any = None) -> np.ndarray:
        """Scores of each row under its own task's model; above zero means the second of two classes.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
        task : array of shape (n_rows,), default=None
            The task of each row. Not needed for a TaskSet or with `task_column`.

        Returns
        -------
        ndarray of shape (n_rows,) for two classes, (n_rows, n_classes) for more
        """
        scores = self._scores(X, task)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any, task: Any = None) -> np.ndarray:
        """Probability of every class, in the order of `classes_`.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
        task : array of shape (n_rows,), default=None

        Returns
        -------
        ndarray of shape (n_rows, n_classes)
        """
        scores = self._scores(X, task)
        if scores.shape[1] == 1:
            if len(self.classes_) == 1:
                return np.ones((scores.shape[0], 1))
            p = expit(scores[:, 0])
            return np.column_stack([1 - p, p])
        if self.method_.linear:
            scores = shortened_for(scores.shape[1]) * scores
        return np.asarray(softmax(scores, axis=1))

    def predict_log_proba(self, X: Any, task: Any = None) -> np.ndarray:
        """Logarithm of the probability of every class.

        Parameters
        ----------
        X : array of shape (n_rows, n_features) or DataFrame
        task : array of shape (n_rows,), default=None

        Returns
        -------
        array of shape (n_rows, n_classes)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, task))

    def predict(self, X: Any, task: Any = None) -> np.ndarray:
        """The most probable class of each row under its own task's model.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
        task : array of shape (n_rows,), default=None

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        if is_lazy(X):
            return self._predict_lazy(X)
        scores = self._scores(X, task)
        if scores.shape[1] == 1:
            top = len(self.classes_) - 1
            return self.classes_[np.where(scores[:, 0] > 0, top, 0)]
        return self.classes_[scores.argmax(axis=1)]

    def score(self, X: Any, y: Any = None, task: Any = None, sample_weight: Any = None) -> float:
        """Share of rows whose label is predicted.

        Parameters
        ----------
        X : array of shape (n_rows, n_features), DataFrame or TaskSet
        y : array of shape (n_rows,), default=None
            Not needed for a TaskSet, which has its own.
        task : array of shape (n_rows,), default=None
        sample_weight : array of shape (n_rows,), default=None

        Returns
        -------
        float
        """
        y, predicted, weights = self._compared(X, y, task, sample_weight=sample_weight)
        return float(accuracy_score(y, predicted, sample_weight=weights))
