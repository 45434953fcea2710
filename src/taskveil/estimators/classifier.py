"""A classification model for every task."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score

from taskveil.estimators.base import TaskEstimator


class TaskClassifier(ClassifierMixin, TaskEstimator):
    """A personal classifier for every task, trained jointly, with a privacy certificate.

    Parameters and attributes are those of `TaskRegressor`; with more than two classes `coef_` is
    (n_tasks, n_classes, n_features), one class against the rest. `classes_` lists the labels, which are taken as public.
    """

    _kind = "classification"

    def decision_function(self, X: Any, task: Any = None) -> np.ndarray:
        """Scores: (rows,) for two classes, (rows, classes) for more."""
        scores = self._scores(X, task)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def predict_proba(self, X: Any, task: Any = None) -> np.ndarray:
        """Probability of every class, (rows, classes)."""
        scores = self._scores(X, task)
        if scores.shape[1] == 1:
            if len(self.classes_) == 1:
                return np.ones((scores.shape[0], 1))
            p = expit(scores[:, 0])
            return np.column_stack([1 - p, p])
        if not self.method_.linear:  # softmax models
            e = np.exp(scores - scores.max(axis=1, keepdims=True))
            return e / e.sum(axis=1, keepdims=True)
        p = expit(scores) + 1e-300  # one against the rest, normalised
        return p / p.sum(axis=1, keepdims=True)

    def predict_log_proba(self, X: Any, task: Any = None) -> np.ndarray:
        """Logarithm of the probability of every class, (rows, classes)."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X, task))

    def predict(self, X: Any, task: Any = None) -> np.ndarray:
        """The most probable class of each row under its own task's model."""
        scores = self._scores(X, task)
        if scores.shape[1] == 1:
            top = len(self.classes_) - 1
            return self.classes_[np.where(scores[:, 0] > 0, top, 0)]
        return self.classes_[scores.argmax(axis=1)]

    def score(self, X: Any, y: Any = None, task: Any = None, sample_weight: Any = None) -> float:
        """Accuracy over all rows."""
        y = X.y if y is None else y
        return float(accuracy_score(y, self.predict(X, task=task), sample_weight=sample_weight))
