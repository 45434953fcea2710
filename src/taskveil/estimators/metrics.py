"""Test metrics over many tasks, and the scores of rows under the model of each row's own task.

nMSE is the mean squared error over all test rows divided by the variance of the test targets, RMSE its root in the target's own
units. The median absolute error is in these units too, and deaf to wild targets. Log loss is the mean over all test rows: unlike
accuracy it tells a model of a rare class from "never". AUC, accuracy, balanced accuracy and error rate are averaged over tasks; a
task whose test rows hold one class has no AUC and is left out of it.
So is concordance, the share of comparable pairs of rows of a task in which the one with the earlier event has the higher risk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from sklearn.metrics import d2_tweedie_score

from taskveil.errors import DataError, OptionError
from taskveil.methods.base import Method, Models
from taskveil.tasks.prepare.scaling import Scaling
from taskveil.tasks.task import TaskSet

PAIRED = 1000  # rows compared with all others at a time
REGRESSION = ("nmse", "mse", "rmse", "r2", "median-error")
CLASSIFICATION = ("log-loss", "auc", "accuracy", "balanced-accuracy", "error-rate")
SURVIVAL = ("concordance",)
OF_KIND = {"regression": REGRESSION, "classification": CLASSIFICATION, "survival": SURVIVAL}
LOWER_IS_BETTER = frozenset({"nmse", "mse", "rmse", "median-error", "log-loss", "error-rate"})
SHOWN = {  # always, beside what was asked for
    "regression": ("nmse", "rmse"), "classification": ("log-loss", "auc", "accuracy"), "survival": ("concordance",),
}  # fmt: skip
SMALLEST = 1e-12  # probability that a log loss takes
METRICS = REGRESSION + CLASSIFICATION + SURVIVAL


def default_metric(kind: str, loss: str | None = None) -> str:
    """The metric by which tasks of this kind are judged where none was named; one that wild targets do not drown, where asked."""
    return "median-error" if loss == "huber" else SHOWN[kind][0]


def kind_of_metric(metric: str | None) -> str | None:
    """The kind of target a metric is for."""
    return next((kind for kind, metrics in OF_KIND.items() if metric in metrics), None)


def check_metric(metric: str, kind: str) -> str:
    """The metric, if it fits this kind of target; else an error that lists those that do."""
    allowed = OF_KIND[kind]
    if metric not in allowed:
        raise OptionError(f"metric {metric!r} does not fit {kind}; expected one of {', '.join(allowed)}")
    return metric


def explained_deviance(y: np.ndarray, predicted: np.ndarray, weights: np.ndarray | None) -> float:
    """D squared of counts; 0 where all are equal and a row is wrong, as R squared has it, and 1 where none is."""
    if (y < 0.0).any():
        raise DataError("y holds negative numbers; loss 'poisson' compares counts, which are 0 or more")
    if (y == y[0]).all():
        return float((predicted == y).all())
    predicted = np.maximum(predicted, SMALLEST)
    return float(d2_tweedie_score(y, predicted, sample_weight=weights, power=1))


def evaluate(estimator: object, test: TaskSet, metric: str) -> float:
    """One number for a fitted estimator on test tasks."""
    check_metric(metric, test.kind)
    if test.kind == "regression":
        return _regression(metric, test.y, estimator.predict(test))  # type: ignore[attr-defined]
    if metric == "concordance":
        return float(estimator.score(test))  # type: ignore[attr-defined]
    if metric == "log-loss":
        assert test.classes is not None
        chances = np.asarray(estimator.predict_proba(test))[np.arange(test.n_rows), test.codes()]  # type: ignore[attr-defined]
        return float(-np.log(np.maximum(chances, SMALLEST)).mean())
    if metric == "auc":
        scores = estimator.decision_function(test)  # type: ignore[attr-defined]
        return _over_tasks(test, lambda rows: _auc(test, scores, rows))
    predicted = estimator.predict(test)  # type: ignore[attr-defined]
    score = {"accuracy": _accuracy, "balanced-accuracy": _balanced, "error-rate": _error_rate}[metric]
    return _over_tasks(test, lambda rows: score(test.y[rows], predicted[rows]))


def _regression(metric: str, y: np.ndarray, predicted: np.ndarray) -> float:
    if metric == "median-error":
        return float(np.median(np.abs(y - predicted)))
    mse = float(np.mean((y - predicted) ** 2))
    if metric in ("mse", "rmse"):
        return mse if metric == "mse" else mse**0.5
    variance = float(np.var(y))
    ratio = mse / variance if variance > 0 else float("nan")
    return ratio if metric == "nmse" else 1.0 - ratio


def over_tasks(groups: np.ndarray, score: Callable[[np.ndarray], float]) -> float:
    """Mean of a score over groups of rows that have one."""
    return _mean(score(np.flatnonzero(groups == g)) for g in np.unique(groups))


def _over_tasks(test: TaskSet, score: Callable[[slice], float]) -> float:
    return _mean(score(test.rows(i)) for i in range(test.n_tasks) if test.sizes[i] > 0)


def _mean(scores: Iterable[float]) -> float:
    """Of those that are numbers; NaN where none is."""
    values = [v for v in scores if np.isfinite(v)]
    return float(np.mean(values)) if values else float("nan")


def _accuracy(y: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.mean(y == predicted))


def _error_rate(y: np.ndarray, predicted: np.ndarray) -> float:
    return 1.0 - _accuracy(y, predicted)


def _balanced(y: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.mean([np.mean(predicted[y == c] == c) for c in np.unique(y)]))


def _auc(test: TaskSet, scores: np.ndarray, rows: slice) -> float:
    """Area under the ROC curve of one task; one class against the rest, averaged, where there are several."""
    classes, y = test.classes, test.y[rows]
    assert classes is not None
    columns = scores[rows][:, None] if scores.ndim == 1 else scores[rows]
    positives = [classes[-1]] if columns.shape[1] == 1 else list(classes)
    return _mean(rank_auc(y == c, columns[:, k]) for k, c in enumerate(positives))


def rank_auc(positive: np.ndarray, scores: np.ndarray) -> float:
    """Probability that a positive row scores above a negative one, ties half."""
    from scipy.stats import rankdata

    n_pos, n_neg = int(positive.sum()), int((~positive).sum())
    if n_pos == 0 or n_neg == 0:
        return float("nan")
    ranks = rankdata(scores)
    return float((ranks[positive].sum() - n_pos * (n_pos + 1) / 2) / (n_pos * n_neg))


def concordance(risk: np.ndarray, y: np.ndarray) -> float:
    """Harrell's: of two rows of which one had its event first, how often it had the higher risk. Ties count half.

    For signed times y (N,), negative where censored; NaN where no two rows can be compared.
    Rows can be compared where the shorter time is an event; of two equal times, where one is an event and the other is not.
    """
    time, event = np.abs(y), y > 0.0
    first = np.flatnonzero(event)
    agree = pairs = 0.0
    for start in range(0, first.size, PAIRED):
        i = first[start : start + PAIRED, None]
        later = (time[None] > time[i]) | ((time[None] == time[i]) & ~event[None])
        agree += float((later & (risk[None] < risk[i])).sum()) + 0.5 * float((later & (risk[None] == risk[i])).sum())
        pairs += float(later.sum())
    return agree / pairs if pairs else float("nan")


def gathered_scores(X: np.ndarray, coef: np.ndarray, intercept: np.ndarray, position: np.ndarray) -> np.ndarray:
    """x'w + b with each row's own model, a chunk of rows at a time to bound memory."""
    scores = np.empty((X.shape[0], coef.shape[1]))
    for start in range(0, X.shape[0], 65536):
        part = slice(start, start + 65536)
        of = position[part]
        scores[part] = np.einsum("nd,nrd->nr", X[part], coef[of]) + intercept[of]
    return scores


def scores_by_method(
    method: Method, run: Any, models: Models, scaling: Scaling, X: np.ndarray, position: np.ndarray
) -> np.ndarray:
    """The same for models that are not linear; `run` has the public sizes."""
    scores = method.predict_scores(run, models, scaling._rows(X, position), position)
    return np.asarray(scores * scaling.y_scale[position, None] + scaling.y_shift[position, None])
