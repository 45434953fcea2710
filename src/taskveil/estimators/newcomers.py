"""Tasks that were not there in fit: a prediction from what is public, or a model of their own at no cost.

Neither sends anything. A prediction uses the billboard's model where it fits a task without rows: under declared or released
units. Where every task scales by its own statistics there is no such model in a private run; without privacy it is the mean of
all models.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.checks import Line
from taskveil.errors import DataError, OptionError
from taskveil.estimators import common_units, inputs
from taskveil.estimators.gain import in_target_units, measure_gain
from taskveil.estimators.reading import row_weights
from taskveil.runtime import in_process
from taskveil.tasks.arguments import as_number, row_count, some
from taskveil.tasks.grouping import task_label
from taskveil.tasks.prepare.encode import Encoded
from taskveil.tasks.prepare.scaling import fit_scaling
from taskveil.tasks.prepare.unusable import fill_missing, missing_targets
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.task import EXPOSURE, TaskSet

if TYPE_CHECKING:
    from taskveil.estimators.base import TaskEstimator


NO_LEVEL = (
    ", which has slopes and no level: predictions lie around {middle}. Trust how rows differ, not where they lie. For a level, "
    "train a model for the task, at no cost, with adapt(X, y) (`taskveil adapt`), or fit with unit='record', which publishes one"
)
MIDDLE = {"classification": "equal odds"}  # where predictions without a level lie, if not in the middle of the declared range


def public_model(estimator: TaskEstimator, unknown: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (1, r, d) and intercept (1, r) in the user's units for tasks nobody has seen; a warning says so."""
    names = sorted({str(v) for v in np.unique(unknown)})
    shown = some(names) + _twin(names[0], estimator.task_names_)
    model = _from_billboard(estimator) if estimator.unknown == "billboard" else None
    if model is None:
        n_tasks, method, units = len(estimator.task_names_), estimator.method_.name, estimator.scaling_.mode
        why = (
            f"what method {method!r} (scaling {units!r}) made public holds no model for a task without rows of its own"
            if estimator.unknown == "billboard"
            else "unknown='error' was asked for"
        )
        raise DataError(
            f"unknown task {shown}: the model was trained on {n_tasks} other task{'s' * (n_tasks != 1)}, and {why}. Train one "
            "for it, at no cost, with adapt(X, y) (`taskveil adapt MODEL NEW.csv --task-name NAME -o DIR`); or, where it is "
            "enough to protect single rows, fit with declared bounds and unit='record', which publishes a whole model. "
            "In cross-validation, split within tasks: taskveil.TaskKFold."
        )
    were = f"s {shown} were" if len(names) > 1 else f" {shown} was"
    note = f"task{were} not there in fit: predicted by the model that is public"
    if not model[2]:
        note += NO_LEVEL.format(middle=MIDDLE.get(estimator._kind, "the middle of the declared range"))
    warnings.warn(note, UserWarning, stacklevel=5)
    return model[:2]


def _twin(name: str, known: tuple[str, ...]) -> str:
    """A question where a task was known by the same number, written otherwise: 101, 101.0 and '101,0'."""
    number = as_number(name.replace(",", "."))
    twins = [k for k in known if number is not None and as_number(k.replace(",", ".")) == number]
    return f" (did you mean {twins[0]!r}?)" if twins else ""


def _from_billboard(estimator: TaskEstimator) -> tuple[np.ndarray, np.ndarray, bool] | None:
    """Coefficients and intercept, and whether the intercept was on the billboard: many methods share slopes alone."""
    record, method = estimator.record_, estimator.method_
    if record.plan.budget.epsilon is None and method.linear and not method.shares_nothing and estimator.scaling_.linear:
        coef, intercept = estimator.scaling_.coef_back(estimator.models_.coef, estimator.models_.intercept)
        return coef.mean(axis=0, keepdims=True), intercept.mean(axis=0, keepdims=True), True
    shared = method.shared_model(record.public, record.plan, record.billboards[-1])
    if shared is None or estimator.scaling_.data_dependent or not (np.any(shared.coef) or np.any(shared.intercept)):
        return None  # a model of zeros says nothing of anybody
    levelled = not record.public.fit_intercept or bool(np.any(shared.intercept)) or estimator._kind == "survival"
    return *estimator.scaling_.take([0]).coef_back(shared.coef[:1], shared.intercept[:1]), levelled


def named(column: Any) -> str | None:
    """A column's name; nothing where it was given as one value for every training row."""
    return column if isinstance(column, str) else None


def _called(X: Any, task_column: Any) -> str:
    """The name of a new task whose rows may carry it."""
    if not (inputs.is_table(X) and task_column in X.columns):
        return "new task"
    names = dict.fromkeys(map(task_label, X[task_column]))
    if len(names) != 1:
        raise DataError(f"the column {task_column!r} names several tasks; adapt one at a time")
    return next(iter(names))


def _own_tasks(estimator: TaskEstimator, X: Any, y: Any, name: str, exposure: Any) -> TaskSet:
    """The newcomer's rows as a task: without those that have no target, empty cells treated as in `fit`."""
    rows = inputs.rows_of(X, np.full(row_count(X), name), estimator.task_column, estimator.feature_names_)
    bounds = PublicBounds.coerce(estimator.bounds) or getattr(estimator, "bounds_", None)
    y = inputs._target(y, estimator._kind, bad_rows="skip")
    if len(y) != len(rows.X):
        raise DataError(f"X and y must have as many rows: X has {len(rows.X)}, y has {len(y)}")
    used = np.flatnonzero(~missing_targets(y))
    if not used.size:
        raise DataError("no row of the new task has a target: nothing can be learnt from them")
    if used.size < len(y):
        warnings.warn(f"{len(y) - used.size} of {len(y)} rows have no target and were left out", UserWarning, stacklevel=4)
    encoded = Encoded(rows.X[used], estimator.feature_names_, bounds)
    filled, _ = fill_missing(encoded, np.array([0, used.size]), estimator.missing)
    estimator._check_features(replace(rows, X=filled))
    return TaskSet.from_arrays(
        filled, y[used], rows.task[used], feature_names=estimator.feature_names_, kind=estimator._kind,
        classes=estimator.classes_, bounds=bounds, groups=None if exposure is None else {EXPOSURE: exposure[used]},
    )  # fmt: skip


def adapt(estimator: TaskEstimator, X: Any, y: Any, name: str | None) -> TaskEstimator:
    """See `TaskEstimator.adapt`."""
    if not estimator.method_.linear:
        raise OptionError(f"adapt is for linear methods; {estimator.method_.name!r} has other models")
    name = _called(X, estimator.task_column) if name is None else name
    Line(1000).check("name", name)
    X, exposure = inputs.split_carried(X, named(estimator.exposure), "exposure")
    tasks = _own_tasks(estimator, X, y, name, exposure)
    record = estimator.record_
    if estimator.scaling_.mode == "private":
        outer = common_units.outer_scaling(tasks, estimator.unit, estimator.epsilon is not None, estimator._loss)
        scaling, block = common_units.units_of(outer.apply(tasks), outer, record)
    else:
        private = estimator.epsilon is not None
        scaling = fit_scaling(
            tasks, estimator.scaling_.mode, normalise=estimator.normalise, private=private, loss=estimator._loss
        )
        block = scaling.apply(tasks)
    weights = row_weights(estimator, tasks, None, None)
    block = block if weights is None else replace(block, weights=weights)
    models = in_process.replay(estimator.method_, block, record.public, record.plan, record.billboards)
    carried = {"person": named(estimator.person), "exposure": named(estimator.exposure)}  # values of training rows stay there
    adapted = type(estimator)(**{**estimator.get_params(deep=False), **carried})
    adapted._become(tasks, estimator.method_, scaling, record.for_newcomer(models), estimator.preparation_)
    adapted.task_warnings_, adapted.certificate_, adapted.warnings_ = {}, estimator.certificate_, []
    gain = measure_gain(estimator.method_, block, record, models, tasks.task_names)
    adapted._gain = in_target_units(replace(gain, rows=block.sizes), scaling, estimator._loss)
    adapted._set_coefficients(estimator.method_, scaling, models)
    adapted._keep_own(tasks, block)
    return adapted
