"""Arrays on the way in: shapes, types, finite values. Errors name columns and rules, never values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.grouping import row_chunks
from taskveil.tasks.prepare.unusable import HUGE

__all__ = ["as_rows", "check_lengths", "check_values"]


def as_rows(X: Any) -> np.ndarray:
    """X as an array (rows, features) of numbers; an error says what else it was."""
    X = np.asarray(X)
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
    lengths = {"y": len(y), **{k: len(v) for k, v in columns.items() if v is not None}}
    for name, n in lengths.items():
        if n != X.shape[0]:
            raise DataError(f"{name} has {n} values for {X.shape[0]} rows of X; they must be equally long.")


def check_values(X: np.ndarray, y: np.ndarray, names: Sequence[str] | None) -> None:
    """Refuses missing, infinite and huge values, and names their columns."""
    bad = np.zeros(X.shape[1], dtype=bool)
    huge = np.zeros(X.shape[1], dtype=bool)
    for rows in row_chunks(X.shape[0]):
        largest = np.abs(X[rows]).max(axis=0)
        bad |= ~np.isfinite(largest)
        huge |= largest.astype(np.float64) > HUGE
    for flag, what in ((bad, "missing or infinite values"), (huge, f"values beyond {HUGE:g} in magnitude")):
        if flag.any():
            columns = ", ".join(repr(str(names[j]) if names else f"x{j}") for j in np.flatnonzero(flag)[:5])
            more = f" and {flag.sum() - 5} more" if flag.sum() > 5 else ""
            raise DataError(
                f"{what} in column {columns}{more}; every cell must be a finite number. Clean them, or let "
                f"taskveil.load_tasks fill missing cells (missing=...)"
            )
    if y.dtype.kind == "f" and not (np.isfinite(y).all() and (np.abs(y) <= HUGE).all()):
        raise DataError("the target has missing, infinite or huge values; every row needs a finite target.")
