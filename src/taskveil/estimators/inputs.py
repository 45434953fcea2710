"""From what a caller passes (arrays, a table, a TaskSet) to tasks and weights, and to rows with a task for prediction."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils.class_weight import compute_sample_weight

from taskveil.checks import Number, shown
from taskveil.errors import DataError, OptionError, WrongType
from taskveil.tasks.arguments import as_array, as_column, with_index, with_text_names
from taskveil.tasks.grouping import factorize, without_clock
from taskveil.tasks.labelled import labelled_tasks
from taskveil.tasks.prepare.encode import holds_numbers
from taskveil.tasks.prepare.facts import Fact
from taskveil.tasks.prepare.labels import as_target, label_set
from taskveil.tasks.prepare.survival import EVENT_AND_TIME, survival_target
from taskveil.tasks.prepare.unusable import missing_targets
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.rows import encode_like
from taskveil.tasks.table import need_columns
from taskveil.tasks.task import CLIPPED, EXPOSURE, TaskSet, exposed, person_codes

ONE_TASK = "all"
LARGEST_WEIGHT = 1e9
WEIGHT = Number(at_least=0, at_most=LARGEST_WEIGHT)
MISSING = {"set-aside": "keep", "error": "error"}  # cells: a task that is set aside keeps them until then


def is_table(X: Any) -> bool:
    """A pandas DataFrame, without importing pandas."""
    return hasattr(X, "columns") and hasattr(X, "iloc")


def is_lazy(X: Any) -> bool:
    """Tasks whose rows are elsewhere (tasks/lazy)."""
    return hasattr(X, "n_partitions")


@dataclass(frozen=True)
class Rows:
    """Feature rows with the task of each."""

    X: np.ndarray
    task: np.ndarray  # identifiers as the caller gave them
    feature_names: tuple[str, ...] | None


def rows_of(X: Any, task: Any, task_column: Any, like: tuple[str, ...] | None = None) -> Rows:
    """Split features and task identifiers; a table with text is encoded `like` the features of a fitted model."""
    if isinstance(X, TaskSet):
        return Rows(X.X, np.repeat(np.asarray(X.task_names), X.sizes), X.feature_names)
    names = None
    if is_table(X):
        X, task = table_and_task(X, task, task_column)
        if like is not None and any("=" in n or "#" in n for n in like if n not in X.columns):
            encoded = encode_like(X, like, None)
            X, names = encoded.X, encoded.names
        else:
            names, X = tuple(str(c) for c in X.columns), _numbers(_cells(X))
    else:
        X = as_array(X, "X")
        if task is None and task_column is not None:
            task, X = _cut_column(X, task_column)
        X = _numbers(X)
    if X.ndim in (3, 4):  # images, one per row
        X = X.reshape(X.shape[0], -1)
    if X.ndim != 2:
        raise DataError(
            f"Expected 2D array, got {X.ndim}D array instead: X must be rows x features. "
            "Reshape your data, for example with X.reshape(-1, 1) for one feature."
        )
    if X.shape[1] == 0:
        raise DataError(f"0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    if task is None:
        task = np.full(X.shape[0], ONE_TASK)
    _check_task(task)
    task = as_array(task, "task")
    if task.ndim != 1 or task.shape[0] != X.shape[0]:
        raise DataError(f"task must hold one identifier per row: expected {X.shape[0]}, got shape {task.shape}")
    return Rows(X, task, names)


def _check_task(task: Any) -> None:
    if isinstance(task, str):
        raise DataError(
            f"task must hold one identifier per row, got one text; to name a column of X, use task_column={task!r}; where all "
            f"rows belong to one task, [{task!r}] * len(X)"
        )


def need_tasks(X: Any, task: Any, task_column: Any) -> None:
    """A private run is told what its tasks are: one task of all rows would be protected against nobody."""
    if task is None and task_column is None and not (isinstance(X, TaskSet | dict) or is_lazy(X)):
        raise DataError(
            "a private fit needs to know which task each row belongs to, because it protects tasks from each other: give task= "
            "(one identifier per row) or task_column=; if all rows are one task, say so with task=numpy.zeros(len(X)). "
            "epsilon=None trains without privacy."
        )


def column_there(X: Any, task_column: Any, task_names: tuple[str, ...]) -> Any:
    """The task column; None where a model of one task predicts a table that does not name it."""
    there = not is_table(X) or task_column in X.columns or task_column in X.index.names
    return None if len(task_names) == 1 and not there else task_column


def table_and_task(X: Any, task: Any, task_column: Any) -> tuple[Any, Any]:
    """A table without its task column, and the task of every row."""
    X = with_index(X, task_column)
    if task is None and task_column is not None:
        need_columns(X.columns, [task_column])
        task = np.asarray(X[task_column])
    if task_column is not None and task_column in X.columns:
        X = X.drop(columns=[task_column])
    return with_text_names(X), task


@dataclass(frozen=True)
class Reading:
    """What an estimator says of the rows it is given."""

    kind: str
    bounds: Any = None
    person: Any = None
    unusable: str = "error"
    missing: str = "error"
    exposure: Any = None
    bad_rows: str = "error"


def tasks_of(X: Any, y: Any, task: Any, task_column: Any, how: Reading) -> TaskSet:
    """The training tasks; a TaskSet passes through, with bounds added where they were declared on the estimator."""
    kind, declared = how.kind, PublicBounds.coerce(how.bounds)
    if isinstance(X, TaskSet):
        if y is not None or task is not None:
            raise OptionError("fit(tasks) takes a TaskSet alone; it already holds the targets and the tasks")
        return _checked_kind(X, kind, declared)
    if hasattr(X, "toarray"):
        as_array(X, "X")
    if isinstance(X, dict):
        from taskveil.tasks.load import load_tasks

        reading: dict[str, Any] = {"missing": MISSING[how.unusable], "unusable": how.unusable, "bad_rows": how.bad_rows}
        return _unskipped(_checked_kind(load_tasks(X, kind=kind, bounds=declared, **reading), kind, None))
    if y is None:
        raise DataError("this estimator requires y to be passed, but the target y is None: expected fit(X, y, task=...)")
    _check_task(task)
    labelled = declared is not None and declared.classes is not None
    column, y = str(getattr(y, "name", None) or "y"), _target(y, kind, how.unusable, labelled, how.bad_rows)
    levels = () if declared is None else declared.levels
    if how.missing != "error" and not is_table(X):
        X, task, task_column = _as_table(X, task, task_column)
    if how.missing != "error" or (is_table(X) and any(
        str(c) in levels or not holds_numbers(X.iloc[:, j]) for j, c in enumerate(X.columns) if c != task_column
    )):  # fmt: skip
        tasks = _from_table(X, y, task, task_column, replace(how, bounds=declared))
        notes = tuple(note.replace("('y')", f"({column!r})") for note in tasks.notes)
        tasks = replace(tasks, target_name=column, facts=tuple(f.about("y", column) for f in tasks.facts), notes=notes)
        exposure = None if how.exposure is None else np.asarray(how.exposure)[np.asarray(tasks.row_index)]
        return tasks if exposure is None else exposed(tasks, exposure, how.unusable)
    rows = rows_of(X, task, task_column)
    if not is_table(X) and rows.X.shape[0] == 0:
        raise DataError("Found array with 0 sample(s) while a minimum of 1 is required: the table is empty")
    return labelled_tasks(
        rows.X, y, rows.task, feature_names=rows.feature_names, kind=kind, target_name=column, person=how.person,
        bounds=declared, notes=() if declared is None else (CLIPPED,), unusable=how.unusable, bad_rows=how.bad_rows,
        groups=None if how.exposure is None else {EXPOSURE: how.exposure},
    )  # fmt: skip


def split_carried(X: Any, given: Any, what: str) -> tuple[Any, Any]:
    """X without its column of exposures or persons (`what`), and the values: a column of a table, or one value per row."""
    if given is None:
        return X, None
    if isinstance(X, TaskSet):
        if getattr(X, what) is None:
            raise OptionError(f"these tasks have no {what}: give load_tasks its column, load_tasks(..., {what}=COLUMN)")
        return X, None
    if not isinstance(given, str):
        return X, as_column(given, what)
    if not is_table(X) or given not in X.columns:
        raise DataError(f"the {what} {given!r} is not a column of X; give a table that has it, or one value per row")
    return X.drop(columns=[given]), X[given].to_numpy()


def _from_table(X: Any, y: Any, task: Any, task_column: Any, how: Reading) -> TaskSet:
    """A table with text columns, or with levels declared for some: encoded as `load_tasks` does."""
    from taskveil.tasks.load import load_tasks

    X, task = table_and_task(X, task, task_column)
    task = np.full(len(X), ONE_TASK) if task is None else as_column(task, "task")
    missing = MISSING[how.unusable] if how.missing == "error" else how.missing
    factorize(task)  # refuses rows of no task, which bad_rows would leave out
    options: dict[str, Any] = {"kind": how.kind, "bounds": how.bounds, "unusable": how.unusable, "bad_rows": how.bad_rows}
    tasks = _unskipped(load_tasks((X, y, task), missing=missing, **options))
    persons = person_codes(how.person, how.unusable != "error")
    return tasks if persons is None else replace(tasks, person=persons[np.asarray(tasks.row_index)])


def _unskipped(tasks: TaskSet) -> TaskSet:
    """Without the fact that rows may be left out: with unit = task which rows a task learns from is its own business."""
    return replace(tasks, facts=tuple(f for f in tasks.facts if f.what != "skipped"))


def _as_table(X: Any, task: Any, task_column: Any) -> tuple[Any, Any, None]:
    """An array as a table, whose empty cells can be filled, and the task of every row."""
    import pandas as pd

    rows = rows_of(X, task, task_column)
    return pd.DataFrame(rows.X, columns=[f"x{j}" for j in range(rows.X.shape[1])]), rows.task, None


def was_sorted(tasks: TaskSet) -> bool:
    """Whether bringing the rows of each task together made a copy of them."""
    return tasks.n_rows > 1 and bool((np.diff(np.asarray(tasks.row_index)) != 1).any())


def _checked_kind(tasks: TaskSet, kind: str, bounds: PublicBounds | None) -> TaskSet:
    tasks = _of_kind(tasks, kind)
    return tasks if bounds is None else tasks.within(bounds)


def _of_kind(tasks: TaskSet, kind: str) -> TaskSet:
    """The class of the estimator says what the target is, whatever its type suggests."""
    if tasks.kind == kind:
        return tasks
    if "survival" in (kind, tasks.kind):
        raise DataError(f"these tasks are {tasks.kind}, not {kind}: TaskSurvival takes those loaded with event=COLUMN")
    facts = tuple(f for f in tasks.facts if f.what != "kind")
    if kind == "regression":
        facts = tuple(f for f in facts if f.what != "labels")
        try:
            return replace(tasks, y=np.asarray(tasks.y, dtype=np.float64), kind="regression", classes=None, facts=facts)
        except ValueError:
            raise DataError("the target holds labels, not numbers: use TaskClassifier") from None
    if not np.all(tasks.y == np.round(tasks.y)):
        raise DataError("the target holds real numbers, not labels: use TaskRegressor")
    y, declared = as_target(tasks.y, kind), None if tasks.bounds is None else tasks.bounds.classes
    read_off = () if declared is not None else (Fact("labels", tasks.target_name),)
    y, classes = label_set(y, declared)
    return replace(tasks, y=y, kind=kind, classes=classes, facts=(*facts, *read_off))


def _target(y: Any, kind: str, unusable: str = "error", declared: bool = False, bad_rows: str = "error") -> np.ndarray:
    """The target as an array; what a task is set aside for, or a row is left out for, is left in it."""
    if kind == "survival":
        if np.ndim(y) == 1 and getattr(y, "dtype", np.dtype(float)).names is None:
            raise DataError(f"the target has one value per row; {EVENT_AND_TIME}.")
        return survival_target(y, unusable == "set-aside")
    y = as_array(y, "y")
    if y.ndim == 2 and y.shape[1] == 1:
        warnings.warn("A column-vector y was passed when a 1d array was expected.", DataConversionWarning, stacklevel=4)
        y = y[:, 0]
    if y.ndim != 1:
        raise DataError(f"y must be one target per row, got shape {y.shape}. For several targets see targets=[...].")
    if y.dtype.kind in "cV":
        raise DataError("Complex data not supported: y must be real numbers or labels")
    if y.dtype.kind in "mM":
        raise DataError("the target holds dates or times; turn it into a number (days) or a label")
    if kind == "regression" and y.dtype.kind in "OUS":
        try:
            y = np.where(missing_targets(y), np.nan, y).astype(np.float64)
        except (TypeError, ValueError, OverflowError):
            raise DataError("the target must be numbers for regression, got text: use TaskClassifier") from None
    if kind == "classification" and y.dtype.kind == "f":
        labels, bad = y[np.isfinite(y)], np.isinf(y) if bad_rows == "skip" else ~np.isfinite(y)
        if not labels.size or (bad.any() and unusable == "error"):
            raise DataError("Input y contains NaN or infinity: every row needs a label")
        if not np.all(labels == np.round(labels)) and not (declared and unusable == "set-aside"):
            raise DataError("Unknown label type: continuous. A classifier needs labels; use TaskRegressor for numbers")
    return y


def _cells(table: Any) -> np.ndarray:
    """The cells of a table; an empty one of a column of numbers or truth values is NaN, whatever pandas calls it."""
    numbers = all(holds_numbers(table.iloc[:, j]) for j in range(table.shape[1]))
    cells = table.to_numpy()
    return table.to_numpy(np.float64, na_value=np.nan) if numbers and cells.dtype.kind == "O" else cells


def _numbers(X: np.ndarray) -> np.ndarray:
    if X.dtype.kind == "c":
        raise DataError("Complex data not supported: X must be real numbers")
    if X.dtype.kind in "OUS":
        try:
            return X.astype(np.float64)
        except TypeError:
            raise WrongType("every cell of the argument must be a string or a real number; X holds other objects") from None
        except ValueError:
            raise DataError("X has text columns; expected numbers. Pass a DataFrame, whose text columns are encoded") from None
        except OverflowError:
            raise DataError("X holds whole numbers that are too large for a float") from None
    if X.dtype.kind not in "biuf":
        raise DataError(f"X must be numbers; got {X.dtype}. Turn dates and times into numbers (days) first")
    return X


def _cut_column(X: np.ndarray, column: Any) -> tuple[np.ndarray, np.ndarray]:
    if not isinstance(column, int | np.integer) or X.ndim != 2 or not -X.shape[1] <= column < X.shape[1]:
        raise DataError(f"task_column must be a column position for an array X, got {column!r}")
    return X[:, column], np.delete(X, column, axis=1)


def task_positions(identifiers: np.ndarray, task_names: tuple[str, ...]) -> np.ndarray:
    """Position of each row's task among the known names, -1 where unknown."""
    codes, names = factorize(identifiers)
    lookup = {without_clock(name): i for i, name in enumerate(task_names)}
    return np.asarray([lookup.get(without_clock(name), -1) for name in names], dtype=np.int64)[codes]


def given_weights(sample_weight: Any, n: int, private: bool = False) -> np.ndarray:
    """One weight for each of n rows, as they were given."""
    weights = as_array(sample_weight, "sample_weight")
    if weights.ndim == 0:  # one for all rows: no task's own
        weights = np.full(n, WEIGHT.check("sample_weight", weights.item()))
    if weights.shape != (n,):
        raise DataError(f"sample_weight must be one number per row: expected shape ({n},), got {weights.shape}")
    if weights.dtype.kind not in "biuf":
        raise DataError(f"sample_weight must be one number per row, got {_kind_of(weights)}; turn it into numbers first")
    weights = weights.astype(np.float64)
    good = bool((np.isfinite(weights) & (weights >= 0)).all())
    if private:  # a refusal would tell others about one task's weights
        if not good:
            warnings.warn("sample_weight: what is negative or no number counts as zero", UserWarning, stacklevel=5)
        return np.clip(np.nan_to_num(weights, nan=0.0), 0.0, LARGEST_WEIGHT)
    if not good:
        raise DataError("sample_weight must hold finite numbers that are not negative")
    return weights


def _kind_of(values: np.ndarray) -> str:
    """What an array without numbers holds, in words."""
    texts = values.dtype.kind in "US" or any(isinstance(v, str) for v in values.tolist())
    return "text" if texts else "dates or times" if values.dtype.kind in "mM" else "other objects"


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
