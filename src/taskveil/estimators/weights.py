"""Weights of rows: sample_weight and class_weight.

A weight of 2 is a row that stands there twice, a weight of 0 one that does not. With unit = task weights are the task's own
business: whatever they do to its message, the message is clipped afterwards. With unit = record they would let one row count for
many, which no bound covers, so private runs refuse them there.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.utils.class_weight import compute_sample_weight

from taskveil.checks import Number, shown
from taskveil.errors import DataError, OptionError
from taskveil.tasks.arguments import as_array
from taskveil.tasks.task import EXPOSURE, TaskSet

__all__ = ["class_weights", "given_weights", "row_weights"]

LARGEST = 1e9
WEIGHT = Number(at_least=0, at_most=LARGEST)


def row_weights(estimator: Any, tasks: TaskSet, sample_weight: Any, n_given: int | None) -> np.ndarray | None:
    """The weight of every row of `tasks` (N,), or None where all count alike.

    `n_given`: rows of the table the caller passed, in whose order the weights come; None: in the order of `tasks`.
    """
    classes = estimator.class_weight
    if sample_weight is None and classes is None:
        return _exposure(tasks, str(estimator.unit))
    private = estimator.epsilon is not None
    if private and str(estimator.unit) == "record":
        raise OptionError(
            "sample_weight and class_weight are refused with unit='record': a row that counts for several would break the bound "
            "on what one row changes. Leave them out, or use unit='task'."
        )
    if not estimator._method(tasks).linear:
        raise OptionError(f"method {estimator._method(tasks).name!r} takes no weights of rows; leave sample_weight out")
    weights = np.ones(tasks.n_rows)
    if sample_weight is not None:
        weights = given_weights(sample_weight, tasks.n_rows if n_given is None else n_given, private)
        weights = weights if n_given is None else weights[np.asarray(tasks.row_index)]
    if classes is not None:
        weights = weights * class_weights(tasks, classes)
    if not private and not (weights > 0).any():
        raise DataError("every row has sample_weight zero; at least one weight must be above zero")
    exposure = _exposure(tasks, str(estimator.unit))
    return weights if exposure is None else weights * exposure


def _exposure(tasks: TaskSet, unit: str) -> np.ndarray | None:
    """What rates count by (N,): exposures in units of a task's own mean, or of the declared largest where rows are protected."""
    if tasks.exposure is None:
        return None
    if unit == "record":
        declared = None if tasks.bounds is None else tasks.bounds.features.get(EXPOSURE)
        if declared is None:
            raise OptionError(
                "unit='record' needs the range of the exposure to be declared, because a task's own mean would carry every row "
                "into every message: name its column (exposure=COLUMN) and declare it under 'features' in the bounds"
            )
        return np.minimum(tasks.exposure, declared[1]) / declared[1]
    mean = np.array([tasks.exposure[tasks.rows(i)].mean() if n else 1.0 for i, n in enumerate(tasks.sizes)])
    return tasks.exposure / mean[tasks.task_of_row()]


def given_weights(sample_weight: Any, n: int, private: bool = False) -> np.ndarray:
    """One weight for each of n rows, as they were given."""
    weights = as_array(sample_weight, "sample_weight")
    if weights.ndim == 0:  # one for all rows: no task's own
        weights = np.full(n, WEIGHT.check("sample_weight", weights.item()))
    if weights.shape != (n,) or weights.dtype.kind not in "biuf":
        raise DataError(f"sample_weight must be one number per row: expected shape ({n},), got {weights.shape}")
    weights = weights.astype(np.float64)
    good = bool((np.isfinite(weights) & (weights >= 0)).all())
    if private:  # a refusal would tell others about one task's weights
        if not good:
            warnings.warn("sample_weight: what is negative or no number counts as zero", UserWarning, stacklevel=5)
        return np.clip(np.nan_to_num(weights, nan=0.0), 0.0, LARGEST)
    if not good:
        raise DataError("sample_weight must hold finite numbers that are not negative")
    return weights


def class_weights(tasks: TaskSet, classes: Any) -> np.ndarray:
    """'balanced' within each task, by its own rows alone; or a weight per label."""
    if tasks.classes is None:
        raise OptionError("class_weight is for TaskClassifier; a regression target has no classes")
    named = isinstance(classes, dict) and all(map(WEIGHT.accepts, classes.values()))
    if not (named or (isinstance(classes, str) and classes == "balanced")):
        raise OptionError(f"class_weight must be None, 'balanced' or a dict of label to weight; got {shown(classes)}")
    strange = [] if isinstance(classes, str) else [label for label in classes if label not in tasks.classes.tolist()]
    if strange:
        first = shown(strange[0])
        raise OptionError(f"class_weight names {first}, which is no label of the target; write labels as the target has them")
    weights = np.ones(tasks.n_rows)
    for i in range(tasks.n_tasks):
        rows = tasks.rows(i)
        if tasks.sizes[i]:
            own = classes if classes == "balanced" else {k: v for k, v in classes.items() if k in set(tasks.y[rows].tolist())}
            weights[rows] = compute_sample_weight(own, tasks.y[rows])
    return weights
