"""Anything to a TaskSet: files, tables, arrays, dictionaries, built-in and synthetic data sets.

load_tasks("visits.parquet", task="hospital", target="days")
load_tasks(frame, task="hospital", target="days", missing="impute-own", bounds="bounds.json")
load_tasks({"north": (X1, y1), "south": (X2, y2)})
load_tasks((X, y, task_ids))
load_tasks("school")                    built in; looked up in $TASKVEIL_DATA, then the user's cache
load_tasks("synthetic:low-rank")        the training part; get_synthetic gives test part and weights too
load_tasks("survey.csv", targets=["q1", "q2"], person="respondent")      one task per target column
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import DataError, OptionError, UnknownName
from taskveil.tasks import datasets, synthetic
from taskveil.tasks.files import read_npz, read_table
from taskveil.tasks.grouping import factorize
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.table import (
    Encoded,
    encode_features,
    fill_missing,
    levels_of,
    need_columns,
    tasks_from_frame,
)
from taskveil.tasks.task import TaskSet

__all__ = ["Rows", "load_rows", "load_tasks"]

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq")


def load_tasks(
    source: Any,
    task: str | None = None,
    target: str | None = None,
    targets: Sequence[str] | None = None,
    person: str | None = None,
    bounds: Any = None,
    kind: str | None = None,
    positive: Any = None,
    features: Sequence[str] | None = None,
    *,
    groups: Sequence[str] = (),
    missing: str = "error",
    bad_rows: str = "error",
    seed: int = 0,
) -> TaskSet:
    """Load tasks from a file, a table, arrays, a dict of (X, y), or a data-set name.

    Parameters
    ----------
    source : path, DataFrame, {name: (X, y)}, (X, y, task), a built-in name, or "synthetic:..."
    task, target : columns that say which task a row belongs to and what to predict; optional for built-in data
    targets : target columns of a wide table, one task each; rows with a missing target are dropped
    person : column that names the person behind a row, across tasks
    bounds : declared public ranges: a file, a mapping or a PublicBounds; values outside are clipped
    kind : "regression" or "classification"; inferred from the target when not given
    positive : the label that counts as 1; every other label is 0
    features : the feature columns; all remaining columns when not given
    groups : columns carried along for splitting (`split_rows(..., group=...)`), not used as features
    missing : "error", "impute-bounds", "impute-own" or "drop"
    bad_rows : "error" or "skip", for csv lines that cannot be read
    seed : of a synthetic data set
    """
    declared = PublicBounds.coerce(bounds)
    options = dict(
        target=target, targets=targets, person=person, bounds=declared, kind=kind, features=features
    )
    options |= dict(groups=tuple(groups), missing=missing)
    if isinstance(source, TaskSet):
        tasks = _adjusted(source, declared, features)
    elif isinstance(source, (str, Path)):
        tasks = _from_name(source, task, options, bad_rows, seed)
    elif hasattr(source, "columns") and hasattr(source, "iloc"):
        tasks = tasks_from_frame(source, task=task, **options)  # type: ignore[arg-type]
    elif isinstance(source, Mapping):
        tasks = _from_dict(source, declared, kind, features, missing)
    elif isinstance(source, (tuple, list)) and len(source) == 3:
        tasks = _from_arrays(*source, bounds=declared, kind=kind, features=features, missing=missing)
    else:
        raise DataError(
            f"cannot load tasks from a {type(source).__name__}; expected a file name, a DataFrame, "
            "a dict of name -> (X, y), or (X, y, task)."
        )
    return tasks if positive is None else make_binary(tasks, positive)


@dataclass(frozen=True, eq=False)
class Rows:
    """Rows to predict: X (N, d), the task name of each, and where it stood in the file."""

    X: np.ndarray
    task: np.ndarray
    row_index: np.ndarray


def load_rows(
    source: Any,
    feature_names: Sequence[str],
    *,
    task: str = "task",
    bounds: Any = None,
    missing: str = "error",
    bad_rows: str = "error",
) -> Rows:
    """Rows for prediction, encoded exactly like the features a model was trained on (no target needed)."""
    declared = PublicBounds.coerce(bounds)
    levels = levels_of(feature_names)
    frame = source
    if isinstance(source, (str, Path)):
        path = Path(source)
        if path.suffix.lower() == ".npz" or not path.suffix:
            tasks = load_tasks(source)
            return Rows(tasks.X, np.asarray(tasks.task_names)[tasks.task_of_row()], _index(tasks))
        frame = read_table(path, bad_rows=bad_rows, text_columns=levels).frame
    plain = [n for n in feature_names if n in frame.columns or n.partition("=")[0] not in levels]
    columns = list(dict.fromkeys(n if n in plain else n.partition("=")[0] for n in feature_names))
    need_columns(frame, [*columns, task])
    hot = {c: levels[c] for c in columns if c not in plain}
    merged = replace(declared or PublicBounds(), levels=hot)
    codes, names = factorize(frame[task])
    encoded = encode_features(frame, columns, merged)
    order = np.argsort(codes, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(names)))])
    sorted_rows = Encoded(encoded.X[order], encoded.names, merged, ())
    X, kept, _ = fill_missing(sorted_rows, offsets, missing)
    at = order if kept is None else order[kept]
    back = np.argsort(at, kind="stable")
    X = X[back][:, [encoded.names.index(n) for n in feature_names]]
    X = X if declared is None else declared.clip_features(X, feature_names)
    return Rows(np.ascontiguousarray(X), np.asarray(names)[codes[at[back]]], at[back])


def make_binary(tasks: TaskSet, positive: Any) -> TaskSet:
    """Labels to 1 (the label `positive`) and 0 (all others). Text matches regardless of case."""
    if tasks.classes is None:
        raise OptionError(
            "positive=LABEL needs a classification target; this one is regression. Use kind='classification'."
        )
    labels = [str(c) for c in tasks.classes]
    hits = [i for i, c in enumerate(labels) if c == str(positive)]
    hits = hits or [i for i, c in enumerate(labels) if c.casefold() == str(positive).casefold()]
    if len(hits) != 1:
        raise UnknownName(f"no label {str(positive)!r} in the target; labels: {', '.join(labels[:20])}.")
    y = (tasks.codes() == hits[0]).astype(np.int64)
    name = f"{tasks.target_name} = {labels[hits[0]]}"
    bounds = None if tasks.bounds is None else replace(tasks.bounds, classes=(0, 1))
    return replace(tasks, y=y, classes=np.asarray([0, 1]), target_name=name, bounds=bounds)


def _from_name(
    source: str | Path, task: str | None, options: dict[str, Any], bad_rows: str, seed: int
) -> TaskSet:
    text, path = str(source), Path(source)
    if text.startswith(synthetic.PREFIX):
        return _adjusted(synthetic.get_synthetic(text, seed).train, options["bounds"], options["features"])
    if text in datasets.DATASETS and not path.is_file():
        _same_names(datasets.DATASETS.get(text), task, options["target"])
        return _adjusted(datasets.load_dataset(text), options["bounds"], options["features"])
    if path.suffix.lower() == ".npz":
        return _from_npz(path, options)
    if path.suffix.lower() in TABLES:
        levels = options["bounds"].levels if options["bounds"] is not None else ()
        table = read_table(
            path, bad_rows=bad_rows, text_columns=(*levels, *filter(None, [task, options["person"]]))
        )
        return tasks_from_frame(table.frame, task=task, notes=table.notes, **options)
    if path.exists():
        known = ", ".join((*TABLES, ".npz"))
        raise DataError(f"{path.name} has an unknown file type {path.suffix!r}; expected one of {known}.")
    known = ", ".join([*datasets.names(), *synthetic.names()])
    raise UnknownName(f"{text!r} is neither a file nor a data set; data sets: {known}.")


def _from_npz(path: Path, options: dict[str, Any]) -> TaskSet:
    z = read_npz(path)
    lost = [k for k in ("X", "y", "task") if k not in z]
    if lost:
        raise DataError(
            f"{path.name} lacks the array {', '.join(map(repr, lost))}; an npz needs X, y and task."
        )
    names = z.get("feature_names")
    labels = z.get("task_names")
    tasks = (
        z["task"]
        if labels is None
        else np.asarray([str(n) for n in labels])[_positions(z["task"], len(labels))]
    )
    bounds, X = options["bounds"], np.asarray(z["X"])
    columns = None if names is None else [str(n) for n in names]
    y = _class_labels(z)
    made = _from_arrays(
        _named(X, columns),
        y,
        tasks,
        bounds=bounds,
        kind=options["kind"],
        features=options["features"],
        missing=options["missing"],
    )
    if labels is None:
        return made
    place = {str(n): i for i, n in enumerate(labels)}  # keep the file's order of tasks
    return made.take_tasks(sorted(range(made.n_tasks), key=lambda i: place[made.task_names[i]]))


def _class_labels(z: Mapping[str, np.ndarray]) -> np.ndarray:
    return np.asarray(z["y"])


def _positions(task: np.ndarray, m: int) -> np.ndarray:
    if task.dtype.kind not in "iu" or (task.size and (task.min() < 0 or task.max() >= m)):
        raise DataError(f"with task_names, the array 'task' must hold whole numbers from 0 to {m - 1}.")
    return task


def _named(X: np.ndarray, columns: list[str] | None) -> Any:
    if X.ndim != 2:
        raise DataError(f"X must be a table of rows x features, got shape {X.shape}.")
    if columns is not None and len(columns) != X.shape[1]:
        raise DataError(f"{len(columns)} feature names for {X.shape[1]} columns; give one name per column.")
    return X, columns


def _from_arrays(
    X: Any,
    y: Any,
    task: Any,
    *,
    bounds: PublicBounds | None,
    kind: str | None,
    features: Sequence[str] | None,
    missing: str,
) -> TaskSet:
    """(X, y, task); X may be a DataFrame, an array, or (array, names)."""
    if hasattr(X, "columns"):
        return _from_frame_parts(X, y, task, bounds, kind, features, missing)
    X, names = X if isinstance(X, tuple) else (np.asarray(X), None)
    if X.ndim == 2 and X.dtype.kind == "O":
        raise DataError("X holds text or mixed values; pass a DataFrame so that columns can be told apart.")
    if X.ndim == 2 and X.dtype.kind == "f" and bool(np.isnan(X.sum())) or features is not None:
        import pandas as pd

        columns = names or [f"x{j}" for j in range(X.shape[1])]
        return _from_frame_parts(pd.DataFrame(X, columns=columns), y, task, bounds, kind, features, missing)
    made = TaskSet.from_arrays(
        X, y, task, feature_names=names, kind=kind, classes=None if bounds is None else bounds.classes
    )
    return _adjusted(made, bounds, None)


def _from_frame_parts(
    X: Any,
    y: Any,
    task: Any,
    bounds: PublicBounds | None,
    kind: str | None,
    features: Sequence[str] | None,
    missing: str,
) -> TaskSet:
    if not len(X) == len(y) == len(task):
        raise DataError(f"X, y and task must be equally long; got {len(X)}, {len(y)} and {len(task)} rows.")
    reserved = ("__task__", "__target__")
    frame = X.assign(**{reserved[0]: np.asarray(task), reserved[1]: np.asarray(y)})
    columns = list(X.columns) if features is None else list(features)
    made = tasks_from_frame(
        frame,
        task=reserved[0],
        target=reserved[1],
        bounds=bounds,
        kind=kind,
        features=columns,
        missing=missing,
    )
    return replace(made, target_name=str(getattr(y, "name", None) or "y"))


def _from_dict(
    source: Mapping[Any, Any],
    bounds: PublicBounds | None,
    kind: str | None,
    features: Sequence[str] | None,
    missing: str,
) -> TaskSet:
    if not source:
        raise DataError("the dict of tasks is empty; expected name -> (X, y).")
    for name, pair in source.items():
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise DataError(f"task {str(name)!r}: expected a pair (X, y).")
        if len(pair[0]) != len(pair[1]):
            raise DataError(f"task {str(name)!r}: X and y must be equally long.")
    Xs, ys = [p[0] for p in source.values()], [np.asarray(p[1]) for p in source.values()]
    sizes = [len(y) for y in ys]
    task = np.repeat(np.asarray([str(n) for n in source]), sizes)
    if all(hasattr(X, "columns") for X in Xs):
        import pandas as pd

        if len({tuple(X.columns) for X in Xs}) > 1:
            raise DataError(
                "the tasks have different columns; every task needs the same features in the same order."
            )
        stacked: Any = pd.concat(Xs, ignore_index=True)
    else:
        arrays = [np.asarray(X) for X in Xs]
        if len({a.shape[1:] for a in arrays}) > 1 or arrays[0].ndim != 2:
            raise DataError("every task needs X of shape (rows, features) with the same number of features.")
        stacked = np.concatenate(arrays)
    made = _from_arrays(
        stacked, np.concatenate(ys), task, bounds=bounds, kind=kind, features=features, missing=missing
    )
    place = {str(n): i for i, n in enumerate(source)}  # keep the caller's order of tasks
    order = sorted(range(made.n_tasks), key=lambda i: place[made.task_names[i]])
    return made if order == list(range(made.n_tasks)) else made.take_tasks(order)


def _adjusted(tasks: TaskSet, bounds: PublicBounds | None, features: Sequence[str] | None) -> TaskSet:
    """Fewer features and other bounds for a TaskSet that is loaded already."""
    if features is not None:
        unknown = [f for f in features if f not in tasks.feature_names]
        if unknown:
            raise DataError(f"no feature {unknown[0]!r} in this data set.")
        at = [tasks.feature_names.index(f) for f in features]
        tasks = replace(tasks, X=np.ascontiguousarray(tasks.X[:, at]), feature_names=tuple(features))
    if bounds is None:
        return tasks
    X = bounds.clip_features(tasks.X, tasks.feature_names)
    y = bounds.clip_target(tasks.y) if tasks.kind == "regression" else tasks.y
    return replace(tasks, X=X, y=y, bounds=bounds).with_notes(
        "values outside their declared range are clipped to it"
    )


def _same_names(entry: datasets.Dataset, task: str | None, target: str | None) -> None:
    for what, given, known in (
        ("task", task, (entry.task, "task")),
        ("target", target, (entry.target, "y", "target")),
    ):
        if given is not None and given not in known:
            raise OptionError(
                f"the {what} of the data set {entry.name!r} is {known[0]!r}, not {given!r}; leave --{what} out."
            )


def _index(tasks: TaskSet) -> np.ndarray:
    return np.asarray(tasks.row_index)
