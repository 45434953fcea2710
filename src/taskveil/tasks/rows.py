"""Rows to predict: encoded exactly like the features a model was trained on; no target is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.files import FileTable, column_names, holds_table, read_npz, read_table
from taskveil.tasks.grouping import factorize
from taskveil.tasks.prepare.encode import Encoded, encode_features, levels_of
from taskveil.tasks.prepare.facts import hashed_in
from taskveil.tasks.prepare.unusable import dropped_rows, fill_missing
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.table import TASK_NAMES, need_columns, usual_column

if TYPE_CHECKING:
    import pandas as pd

NO_TASK = "__task__"


@dataclass(frozen=True, eq=False)
class Rows:
    """X (N, d) in the caller's row order, the task name of each row, where it stood in the file, and what was left out."""

    X: np.ndarray
    task: np.ndarray
    row_index: np.ndarray
    notes: tuple[str, ...] = ()


def load_rows(
    source: Any,
    feature_names: Sequence[str],
    *,
    task: str | None = None,
    bounds: Any = None,
    missing: str = "error",
    bad_rows: str = "error",
    every_task: Sequence[str] = (),
) -> Rows:
    """Rows of a file, a table or a built-in data set, for a model with these features.

    With `every_task` the rows belong to no task: each stands once for every task named (the targets of a wide table).

    One-hot columns and buckets are rebuilt from their names ('sex=male', 'ward#3/16').
    Missing cells are treated as in `load_tasks`.
    """
    path = Path(source) if isinstance(source, (str, Path)) else None
    if path is not None and path.suffix.lower() == ".npz" and not every_task:
        return _npz_rows(path, feature_names)
    if path is not None and not holds_table(path) and not every_task:
        from taskveil.tasks.load import load_tasks

        tasks = load_tasks(source, task=task, features=feature_names)
        return Rows(tasks.X, np.asarray(tasks.task_names)[tasks.task_of_row()], np.asarray(tasks.row_index))
    columns = list(source.columns) if path is None else column_names(path)
    column = NO_TASK if every_task else task or usual_column(columns, TASK_NAMES, "task")
    named = [] if every_task else [column]
    need_columns(columns, named)
    table = FileTable(source)
    if path is not None:
        ids = [*named, *text_in(feature_names)]
        unused = _not_used(columns, feature_names)
        table = read_table(path, bad_rows=bad_rows, text_columns=unused, id_columns=ids, filled_columns=named)
    frame = table.frame.assign(**{NO_TASK: "all"}) if every_task else table.frame
    rows = _table_rows(frame, tuple(feature_names), column, PublicBounds.coerce(bounds), missing)
    place = rows.row_index if table.rows is None else table.rows[rows.row_index]
    rows = replace(rows, row_index=place, notes=(*table.notes, *rows.notes))
    return _for_each(rows, every_task) if every_task else rows


def _for_each(rows: Rows, tasks: Sequence[str]) -> Rows:
    """Every row once for each of the tasks."""
    n, m = len(rows.row_index), len(tasks)
    return Rows(np.repeat(rows.X, m, axis=0), np.tile(np.asarray(tasks), n), np.repeat(rows.row_index, m), rows.notes)


def encode_like(frame: pd.DataFrame, names: Sequence[str], bounds: PublicBounds | None) -> Encoded:
    """A table's columns as the features a model was trained on, in the model's order; NaN where a number is missing."""
    made = [n for n in names if n not in frame.columns]
    text = hashed_in(made)
    buckets = {f"{column}#": column for column in text}
    columns = list(dict.fromkeys(buckets.get(n[: n.rfind("#") + 1], n.partition("=")[0]) if n in made else n for n in names))
    need_columns(frame.columns, columns)
    frame = frame.assign(**{n: np.nan for n in columns if n in names and frame[n].isna().all()})  # numbers, all missing
    declared = replace(bounds or PublicBounds(), levels=levels_of([n for n in made if n[: n.rfind("#") + 1] not in buckets]))
    encoded = encode_features(frame, columns, declared, text=text)
    strange = sorted(set(encoded.names) - set(names))
    if strange:
        column = strange[0].rpartition("#")[0] or strange[0].partition("=")[0]
        raise DataError(f"column {column!r} holds text, but the model was trained on numbers there.")
    at = [encoded.names.index(n) for n in names]
    X = encoded.X if at == list(range(len(at))) else encoded.X[:, at]
    return Encoded(X, tuple(names), declared)


def text_in(names: Sequence[str]) -> tuple[str, ...]:
    """The columns behind a model's features that are read as they are written."""
    return (*levels_of(names), *hashed_in(names))


def _not_used(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    """Columns no feature comes from, such as the target: what they hold makes no row bad."""
    used = {*names, *text_in(names)}
    return [c for c in columns if c not in used]


def _table_rows(frame: pd.DataFrame, names: tuple[str, ...], task: str, bounds: PublicBounds | None, missing: str) -> Rows:
    need_columns(frame.columns, [task])
    encoded = encode_like(frame, names, bounds)
    codes, task_names = factorize(frame[task].to_numpy(dtype=object))
    order = np.argsort(codes, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=len(task_names)))])
    X, kept = fill_missing(replace(encoded, X=encoded.X[order]), offsets, missing)
    at = order if kept is None else order[kept]
    back = np.argsort(at, kind="stable")
    X = X[back]
    X = X if bounds is None else bounds.clip_features(X, names)
    notes = () if kept is None else (dropped_rows(kept),)
    return Rows(np.ascontiguousarray(X), np.asarray(task_names)[codes[at[back]]], at[back], notes)


def _npz_rows(path: Path, feature_names: Sequence[str]) -> Rows:
    z = read_npz(path)
    for key in ("X", "task"):
        if key not in z:
            raise DataError(f"{path.name} lacks the array {key!r}; rows to predict need X and task.")
    X = np.asarray(z["X"])
    if X.ndim != 2 or X.shape[1] != len(feature_names) or len(z["task"]) != len(X):
        raise DataError(f"{path.name}: the model expects {len(feature_names)} features, X has shape {X.shape}.")
    if "feature_names" in z and [str(n) for n in z["feature_names"]] != list(feature_names):
        raise DataError(f"{path.name}: the feature names differ from those the model was trained on.")
    if X.dtype.kind not in "biuf" or not np.isfinite(X).all():
        raise DataError(f"{path.name}: X must hold finite numbers only.")
    codes, names = factorize(z["task"])
    task_names = np.asarray([str(n) for n in z["task_names"]])[z["task"]] if "task_names" in z else np.asarray(names)[codes]
    return Rows(X.astype(np.float64, copy=False), task_names, np.arange(len(X)))
