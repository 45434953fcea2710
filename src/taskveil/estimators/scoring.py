"""Scores of new rows under their own tasks' models: what `predict` and `score` of both estimators rest on."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from taskveil.errors import DataError
from taskveil.estimators import inputs, newcomers
from taskveil.estimators.inputs import given_weights
from taskveil.estimators.metrics import gathered_scores, scores_by_method
from taskveil.runtime.run import RunRecord
from taskveil.tasks.arguments import as_array, as_pandas, row_count
from taskveil.tasks.grouping import task_label
from taskveil.tasks.prepare.labels import declared_labels
from taskveil.tasks.prepare.scaling import Scaling
from taskveil.tasks.prepare.unusable import missing_targets
from taskveil.tasks.task import TaskSet


class Scoring:
    """The part of an estimator that reads a fitted model and nothing else."""

    task_names_: tuple[str, ...]
    feature_names_: tuple[str, ...]
    n_features_in_: int
    method_: Any
    scaling_: Scaling
    record_: RunRecord
    classes_: Any  # of classifiers
    _kind: str
    models_: Any  # Models, or models in partitions
    coef_: np.ndarray
    intercept_: np.ndarray
    task_column: Any
    person: Any
    missing: str

    def predict(self, X: Any, task: Any = None) -> np.ndarray:
        """What each row's own task model says of it."""
        raise NotImplementedError

    def _compared(self, X: Any, y: Any, task: Any, *columns: Any, sample_weight: Any = None) -> list[Any]:
        """What `score` compares: targets, predictions, further `columns` and weights, of the rows that have a target."""
        X = self._table(X)
        if y is None and not isinstance(X, TaskSet):
            raise DataError("score needs y, one target per row; only a TaskSet brings its own")
        y = X.y if y is None else as_array(y, "y")
        if self._kind != "survival":
            y = inputs._target(y, self._kind, "set-aside")
        n = X.n_rows if isinstance(X, TaskSet) else row_count(X)
        if y.ndim == 0 or len(y) != n:
            raise DataError(f"y has {y.size} values for {n} rows of X; they must be equally long.")
        weights = None if sample_weight is None else given_weights(sample_weight, n)
        if weights is not None and not weights.any():
            raise DataError("every row has sample_weight zero; at least one weight must be above zero")
        try:
            predicted = self.predict(X, task=task)
        except DataError as problem:
            note = "score failed, and a search or cross-validation of scikit-learn would put nan and rank it all the same"
            warnings.warn(f"{note}: {problem}", UserWarning, stacklevel=3)
            raise
        missing = missing_targets(y)
        if missing.all():
            raise DataError("no row has a target to compare with")
        if y.dtype.kind == "f" and np.isinf(y).any():
            raise DataError("y holds infinity; every row needs a finite target to compare with")
        y = self._as_trained(y, missing) if self._kind == "classification" else y
        if missing.any():
            warnings.warn(f"{missing.sum()} of {n} rows have no target and were left out", UserWarning, stacklevel=3)
        return [None if c is None else np.asarray(c)[~missing] for c in (y, predicted, *columns, weights)]

    def _as_trained(self, y: np.ndarray, missing: np.ndarray) -> np.ndarray:
        """Labels as the models have them; one they do not know stays as it is written, and is not predicted."""
        written, known = (values.dtype.kind in "OUS" for values in (y, self.classes_))
        if not (written or known):
            return y
        labels, _, outside = declared_labels(y, self.classes_)
        if (outside & ~missing).any() and written != known:
            raise DataError(f"y must hold labels of the type the models were trained on, {self.classes_.dtype}")
        return np.where(outside, [task_label(v) for v in y.tolist()], labels) if known else labels

    def _scores(self, X: Any, task: Any) -> np.ndarray:
        """Scores (rows, outputs) of every row under its own task's model, in the user's units."""
        check_is_fitted(self, "task_names_")
        X = self._table(X)
        rows = inputs.rows_of(X, task, inputs.column_there(X, self.task_column, self.task_names_), self.feature_names_)
        unnamed = task is None and inputs.column_there(X, self.task_column, self.task_names_) is None
        if unnamed and len(self.task_names_) == 1:
            rows = replace(rows, task=np.full(len(rows.task), self.task_names_[0], dtype=object))
        position = inputs.task_positions(rows.task, self.task_names_)
        rows = self._filled(rows, position)
        self._check_features(rows)
        if unnamed and (position < 0).all():
            raise DataError(
                f"which task does each row belong to? The model knows {len(self.task_names_)} tasks: give task=, one "
                "identifier per row; in searches and pipelines of scikit-learn, keep it in a column of X (task_column=)"
            )
        if (position < 0).any():
            return self._scores_with_unknown(rows, position)
        return self._scores_at(rows.X, position)

    def _table(self, X: Any) -> Any:
        """What was passed, as pandas where it is a table, without the column that names persons."""
        X = as_pandas(X)
        named = isinstance(self.person, str) and inputs.is_table(X) and self.person in X.columns
        return X.drop(columns=[self.person]) if named else X

    def _predict_lazy(self, tasks: Any) -> Any:
        """A lazy frame of tasks and scores, for rows that are elsewhere."""
        from taskveil.estimators.partitioned import fit as partitioned

        check_is_fitted(self, "task_names_")
        return partitioned.predict_lazy(self, tasks)

    def _scores_at(self, X: np.ndarray, position: np.ndarray) -> np.ndarray:
        if hasattr(self.models_, "parts"):
            part, place = self.models_.take(position)
            return np.asarray(part.scores(X, place, self.method_, self.record_))
        if not self.method_.linear:
            return scores_by_method(self.method_, self.record_, self.models_, self.scaling_, X, position)
        rows = self.scaling_.inputs(X, position)
        single = self.coef_.ndim == 2
        coef = self.coef_[:, None, :] if single else self.coef_
        intercept = self.intercept_[:, None] if single else self.intercept_
        return gathered_scores(rows, coef, intercept, position)

    def _scores_with_unknown(self, rows: inputs.Rows, position: np.ndarray) -> np.ndarray:
        trained = position >= 0
        coef, intercept = newcomers.public_model(self, rows.task[~trained])  # type: ignore[arg-type]  # half of an estimator
        scores = np.empty((rows.X.shape[0], coef.shape[1]))
        if trained.any():
            scores[trained] = self._scores_at(rows.X[trained], position[trained])
        zeros = np.zeros(int((~trained).sum()), dtype=np.int64)
        scores[~trained] = gathered_scores(self.scaling_.inputs(rows.X[~trained], zeros), coef, intercept, zeros)
        return scores

    def _filled(self, rows: inputs.Rows, position: np.ndarray) -> inputs.Rows:
        """Empty cells become the middle of the task's units: its own mean, or the middle of the declared range."""
        X = rows.X
        if self.missing == "error" or X.shape[1] != self.n_features_in_ or not np.isnan(X.sum()):
            return rows
        return replace(rows, X=np.where(np.isnan(X), self._middles(np.maximum(position, 0)), X))

    def _middles(self, position: np.ndarray) -> np.ndarray:
        if hasattr(self.models_, "parts"):
            part, place = self.models_.take(position)
            return np.asarray(part.scaling.shift[place])
        return np.asarray(self.scaling_.shift[position])

    def _check_features(self, rows: inputs.Rows) -> None:
        d = self.n_features_in_
        named = rows.feature_names is not None and self.feature_names_ != tuple(f"x{j}" for j in range(d))
        if named and rows.feature_names != self.feature_names_:
            missing = [n for n in self.feature_names_ if n not in (rows.feature_names or ())]
            detail = f"missing: {', '.join(missing[:5])}" if missing else "more columns, or the same in another order"
            raise DataError(f"feature names differ from those seen in fit ({detail})")
        if rows.X.shape[1] != d:
            raise DataError(f"X has {rows.X.shape[1]} features, but {type(self).__name__} is expecting {d} features as input")
        if not np.all(np.isfinite(rows.X)):
            raise DataError("Input X contains NaN or infinity: every cell must be a finite number")
