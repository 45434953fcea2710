"""Columns of a table to numbers, row by row, with parameters that are public before any row is read.

numbers and booleans   as they are
declared levels        one-hot as 'column=level'; a value outside is the level '(other)', a missing cell '(missing)',
                       where these are declared, else all zeros
any other text         hashed into 16 public buckets 'column#0/16' ... 'column#15/16': a fixed public hash of column and
                       value, so that no list of levels is ever taken from rows

'Yes', 'YES ' and 'yes' are the same text, unless levels that differ in nothing else are declared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from hashlib import blake2b
from numbers import Real
from typing import TYPE_CHECKING

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.files import MISSING_MARKS
from taskveil.tasks.grouping import CHUNK_ROWS, folded, row_chunks, task_label
from taskveil.tasks.prepare.disguise import DAYS, disguise
from taskveil.tasks.prepare.facts import BUCKETS, Fact, left_out
from taskveil.tasks.public_bounds import PublicBounds

if TYPE_CHECKING:
    import pandas as pd


MISSING_LEVEL, OTHER_LEVEL = "(missing)", "(other)"
MANY_VALUES = 100
MOST_FAULTS = 8  # of different columns that are told at once
NUMBERS = ("integer", "floating", "mixed-integer-float", "boolean", "decimal")


@dataclass(frozen=True)
class _Column:
    """How one column becomes numbers: itself, one column per declared level, or one per bucket."""

    name: str
    levels: tuple[str, ...] = ()
    hashed: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        if self.hashed:
            return tuple(f"{self.name}#{k}/{BUCKETS}" for k in range(BUCKETS))
        return tuple(f"{self.name}={level}" for level in self.levels) or (self.name,)

    @property
    def is_number(self) -> bool:
        return not (self.levels or self.hashed)


@dataclass(frozen=True, eq=False)
class Encoded:
    """Features as numbers: X (N, d) in float64 or float32, NaN where a number is missing."""

    X: np.ndarray
    names: tuple[str, ...]
    bounds: PublicBounds | None
    facts: tuple[Fact, ...] = ()


def encode_features(
    frame: pd.DataFrame,
    columns: Sequence[str],
    bounds: PublicBounds | None,
    *,
    order: np.ndarray | None = None,
    text: Sequence[str] = (),
) -> Encoded:
    """All feature columns as one array, rows taken in `order`. Which columns it has follows from types and declarations alone.

    `text` names columns that are hashed whatever their cells look like: those a model was trained on as text.
    """
    plan = _plans(frame, columns, bounds, text)
    names = tuple(n for column in plan for n in column.names)
    X: np.ndarray = np.empty((len(frame), len(names)), dtype=_dtype(frame, plan))
    _fill_columns(X, frame, plan, order)
    return Encoded(X, names, bounds, tuple(Fact("hashed", c.name) for c in plan if c.hashed))


def encoded_names(columns: Sequence[str], bounds: PublicBounds | None, text: Sequence[str] = ()) -> tuple[str, ...]:
    """What columns become, from declarations alone: by its levels, by buckets where it is declared as text, else a number."""
    levels = {} if bounds is None else bounds.levels
    return tuple(name for n in columns for name in _Column(n, levels.get(n, ()), hashed=n in text).names)


def bucket(column: str, value: str) -> int:
    """The public bucket of a text: the same on every machine, for every run."""
    digest = blake2b(f"{column}\0{folded(value)}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % BUCKETS


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
    return bool(types.is_numeric_dtype(column) or types.is_bool_dtype(column)) and not bool(types.is_complex_dtype(column))


def holds_numbers(column: pd.Series) -> bool:
    """`is_number`, and columns of Python objects that are all numbers."""
    import pandas as pd

    if is_number(column) or column.dtype != object:
        return is_number(column)
    found = pd.api.types.infer_dtype(column, skipna=True)
    return found in NUMBERS or (found.startswith("mixed") and all(isinstance(v, Real) for v in column[column.notna()]))


def _plans(frame: pd.DataFrame, columns: Sequence[str], bounds: PublicBounds | None, text: Sequence[str]) -> list[_Column]:
    """What each column becomes; what is wrong with several is told at once."""
    plan, faults = [], []
    for name in columns:
        try:
            plan.append(_Column(name, hashed=True) if name in text else _plan(frame[name], name, bounds))
        except DataError as fault:
            faults.append(str(fault))
    if faults:
        raise DataError(" ".join(faults[:MOST_FAULTS]) + " There is more." * (len(faults) > MOST_FAULTS))
    return plan


def _plan(column: pd.Series, name: str, bounds: PublicBounds | None) -> _Column:
    if bounds is not None and name in bounds.levels:
        return _Column(name, levels=bounds.levels[name])
    if holds_numbers(column):
        return _Column(name)
    if bounds is not None and name in bounds.features:
        raise DataError(f"column {name!r} has a declared range but holds text; make every cell a number, or declare its levels.")
    _check_text(column, name)
    return _Column(name, hashed=True)


def _check_text(column: pd.Series, name: str) -> None:
    """Turn a column that was read as text by mistake back to whoever runs the command."""
    import pandas as pd

    try:
        unique = [v for v in pd.unique(column) if not pd.isna(v)]
    except TypeError:  # lists, tables
        raise DataError(
            f"column {name!r} holds objects that are neither numbers nor text; expected one of them, or {left_out(name)}."
        ) from None
    if not unique:
        raise DataError(f"column {name!r} is empty; {left_out(name)}.")
    if isinstance(unique[0], complex):
        raise DataError(f"column {name!r} holds complex numbers; expected real numbers or text, or {left_out(name)}.")
    times = column.dtype.kind in "mM" or isinstance(unique[0], (date, time, timedelta))
    meant = DAYS if times else disguise(column, unique)
    if meant is not None:
        raise DataError(f"column {name!r} holds {meant}, or {left_out(name)}.")


def _dtype(frame: pd.DataFrame, plan: list[_Column]) -> type:
    """float32 only when every numeric column is that narrow already."""
    numbers = [str(frame[c.name].dtype) for c in plan if c.is_number]
    return np.float32 if numbers and set(numbers) <= {"float32", "float16"} else np.float64


def _fill_columns(X: np.ndarray, frame: pd.DataFrame, plan: list[_Column], order: np.ndarray | None) -> None:
    """Write X a few rows at a time: whole columns of a row-major array would miss the cache at every cell.

    The columns are read from top to bottom and each row is written to its place in `order` as one piece, which is
    several times faster than picking every cell from where it lies.
    """
    place = None
    if order is not None:
        place = np.empty(len(order), dtype=np.int64)
        place[order] = np.arange(len(order))
    j, numbers = 0, []
    for column in plan:
        if column.is_number:
            numbers.append((j, frame[column.name].to_numpy(dtype=X.dtype, na_value=np.nan)))
        else:
            X[:, j : j + len(column.names)] = _one_hot(frame[column.name], column, order)
        j += len(column.names)
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


def _one_hot(cells: pd.Series, column: _Column, order: np.ndarray | None) -> np.ndarray:
    """One column per level or bucket; a row without a place is all zeros. A row's numbers depend on its own cell alone."""
    import pandas as pd

    if cells.dtype == object:  # True equals 1: an equal cell of another row must not decide how this one is written
        cells = cells.map(task_label, na_action="ignore")
    codes, unique = pd.factorize(cells, use_na_sentinel=True)
    places = np.asarray([*(_place(column, task_label(value)) for value in unique), _place(column, None)], dtype=np.int64)
    at = places[codes]  # a missing cell has code -1: the last place
    at = at if order is None else at[order]
    out = np.zeros((len(cells), len(column.names)))
    rows = np.flatnonzero(at >= 0)
    out[rows, at[rows]] = 1.0
    return out


def _place(column: _Column, value: str | None) -> int:
    """Where the one stands for this cell, -1 for nowhere."""
    for written in () if value is None else (value, plain_text(value)):
        if written in column.levels:
            return column.levels.index(written)
    missing = value is None or value.strip() in MISSING_MARKS
    if column.hashed:
        return -1 if missing else bucket(column.name, str(value))
    alike = [] if missing else [folded(level) == folded(str(value)) for level in column.levels]
    if any(alike):
        return alike.index(True)
    stand_in = MISSING_LEVEL if missing else OTHER_LEVEL
    return column.levels.index(stand_in) if stand_in in column.levels else -1


def plain_text(value: str) -> str:
    """The usual form of a number or a truth value: '01', '1.0' and '1' are the level '1' unless the cell itself is declared."""
    if value.strip().lower() in ("true", "false"):
        return value.strip().capitalize()
    try:
        return task_label(float(value))
    except ValueError:
        return value
