"""Columns of a table to numbers: categories one-hot, missing cells filled.

What could be a statistic of the data (category levels, fill values) is declared in the public bounds, or
stays with one task, or is said in the notes (THEORY section 0).

    missing="error"          refuse, naming the columns (the default)
    missing="impute-bounds"  the middle of the declared range
    missing="impute-own"     the median of the task's own rows, never sent; a task with none: the middle, or 0
    missing="drop"           leave such rows out

A missing cell of a category is the level '(missing)' when levels come from the data or declare it, else all
zeros.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, time, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.grouping import CHUNK_ROWS, row_chunks, task_label
from taskveil.tasks.public_bounds import PublicBounds

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MISSING", "MISSING_LEVEL", "Encoded", "encode_features", "fill_missing", "is_number", "levels_of"]

MISSING = ("error", "impute-bounds", "impute-own", "drop")
MISSING_LEVEL = "(missing)"
MAX_LEVELS = 100
DECIMAL_COMMA = re.compile(r"^[+-]?\d+(,\d+)?([eE][+-]?\d+)?$")
Plan = list[tuple[str, tuple[str, ...] | None]]


@dataclass(frozen=True, eq=False)
class Encoded:
    """Features as numbers: X (N, d) in float64 or float32, NaN where a number is missing."""

    X: np.ndarray
    names: tuple[str, ...]
    bounds: PublicBounds | None
    notes: tuple[str, ...] = ()


def encode_features(
    frame: pd.DataFrame,
    columns: Sequence[str],
    bounds: PublicBounds | None,
    *,
    order: np.ndarray | None = None,
) -> Encoded:
    """Numbers as they are, text and declared categories one-hot as 'column=level', rows taken in `order`."""
    declared = dict(bounds.levels) if bounds is not None else {}
    notes: list[str] = []
    plan: Plan = []
    for name in columns:
        if name not in declared and is_number(frame[name]):
            plan.append((name, None))
            continue
        if name not in declared:
            declared[name] = _found_levels(frame[name], name)
            notes.append(
                f"the levels of the text column {name!r} were taken from the data and count as public by "
                "declaration; list them under 'levels' in the bounds to fix them"
            )
        plan.append((name, declared[name]))
    names = [n if levels is None else f"{n}={level}" for n, levels in plan for level in (levels or ("",))]
    X = np.empty((len(frame), len(names)), dtype=_dtype(frame, plan))
    _fill_columns(X, frame, plan, order)
    if bounds is not None and len(declared) > len(bounds.levels):
        bounds = replace(bounds, levels=declared)
    return Encoded(X, tuple(names), bounds, tuple(notes))


def fill_missing(
    encoded: Encoded, offsets: np.ndarray, missing: str
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """X without NaN, which rows were kept (None: all), and what to say about it. Fills in place."""
    X, names = encoded.X, encoded.names
    hole = np.zeros(X.shape[1], dtype=bool)
    for r in row_chunks(X.shape[0]):
        hole |= np.isnan(X[r]).any(axis=0)
    holes = np.flatnonzero(hole)
    if not holes.size:
        return X, None, ()
    shown = ", ".join(repr(names[j]) for j in holes[:5]) + (" and more" if holes.size > 5 else "")
    if missing == "error":
        raise DataError(
            f"missing values in column {shown}. Choose missing= (--missing): 'impute-own' (median of the "
            "task's own rows), 'impute-bounds' (middle of the declared range) or 'drop' (leave them out)."
        )
    if missing == "drop":
        kept = ~np.isnan(X[:, holes]).any(axis=1)
        if not kept.any():
            raise DataError(f"every row has a missing value in column {shown}. Use missing='impute-own'.")
        return X[kept], kept, ("rows with missing values were left out",)
    for j in map(int, holes):
        middle = None if encoded.bounds is None else encoded.bounds.midpoint(names[j])
        if missing == "impute-bounds":
            _fill_middle(X, j, names[j], middle)
        else:
            _fill_own_median(X, j, middle, offsets)
    own = missing == "impute-own"
    said = "the median of the task's own rows" if own else "the middle of the declared range"
    return X, None, (f"missing values were replaced by {said}",)


def levels_of(names: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Category levels hidden in encoded feature names: 'sex=f', 'sex=m' -> {'sex': ('f', 'm')}."""
    out: dict[str, list[str]] = {}
    for name in names:
        column, equals, level = name.partition("=")
        if equals:
            out.setdefault(column, []).append(level)
    return {k: tuple(v) for k, v in out.items()}


def is_number(column: pd.Series) -> bool:
    """Whether a column holds numbers or booleans; complex numbers, dates and text do not count."""
    import pandas as pd

    types = pd.api.types
    return bool(types.is_numeric_dtype(column) or types.is_bool_dtype(column)) and not bool(
        types.is_complex_dtype(column)
    )


def _found_levels(column: pd.Series, name: str) -> tuple[str, ...]:
    """The sorted texts of a categorical column, plus '(missing)' when cells are empty."""
    import pandas as pd

    unique = [v for v in pd.unique(column) if not pd.isna(v)]
    if not unique:
        raise DataError(f"column {name!r} is empty; leave it out (leave_out=[{name!r}], --leave-out {name}).")
    if pd.api.types.is_datetime64_any_dtype(column) or isinstance(unique[0], (date, time, timedelta)):
        raise DataError(
            f"column {name!r} holds dates or times; turn it into a number (days, age), "
            f"or leave it out (leave_out=[{name!r}], --leave-out {name})."
        )
    if len(unique) > MAX_LEVELS:
        if all(DECIMAL_COMMA.match(str(v)) for v in unique[:MAX_LEVELS]):
            raise DataError(f"column {name!r} holds numbers with a decimal comma; save the table with decimal points.")
        raise DataError(
            f"text column {name!r} has more than {MAX_LEVELS} different values (an identifier, numbers with a unit?). "
            f"Leave it out (leave_out=[{name!r}], --leave-out {name}), name it as the person column (--person {name}), or "
            "declare its levels in the bounds."
        )
    levels = sorted({task_label(v) for v in unique})
    return (*levels, MISSING_LEVEL) if bool(column.isna().any()) else tuple(levels)


def _dtype(frame: pd.DataFrame, plan: Plan) -> Any:
    """float32 only when every numeric column is that narrow already."""
    numbers = [str(frame[n].dtype) for n, levels in plan if levels is None]
    return np.float32 if numbers and set(numbers) <= {"float32", "float16"} else np.float64


def _fill_columns(X: np.ndarray, frame: pd.DataFrame, plan: Plan, order: np.ndarray | None) -> None:
    """Write X a few rows at a time: whole columns of a row-major array would miss the cache at every cell.

    The columns are read from top to bottom and each row is written to its place in `order` as one piece, which is
    several times faster than picking every cell from where it lies.
    """
    place = None
    if order is not None:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
    j, numbers = 0, []
    for name, levels in plan:
        if levels is None:
            numbers.append((j, frame[name].to_numpy(dtype=X.dtype, na_value=np.nan)))
            j += 1
        else:
            X[:, j : j + len(levels)] = _one_hot(frame[name], name, levels, order)
            j += len(levels)
    for first, columns in _runs(numbers):
        _fill_run(X[:, first : first + len(columns)], columns, place)


def _runs(numbers: list[tuple[int, np.ndarray]]) -> list[tuple[int, list[np.ndarray]]]:
    """Columns that stand side by side in X, with the place of the first."""
    runs: list[tuple[int, list[np.ndarray]]] = []
    for j, values in numbers:
        if runs and j == runs[-1][0] + len(runs[-1][1]):
            runs[-1][1].append(values)
        else:
            runs.append((j, [values]))
    return runs


def _fill_run(part: np.ndarray, columns: list[np.ndarray], place: np.ndarray | None) -> None:
    piece = np.empty((min(CHUNK_ROWS, part.shape[0]), len(columns)), dtype=part.dtype)
    for r in row_chunks(part.shape[0]):
        rows = piece[: r.stop - r.start]
        for k, values in enumerate(columns):
            rows[:, k] = values[r]
        part[r if place is None else place[r]] = rows


def _one_hot(column: pd.Series, name: str, levels: tuple[str, ...], order: np.ndarray | None) -> np.ndarray:
    import pandas as pd

    codes, unique = pd.factorize(column, use_na_sentinel=True)
    place = {level: k for k, level in enumerate(levels)}
    to = np.asarray([place.get(task_label(u), -1) for u in unique] or [-1], dtype=np.int64)
    if len(unique) and (to < 0).any():
        raise DataError(
            f"column {name!r} has values outside its declared levels; declare them, or correct the table."
        )
    at = np.where(codes >= 0, to[codes], place.get(MISSING_LEVEL, -1))
    at = at if order is None else at[order]
    out = np.zeros((len(column), len(levels)))
    rows = np.flatnonzero(at >= 0)
    out[rows, at[rows]] = 1.0
    return out


def _fill_middle(X: np.ndarray, j: int, name: str, middle: float | None) -> None:
    if middle is None:
        raise DataError(
            f"missing='impute-bounds' needs a declared range for column {name!r}; "
            "add it to the bounds, or use 'impute-own'."
        )
    X[np.isnan(X[:, j]), j] = middle


def _fill_own_median(X: np.ndarray, j: int, middle: float | None, offsets: np.ndarray) -> None:
    hole = np.isnan(X[:, j])
    for i in np.unique(np.searchsorted(offsets, np.flatnonzero(hole), side="right") - 1):
        rows = slice(offsets[i], offsets[i + 1])
        own = X[rows, j][~hole[rows]]
        X[rows, j][hole[rows]] = np.median(own) if own.size else (middle or 0.0)
