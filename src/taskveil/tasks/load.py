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

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import DataError, OptionError, UnknownName
from taskveil.tasks import catalogue, synthetic
from taskveil.tasks.arguments import LOAD, as_array, as_names, as_pandas, checked
from taskveil.tasks.files import TABLES, arrow, column_names, holds_table, read_npz, read_table
from taskveil.tasks.labelled import labelled_tasks
from taskveil.tasks.prepare.labels import make_binary
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.table import Layout, check_columns, need_columns, tasks_from_frame
from taskveil.tasks.task import TaskSet

SHEET = "In the program that made it, save it as 'CSV UTF-8'."
CONVERTED = {
    **dict.fromkeys((".xlsx", ".xls", ".ods"), SHEET), ".gz": "Unpack it first (gunzip FILE).", ".zip": "Unpack it first.",
    **dict.fromkeys((".feather", ".arrow", ".json", ".dta", ".sav", ".sas7bdat", ".xpt"), "pandas can read it and save a csv."),
}  # fmt: skip
"""What to do with files that tables come in but that are not read."""


@checked(LOAD)
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
    text: Sequence[str] = (),
    event: str | None = None,
    exposure: str | None = None,
    leave_out: Sequence[str] = (),
    groups: Sequence[str] = (),
    missing: str = "error",
    bad_rows: str = "error",
    unusable: str = "error",
    seed: int = 0,
    lazy: bool = False,
    partitions: int | None = None,
) -> Any:
    """Load tasks from a file, a table, arrays, a dict of (X, y), or the name of a data set.

    Parameters
    ----------
    source : path, DataFrame, dict, tuple or str
        A csv, parquet or npz file; a table; `{name: (X, y)}`; `(X, y, task)`; a built-in name; or "synthetic:...".
    task : str, default=None
        Column that says which task a row belongs to. Optional for built-in data.
    target : str, default=None
        Column to predict. Optional for built-in data.
    targets : list of str, default=None
        Target columns of a wide table, one task each. Rows with a missing target are dropped.
    person : str, default=None
        Column that names the person behind a row, across tasks.
    bounds : path, mapping or PublicBounds, default=None
        Declared public ranges. Values outside are clipped.
    kind : str or None, default=None
        "regression", "classification" or "survival" (needs `event`). `None` decides by the type of the target: numbers mean
        regression; text, booleans and categories mean classification.
    positive : label, default=None
        The label that counts as 1; every other label is 0.
    features : list of str, default=None
        The feature columns. `None` takes all remaining columns.
    text : list of str, default=()
        Feature columns that are hashed as text, even if their cells look like numbers.
    event : str, default=None
        For survival: column that says whether the event was observed (1) or not (0). `target` is then the time.
    exposure : str, default=None
        For counts: column that holds the exposure of every count, for `TaskRegressor(loss="poisson")`.
    leave_out : list of str, default=()
        Columns that are not features (identifiers, free text).
    groups : list of str, default=()
        Columns that are kept for splitting (`split_rows(..., group=...)`) but not used as features.
    missing : {"error", "impute-bounds", "impute-own", "drop"}, default="error"
        What to do with empty cells: refuse them, fill in the middle of the declared range, fill in the median of the task's own
        rows, or drop the row.
    bad_rows : {"error", "skip"}, default="error"
        What to do with rows without task or target, and with csv lines that cannot be read.
    unusable : {"error", "set-aside"}, default="error"
        What to do with tasks that have infinite or huge values. "set-aside" keeps their place, but without rows.
    seed : int, default=0
        Seed of a synthetic data set.
    lazy : bool, default=False
        Whether to leave the rows in their files, for runtime="dask". `source` is then a folder, a pattern or an address of
        Parquet files.
    partitions : int or None, default=None
        For lazy=True: into how many partitions of whole tasks the table is divided. `None` makes eight, or a multiple of eight
        with about 32 MiB each.

    Returns
    -------
    TaskSet
        Rows grouped by task. With lazy=True a LazyTasks.

    Examples
    --------
    >>> import pandas as pd
    >>> import taskveil as tv
    >>> table = pd.DataFrame({"ward": ["a", "a", "b"], "age": [61.0, 47.0, 55.0], "days": [3.5, 2.0, 8.0]})
    >>> tasks = tv.load_tasks(table, task="ward", target="days")
    >>> tasks.task_names, tasks.feature_names
    (('a', 'b'), ('age',))
    """
    source = as_pandas(source)
    layout = Layout(
        task=task,
        target=target,
        targets=None if targets is None else as_names(targets, "targets"),
        person=person,
        bounds=PublicBounds.coerce(bounds),
        kind=_kind(kind, positive, event, isinstance(source, (str, Path)) or hasattr(source, "columns")),
        event=event,
        exposure=exposure,
        features=None if features is None else as_names(features, "features"),
        text=as_names(text, "text"),
        leave_out=as_names(leave_out, "leave_out"),
        groups=as_names(groups, "groups"),
        missing=missing,
        bad_rows=bad_rows,
        unusable=unusable,
    )
    if lazy:
        arrow()
        from taskveil.tasks.lazy.parquet import lazy_from_parquet

        if not isinstance(source, (str, Path)):
            raise OptionError(f"lazy=True reads Parquet files by their address; a {type(source).__name__} is in memory already")

        return lazy_from_parquet(str(source), layout, positive, partitions)
    tasks = _from_any(source, layout, seed)
    return tasks if positive is None else make_binary(tasks, positive)


def _kind(kind: str | None, positive: Any, event: str | None, table: bool) -> str | None:
    if event is not None and kind not in (None, "survival"):
        raise OptionError(f"event= (--event) makes a survival target, no {kind}: leave out --kind and --loss, or --event")
    if event is None and kind == "survival" and table:
        raise OptionError("survival needs a time and an event: --kind survival --target TIME --event EVENT (event=COLUMN)")
    if event is not None and positive is not None:
        raise OptionError("positive= names a label; a survival target has none")
    return "survival" if event is not None else "classification" if kind is None and positive is not None else kind


def _from_any(source: Any, layout: Layout, seed: int) -> TaskSet:
    if isinstance(source, TaskSet):
        return _adjusted(source, layout)
    if isinstance(source, (str, Path)):
        return _from_name(source, layout, seed)
    if hasattr(source, "columns") and hasattr(source, "iloc"):
        return tasks_from_frame(source, layout)
    if isinstance(source, Mapping):
        return _from_dict(source, layout)
    if isinstance(source, (tuple, list)) and len(source) == 3:
        X, y, task = source
        return _from_arrays(X, y, task, layout)
    raise DataError(
        f"cannot load tasks from a {type(source).__name__}; expected a file name, a DataFrame, "
        "a dict of name -> (X, y), or (X, y, task)."
    )


def _from_name(source: str | Path, layout: Layout, seed: int) -> TaskSet:
    text, path = str(source), Path(source)
    if text.startswith(synthetic.PREFIX):
        return _adjusted(synthetic.get_synthetic(text, seed).train, layout)
    if text in catalogue.DATASETS and not path.is_file():
        _same_names(catalogue.DATASETS.get(text), layout)
        return _adjusted(catalogue.load_dataset(text), layout)
    if path.suffix.lower() == ".npz":
        return _from_npz(path, layout)
    if holds_table(path):
        return _from_table_file(path, layout)
    if os.path.exists(path):  # False for names that no file system takes
        kind = "is a folder without parquet files" if path.is_dir() else f"has an unknown file type {path.suffix!r}"
        types = ", ".join((*TABLES, ".npz"))
        raise DataError(f"{path.name} {kind}; expected one of {types}. {CONVERTED.get(path.suffix.lower(), '')}".strip())
    names = [*catalogue.names(), *synthetic.names()]
    close = difflib.get_close_matches(text, names, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"data sets: {', '.join(names)}."
    raise UnknownName(f"{text!r} is neither a file nor a data set; {hint}")


def _from_table_file(path: Path, layout: Layout) -> TaskSet:
    """The columns are checked before the rows are read: a wrong name is found at once, whatever the rows hold."""
    columns = column_names(path)
    check_columns(columns, layout)
    levels = layout.bounds.levels if layout.bounds is not None else ()
    labels = layout.target_columns(columns) if layout.labelled else ()
    table = read_table(
        path,
        bad_rows=layout.bad_rows,
        text_columns=layout.groups,
        id_columns=filter(None, (layout.person, *layout.task_columns(columns), *levels, *layout.text, *labels)),
        filled_columns=layout.filled_columns(columns),
        later_columns=() if layout.targets is not None else (*layout.task_columns(columns), *layout.target_columns(columns)),
    )
    named = (
        () if table.left_out is None or layout.targets is not None else table.left_out[layout.task_columns(columns)[0]].dropna()
    )
    return tasks_from_frame(table.frame, replace(layout, notes=table.notes, unread=tuple(named)))


def _from_npz(path: Path, layout: Layout) -> TaskSet:
    """Arrays X, y, task and optionally task_names, feature_names.

    Other arrays over the rows can be `groups`.
    """
    z = read_npz(path)
    lost = [k for k in ("X", "y", "task") if k not in z]
    if lost:
        raise DataError(f"{path.name} lacks the array {', '.join(map(repr, lost))}; an npz needs X, y and task.")
    X, names = np.asarray(z["X"]), z.get("task_names")
    columns = None if "feature_names" not in z else [str(n) for n in z["feature_names"]]
    if X.ndim != 2 or (columns is not None and len(columns) != X.shape[1]):
        raise DataError(f"{path.name}: X must be rows x features with one name per column, got shape {X.shape}.")
    task = z["task"] if names is None else _task_names(z["task"], names)
    made = _from_arrays((X, columns), z["y"], task, layout)
    return made if names is None else _in_order(made, [str(n) for n in names])


def _from_arrays(X: Any, y: Any, task: Any, layout: Layout) -> TaskSet:
    """(X, y, task); X may be a DataFrame, an array, or (array, names)."""
    if hasattr(X, "columns"):
        return _from_frame_parts(X, y, task, layout)
    X, names = X if isinstance(X, tuple) else (as_array(X, "X"), None)
    if X.ndim == 2 and X.dtype.kind in "OUS":
        raise DataError("X holds text or mixed values; pass a DataFrame so that columns can be told apart.")
    if X.ndim == 2 and X.size and (layout.features is not None or layout.leave_out or _has_missing(X)):
        import pandas as pd

        frame = pd.DataFrame(X, columns=names or [f"x{j}" for j in range(X.shape[1])])
        return _from_frame_parts(frame, y, task, layout)
    classes = None if layout.bounds is None else layout.bounds.classes
    made = labelled_tasks(
        X, y, task, feature_names=names, kind=layout.kind, classes=classes, bounds=layout.bounds, facts=layout.facts(),
        unusable=layout.unusable, bad_rows=layout.bad_rows,
    )  # fmt: skip
    return _adjusted(made, layout)


def _from_frame_parts(X: Any, y: Any, task: Any, layout: Layout) -> TaskSet:
    if not len(X) == len(y) == len(task):
        raise DataError(f"X, y and task must be equally long; got {len(X)}, {len(y)} and {len(task)} rows.")
    columns = layout.features
    if columns is None:
        need_columns(X.columns, layout.leave_out)
        columns = tuple(c for c in X.columns if c not in layout.leave_out)
    import pandas as pd

    parts = {"__task__": np.asarray(task), "__target__": y.array if hasattr(y, "array") else np.asarray(y)}
    frame = pd.concat([X.reset_index(drop=True), pd.DataFrame(parts)], axis=1)
    columns_of_frame = replace(layout, task="__task__", target="__target__", features=columns, leave_out=())
    made, name = tasks_from_frame(frame, columns_of_frame), str(getattr(y, "name", None) or "y")
    facts = tuple(f.about("__target__", name) for f in made.facts)
    notes = tuple(note.replace("'__target__'", repr(name)) for note in made.notes)
    return replace(made, target_name=name, facts=facts, notes=notes)


def _from_dict(source: Mapping[Any, Any], layout: Layout) -> TaskSet:
    if not source:
        raise DataError("the dict of tasks is empty; expected name -> (X, y).")
    for name, pair in source.items():
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2):
            raise DataError(f"task {str(name)!r}: expected a pair (X, y).")
        if not all(hasattr(part, "__len__") for part in pair) or len(pair[0]) != len(pair[1]):
            raise DataError(f"task {str(name)!r}: X and y must be equally long.")
    names = [str(n) for n in source]
    ys = [as_array(p[1], "y") for p in source.values()]
    task = np.repeat(np.asarray(names), [len(y) for y in ys])
    stacked = _stack([p[0] for p in source.values()])
    return _in_order(_from_arrays(stacked, np.concatenate(ys), task, layout), names)


def _stack(Xs: list[Any]) -> Any:
    if all(hasattr(X, "columns") for X in Xs):
        import pandas as pd

        if len({tuple(X.columns) for X in Xs}) > 1:
            raise DataError("the tasks have different columns; each needs the same features in the same order.")
        return pd.concat(Xs, ignore_index=True)
    arrays = [as_array(X, "X") for X in Xs]
    if arrays[0].ndim != 2 or len({a.shape[1:] for a in arrays}) > 1:
        raise DataError("every task needs X of shape (rows, features) with the same number of features.")
    return np.concatenate(arrays)


def _adjusted(tasks: TaskSet, layout: Layout) -> TaskSet:
    """Fewer features and other bounds for tasks that are loaded already."""
    lost = [f for f in (*(layout.features or ()), *layout.leave_out) if f not in tasks.feature_names]
    if lost:
        raise DataError(f"no feature {lost[0]!r} in this data set.")
    chosen = layout.features or tuple(f for f in tasks.feature_names if f not in layout.leave_out)
    if chosen != tasks.feature_names:
        at = [tasks.feature_names.index(f) for f in chosen]
        tasks = replace(tasks, X=np.ascontiguousarray(tasks.X[:, at]), feature_names=chosen)
    if layout.event is not None or layout.exposure is not None:
        raise OptionError("event and exposure name columns of a table; these tasks are loaded already")
    if layout.kind is not None and layout.kind != tasks.kind:
        raise OptionError(f"this data set is {tasks.kind}, not {layout.kind}; leave kind out.")
    return tasks if layout.bounds is None else tasks.within(layout.bounds)


def _in_order(tasks: TaskSet, names: list[str]) -> TaskSet:
    """Tasks in the order the caller listed them."""
    place = {n: i for i, n in enumerate(names)}
    order = sorted(range(tasks.n_tasks), key=lambda i: place[tasks.task_names[i]])
    return tasks if order == list(range(tasks.n_tasks)) else tasks.take_tasks(order)


def _task_names(task: np.ndarray, names: np.ndarray) -> np.ndarray:
    bad = task.dtype.kind not in "iu" or (task.size and (task.min() < 0 or task.max() >= len(names)))
    if bad:
        raise DataError(f"with task_names, the array 'task' must hold whole numbers from 0 to {len(names) - 1}.")
    return np.asarray([str(n) for n in names])[task]


def _same_names(entry: catalogue.Dataset, layout: Layout) -> None:
    pairs = (("task", layout.task, entry.task), ("target", layout.target, entry.target))
    for what, given, stored in pairs:
        if given is not None and given not in (stored, what, "y"):
            raise OptionError(f"the {what} of the data set {entry.name!r} is {stored!r}, not {given!r}; leave {what} out.")


def _has_missing(X: np.ndarray) -> bool:
    return X.dtype.kind == "f" and bool(np.isnan(X.sum()))
