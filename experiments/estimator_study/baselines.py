"""What sharing has to beat, from outside: a constant, and one tuned scikit-learn model on the rows of all tasks."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import taskveil as tv
from taskveil.estimators.metrics import evaluate


class Constant:
    """The mean of all training rows; for classes their shares. What everybody could do who knew one public number."""

    def fit(self, train: tv.TaskSet) -> Constant:
        self.share = [np.mean(train.y == c) for c in train.classes] if train.kind == "classification" else []
        self.mean = float(np.mean(train.y)) if train.kind == "regression" else 0.0
        return self

    def predict(self, test: tv.TaskSet) -> np.ndarray:
        return np.full(test.n_rows, self.mean)

    def predict_proba(self, test: tv.TaskSet) -> np.ndarray:
        return np.tile(self.share, (test.n_rows, 1))

    def decision_function(self, test: tv.TaskSet) -> np.ndarray:
        return np.zeros(test.n_rows)


class Pooled:
    """Ridge or logistic regression on all rows, standardised, penalty by cross-validation; tasks are not told apart."""

    def fit(self, train: tv.TaskSet) -> Pooled:
        strengths = np.geomspace(1e-3, 1e4, 15)
        model = (
            RidgeCV(strengths)
            if train.kind == "regression"
            else LogisticRegressionCV(
                l1_ratios=(0,),
                use_legacy_attributes=False,
                Cs=np.geomspace(1e-4, 1e3, 8),
                cv=5,
                scoring="neg_log_loss",
                max_iter=500,
            )
        )
        self.model = make_pipeline(StandardScaler(), model).fit(train.X, train.y)
        return self

    def predict(self, test: tv.TaskSet) -> np.ndarray:
        return np.asarray(self.model.predict(test.X))

    def predict_proba(self, test: tv.TaskSet) -> np.ndarray:
        return np.asarray(self.model.predict_proba(test.X))

    def decision_function(self, test: tv.TaskSet) -> np.ndarray:
        return np.asarray(self.model.decision_function(test.X))


def error(estimator: object, test: tv.TaskSet) -> float:
    """nMSE, or the mean log-loss of rows: lower is better, and a constant has a fair chance."""
    if test.kind == "regression":
        return evaluate(estimator, test, "nmse")
    chances = np.clip(estimator.predict_proba(test), 1e-15, 1.0)  # type: ignore[attr-defined]
    return float(log_loss(test.y, chances / chances.sum(axis=1, keepdims=True), labels=list(test.classes)))
