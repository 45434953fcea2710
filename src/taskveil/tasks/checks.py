"""Arrays on the way in: shapes, types, finite values. Errors name columns and rules, never values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.grouping import row_chunks

__all__ = ["KINDS", "as_rows", "as_target", "check_lengths", "check_values", "infer_kind"]

KINDS = ("regression", "classification")
HUGE = 1e150
"""Largest magnitude taken: its square still fits a float64."""
MANY_VALUES = 20
"""A numeric target with more distinct values than this is a regression target."""


def infer_kind(y: np.ndarray) -> str:
    """Text, booleans and integers with few distinct values are labels.

    Everything else is a number to predict.
    """
    if y.dtype.kind in "bUSO":
        return "classification"
    distinct = np.unique(y[:: max(1, y.size // 100_000)]).size
    if y.dtype.kind in "iu":
        return "classification" if distinct <= MANY_VALUES else "regression"
    whole = bool((y == np.round(y)).all())
    return "classification" if whole and distinct <= MANY_VALUES else "regression"


def as_rows(X: Any) -> np.ndarray:
    X = np.asarray(X)
    if X.ndim != 2:
        raise DataError(f"X must be a table of rows x features, got shape {X.shape}.")
    if X.dtype.kind not in "biuf":
        raise DataError(
            f"X must be numbers, got {X.dtype}. Load a table with text columns through load_tasks."
        )
    if X.shape[0] == 0:
        raise DataError("the table has no rows; at least one row is needed.")
    if X.shape[1] == 0:
        raise DataError("the table has no feature columns; at least one is needed.")
    dtype = np.float32 if X.dtype in (np.float16, np.float32, np.uint8, np.int8, np.bool_) else np.float64
    return np.ascontiguousarray(X, dtype=dtype)


def as_target(y: Any, kind: str | None) -> np.ndarray:
    y = np.asarray(y)
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise DataError(
            f"y must be one target per row, got shape {y.shape}. For several targets see targets=[...]."
        )
    if kind is not None and kind not in KINDS:
        raise DataError(f"kind must be one of {', '.join(KINDS)}; got {kind!r}.")
    if kind == "regression" or (kind is None and y.dtype.kind == "f" and infer_kind(y) == "regression"):
        try:
            return y.astype(np.float64, copy=False)
        except (TypeError, ValueError):
            raise DataError(
                "a regression target must be numbers, got text. Use kind='classification' for labels."
            ) from None
    if y.dtype.kind == "O":
        return _as_labels(y)
    if y.dtype.kind == "f" and np.isfinite(y).all() and bool((y == np.round(y)).all()):
        return y.astype(np.int64)
    if y.dtype.kind in "iu" and (kind or infer_kind(y)) == "regression":
        return y.astype(np.float64)
    return y


def _as_labels(y: np.ndarray) -> np.ndarray:
    """Labels in an object array: all text, or all numbers; a missing label is an error."""
    if any(v is None or (isinstance(v, float) and np.isnan(v)) for v in y):
        raise DataError("the target has missing labels; every row needs one. Drop those rows first.")
    return np.asarray([str(v) for v in y] if any(isinstance(v, str) for v in y) else y.tolist())


def check_lengths(X: np.ndarray, y: np.ndarray, **columns: Any) -> None:
    lengths = {"y": len(y), **{k: len(v) for k, v in columns.items() if v is not None}}
    for name, n in lengths.items():
        if n != X.shape[0]:
            raise DataError(f"{name} has {n} values for {X.shape[0]} rows of X; they must be equally long.")


def check_values(X: np.ndarray, y: np.ndarray, names: Sequence[str] | None) -> None:
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
