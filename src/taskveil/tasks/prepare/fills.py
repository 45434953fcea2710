"""Missing cells.

missing="error"          refuse, naming the columns (the default)
missing="impute-bounds"  the middle of the declared range: row by row, for either unit
missing="impute-own"     the median of the task's own rows, never sent; a task with none: the middle, or 0. Unit = task only
missing="drop"           leave such rows out; a task that loses all of them keeps its place. Unit = task only
missing="keep"           leave NaN in place: the caller sets such tasks aside (unusable.py)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.grouping import row_chunks
from taskveil.tasks.prepare.encode import Encoded, left_out
from taskveil.tasks.prepare.facts import Fact

__all__ = ["MISSING", "dropped_rows", "fill_facts", "fill_missing", "gaps", "named"]

MISSING = ("error", "impute-bounds", "impute-own", "drop", "keep")


def fill_facts(missing: str) -> tuple[Fact, ...]:
    """What the certificate must list for this treatment, whether or not a cell was missing."""
    return {"impute-own": (Fact("own-fill"),), "drop": (Fact("dropped"),)}.get(missing, ())


def dropped_rows(kept: np.ndarray) -> str:
    """How many rows missing='drop' left out."""
    return f"{int((~kept).sum())} of {kept.size} rows were left out for an empty cell (missing='drop')"


def gaps(columns: str) -> str:
    """What is said of empty cells where nothing fills them."""
    return (
        f"missing or infinite values in column {columns}. Correct them, or choose missing= (--missing): 'impute-own' (median of "
        "the task's own rows), 'impute-bounds' (middle of the declared range) or 'drop' (leave such rows out; for load_tasks and "
        "on the command line)."
    )


def named(columns: Sequence[str]) -> str:
    """Up to five columns by name."""
    return ", ".join(map(repr, columns[:5])) + " and more" * (len(columns) > 5)


def fill_missing(
    encoded: Encoded, offsets: np.ndarray, missing: str, *, silent: bool = False
) -> tuple[np.ndarray, np.ndarray | None]:
    """X without NaN, and which rows were kept (None: all). Fills in place.

    Where `silent`, what has no middle stays NaN and its task is set aside: a refusal would tell others of one task's cell.
    """
    X, names = encoded.X, encoded.names
    hole = np.zeros(X.shape[1], dtype=bool)
    for r in row_chunks(X.shape[0]):  # where nothing is filled, infinite is as good as missing
        hole |= (~np.isfinite(X[r]) if missing == "error" else np.isnan(X[r])).any(axis=0)
    holes = np.flatnonzero(hole)
    if not holes.size or missing == "keep":
        return X, None
    if missing == "error":
        raise DataError(_refused(X, names, holes))
    if missing == "drop":
        kept = ~np.isnan(X[:, holes]).any(axis=1)
        if not kept.any():
            raise DataError(
                f"every row has a missing value in column {named([names[j] for j in holes])}. Use missing='impute-own'."
            )
        return X[kept], kept
    for j in map(int, holes):
        middle = None if encoded.bounds is None else encoded.bounds.midpoint(names[j])
        if missing == "impute-bounds" and silent and middle is None:
            continue
        if missing == "impute-bounds":
            _fill_middle(X, j, names[j], middle)
        else:
            _fill_own_median(X, j, middle, offsets)
    return X, None


def _refused(X: np.ndarray, names: Sequence[str], holes: np.ndarray) -> str:
    """What is said of columns with holes: one in which there is nothing else cannot be filled, whatever is chosen."""
    empty = [names[j] for j in holes if np.isnan(X[:, j]).all()]
    return f"column {empty[0]!r} is empty; {left_out(empty[0])}." if empty else gaps(named([names[j] for j in holes]))


def _fill_middle(X: np.ndarray, j: int, name: str, middle: float | None) -> None:
    if middle is None:
        raise DataError(
            f"missing='impute-bounds' needs a declared range for column {name!r}; add it to the bounds, or use 'impute-own'."
        )
    X[np.isnan(X[:, j]), j] = middle


def _fill_own_median(X: np.ndarray, j: int, middle: float | None, offsets: np.ndarray) -> None:
    hole = np.isnan(X[:, j])
    for i in np.unique(np.searchsorted(offsets, np.flatnonzero(hole), side="right") - 1):
        rows = slice(offsets[i], offsets[i + 1])
        own = X[rows, j][~hole[rows]]
        X[rows, j][hole[rows]] = np.median(own) if own.size else (middle or 0.0)
