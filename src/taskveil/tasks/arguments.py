"""What the arguments of the data functions may be: one table for each, read by the functions and by the tests.

`checked` puts a table before a function; `as_pandas`, `as_rows`, `as_array` and `as_column` are the way in for whatever holds
values: a polars DataFrame and an Arrow table become what a csv file becomes, a pandas DataFrame. Errors name columns and rules,
never values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from taskveil.checks import AnyOf, Choice, Column, Flag, Number, Rule, Text, Whole, check_table, optional, shown
from taskveil.errors import DataError, EnvironmentMissing, OptionError

Called = TypeVar("Called", bound=Callable[..., Any])
SEED = Whole(0, 2**64)
COLUMN = optional(Column())
LABEL = AnyOf(Text(1000), Number(), Flag())
SIZE = Whole(1, 1_000_000)
MOST_CELLS = 10**9  # of a made-up data set

LOAD: dict[str, Rule] = {
    "task": COLUMN,
    "target": COLUMN,
    "person": COLUMN,
    "event": COLUMN,
    "exposure": COLUMN,
    "kind": optional(Choice("regression", "classification", "survival")),
    "positive": optional(LABEL),
    "missing": Choice("error", "impute-bounds", "impute-own", "drop", "keep"),
    "bad_rows": Choice("error", "skip"),
    "unusable": Choice("error", "set-aside", "set-aside-all"),  # all: others are elsewhere, so these may all be
    "seed": SEED,
    "lazy": Flag(),
    "partitions": optional(SIZE),
}
SPLIT: dict[str, Rule] = {"train_fraction": Number(above=0, below=1), "seed": SEED}
FOLDS: dict[str, Rule] = {
    "n_splits": Whole(2, 100_000),
    "task_column": COLUMN,
    "group_column": COLUMN,
    "random_state": optional(SEED),
    "test_size": Number(above=0, below=1),
}
SYNTHETIC: dict[str, Rule] = {
    "n_tasks": SIZE, "n_train": SIZE, "n_test": optional(Whole(0, 1_000_000)), "n_features": Whole(1, 100_000),
    "min_rows": SIZE, "max_rows": SIZE, "rank": Whole(0, 1000), "n_blocks": SIZE, "n_outsiders": Whole(0, 1_000_000),
    "n_active": Whole(0, 100_000), "noise": Number(at_least=0, at_most=1e6), "correlation": Number(at_least=0, at_most=1),
    "variance": Number(at_least=0, at_most=1e12), "low": Number(at_least=-1e6, at_most=1e6),
    "high": Number(at_least=-1e6, at_most=1e6), "sharpness": Number(at_least=-1e6, at_most=1e6),
    "relation": Choice("related", "unrelated", "noise"), "unit_rows": Flag(),
}  # fmt: skip


def checked(rules: Mapping[str, Rule]) -> Callable[[Called], Called]:
    """A decorator: every argument that has a rule keeps it, or an error says what is allowed and what came."""

    def around(function: Called) -> Called:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def wrapper(*values: Any, **named: Any) -> Any:
            given = signature.bind(*values, **named).arguments
            check_table({name: given[name] for name in rules if name in given}, rules)
            return function(*values, **named)

        return wrapper  # type: ignore[return-value]

    return around


def as_pandas(table: Any) -> Any:
    """A pandas DataFrame of a table that can make one of itself; anything else as it is."""
    if hasattr(table, "collect_schema") and hasattr(table, "lazy") and not hasattr(table, "to_pandas"):
        table = table.collect()  # a LazyFrame of polars
    if hasattr(table, "iloc") or not hasattr(table, "to_pandas"):
        return table
    try:
        return table.to_pandas()
    except ImportError:
        library = type(table).__module__.split(".")[0]
        remedy = "install it with: pip install 'taskveil[parquet]'"
        raise EnvironmentMissing(f"a {library} table is read through pyarrow; {remedy}") from None


def with_index(table: Any, *asked: Any) -> Any:
    """A pandas DataFrame in which a level of the index that is asked for by name is a column, as in a table that was written."""
    levels = [name for name in table.index.names if name is not None and name in asked and name not in table.columns]
    return table.reset_index(levels) if levels else table


def with_text_names(table: Any) -> Any:
    """A pandas DataFrame whose columns are called by texts, as in a file and in models; without a copy of its cells."""
    if all(isinstance(c, str) for c in table.columns):
        return table
    return table.set_axis([c if isinstance(c, str) else str(c) for c in table.columns], axis=1)


def as_array(values: Any, what: str) -> np.ndarray:
    """What a caller gave as an array. Masked cells, which NumPy would quietly unmask, are missing ones."""
    if hasattr(values, "toarray"):
        raise DataError(f"Sparse data was passed, but a dense array is required; use {what}.toarray()")
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        plain = values.dtype.kind in "biuf"
        values = np.ma.filled(values.astype(np.float64 if plain else object), np.nan if plain else None)
    try:
        return np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        raise DataError(f"{what} must be rows x features or one value per row, every row of the same length") from None


def some(names: Iterable[object], most: int = 5) -> str:
    """The first few names, and how many more there are."""
    told = [str(name) for name in names]
    return ", ".join(told[:most]) + (f" and {len(told) - most} more" if len(told) > most else "")


def as_number(text: str) -> float | None:
    """The number that a text is, or None."""
    try:
        return float(text)
    except ValueError:
        return None


def row_count(X: Any) -> int:
    """How many rows an array, a table or a list has; 0 for what has none."""
    shape = getattr(X, "shape", None)
    if shape is not None:
        return int(shape[0]) if shape else 0
    return len(X) if hasattr(X, "__len__") else 0


def as_column(values: Any, what: str) -> np.ndarray:
    """One value per row; a single value, a set or a generator is no column."""
    column = as_array(values, what)
    if column.ndim != 1:
        raise DataError(f"{what} must hold one value per row; got {shown(values)}")
    return column


def as_names(values: Any, what: str) -> tuple[Any, ...]:
    """Names of columns in a list, an index or an array."""
    if isinstance(values, str):
        raise OptionError(f"{what} must be a list of column names, got one text; write [{shown(values)}].")
    names = values if isinstance(values, (list, tuple)) else list(values) if values is not None and _lists(values) else [None]
    for name in names:
        Column().check(what, name)
    return tuple(names)


def _lists(values: Any) -> bool:
    return isinstance(values, (set, frozenset)) or (hasattr(values, "tolist") and getattr(values, "ndim", 0) == 1)


def as_rows(X: Any) -> np.ndarray:
    """X as an array (rows, features) of numbers; an error says what else it was."""
    X = as_array(X, "X")
    if X.ndim != 2:
        raise DataError(f"X must be a table of rows x features, got shape {X.shape}.")
    if X.dtype.kind not in "biuf":
        raise DataError(f"X must be numbers, got {X.dtype}. Load a table with text columns through load_tasks.")
    if X.shape[0] == 0:
        raise DataError("the table has no rows; at least one row is needed.")
    if X.shape[1] == 0:
        raise DataError("the table has no feature columns; at least one is needed.")
    dtype = np.float32 if X.dtype in (np.float16, np.float32, np.uint8, np.int8, np.bool_) else np.float64
    return np.ascontiguousarray(X, dtype=dtype)


def check_lengths(X: np.ndarray, y: np.ndarray, **columns: Any) -> None:
    """Refuses columns that do not have one value for each row of X."""
    lengths = {
        "y": len(y),
        **{k: len(v if hasattr(v, "factorize") else as_column(v, k)) for k, v in columns.items() if v is not None},
    }
    for name, n in lengths.items():
        if n != X.shape[0]:
            raise DataError(f"{name} has {n} values for {X.shape[0]} rows of X; they must be equally long.")
