"""Missing cells, and values no computer can calculate with: infinite, or so large that their square overflows; unknown labels.

missing="error"          refuse, naming the columns (the default)
missing="impute-bounds"  the middle of the declared range: row by row, for either unit
missing="impute-own"     the median of the task's own rows, never sent; a task with none: the middle, or 0. Unit = task only
missing="drop"           leave such rows out; a task that loses all of them keeps its place. Unit = task only
missing="keep"           leave NaN in place: the task is set aside

In a private run for unit = task a refusal would tell everybody about one task's rows (docs/theory/index.md#local-work). So
such a task is set aside: it keeps its place with no rows, sends the zero message, gets the shared or a constant model, and only
its owner reads why. Everywhere else, and where there is no other task to tell, it is an ordinary error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.arguments import some
from taskveil.tasks.files import MISSING_MARKS
from taskveil.tasks.grouping import row_chunks
from taskveil.tasks.prepare.facts import Fact, left_out
from taskveil.threads import each

if TYPE_CHECKING:
    from taskveil.tasks.prepare.encode import Encoded
    from taskveil.tasks.task import TaskSet


HUGE = 1e150
"""Largest magnitude taken: its square still fits a float64."""
SET_ASIDE = (
    "it holds missing, infinite or huge values, labels outside the declared ones, negative counts or times, exposures that are "
    "not above zero, or no label at all, and was set aside: it sends nothing and gets the shared or a constant model. Correct "
    "its rows, or fill missing cells with missing= (--missing)"
)
IMPOSSIBLE = {
    "survival": "every row needs a time that is a finite number and not negative, and an event that is 0 or 1 (true or false): 1 "
    "where it was seen."
}
NO_TARGET = "{rows} of its rows have no target and were left out"


def is_missing(value: Any) -> bool:
    """Whether a cell is empty, whatever stands for that."""
    if isinstance(value, str):
        return value.strip() in MISSING_MARKS
    if isinstance(value, (float, np.floating)):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")  # of pandas, which need not be imported for it


def missing_targets(y: np.ndarray) -> np.ndarray:
    """Which rows (N,) of a target have none; of several columns (event and time), not all of them."""
    if y.dtype.names is not None:
        return np.logical_or.reduce([missing_targets(y[name]) for name in y.dtype.names])
    if y.dtype.kind == "f":
        missing = np.isnan(y)
    elif y.dtype.kind in "OUS":
        missing = np.asarray([is_missing(v) for v in y.ravel().tolist()], dtype=bool).reshape(y.shape)
    else:
        missing = np.zeros(y.shape, dtype=bool)
    return missing if missing.ndim == 1 else missing.any(axis=1)


def check_values(X: np.ndarray, y: np.ndarray, names: Sequence[str] | None, kind: str = "") -> None:
    """Refuses missing, infinite and huge values, and names their columns."""
    bad = np.zeros(X.shape[1], dtype=bool)
    huge = np.zeros(X.shape[1], dtype=bool)
    for largest in each(lambda rows: np.abs(X[rows]).max(axis=0), row_chunks(X.shape[0])):
        bad |= ~np.isfinite(largest)
        huge |= largest.astype(np.float64) > HUGE
    for flag, what in ((bad, "missing or infinite values"), (huge, f"values beyond {HUGE:g} in magnitude")):
        if flag.any():
            columns = some(repr(str(names[int(j)]) if names else f"x{j}") for j in np.flatnonzero(flag))
            raise DataError(
                f"{what} in column {columns}; every cell must be a finite number. Clean them, or let "
                f"missing= (--missing) fill empty cells"
            )
    if y.dtype.kind == "f" and not (np.isfinite(y).all() and (np.abs(y) <= HUGE).all()):
        raise DataError(IMPOSSIBLE.get(kind, "the target has missing, infinite or huge values; every row needs a finite target."))


def rows_to_keep(
    X: np.ndarray, y: np.ndarray, codes: np.ndarray, n_tasks: int, lost: np.ndarray, *, others: bool = False
) -> np.ndarray | None:
    """Which rows (N,) belong to tasks that can be used; None where nothing is, or must not be, set aside.

    `lost` says which rows have no label that can be used, `others` that there are tasks elsewhere.
    """
    bad = np.zeros(n_tasks, dtype=bool)
    bad[codes[lost]] = True
    for rows in row_chunks(X.shape[0]):
        good = np.abs(X[rows]).max(axis=1).astype(np.float64) <= HUGE  # in single precision HUGE is infinity, and no limit
        if y.dtype.kind == "f":
            good &= np.abs(y[rows]).astype(np.float64) <= HUGE
        bad[codes[rows][~good]] = True
    if not bad.any() or (bad[np.unique(codes)].all() and not others):
        return None
    return ~bad[codes]


def usable_exposure(columns: Mapping[str, Any], name: str, lost: np.ndarray, silent: bool) -> tuple[dict[str, Any], np.ndarray]:
    """The carried columns with exposures as numbers above zero, and `lost` (N,) with the rows that have none; or an error."""
    if columns.get(name) is None:
        return {k: v for k, v in columns.items() if k != name}, lost
    exposure, good = exposures(columns[name], silent)
    return {**columns, name: np.where(good, exposure, 1.0)}, lost | ~good


def exposures(values: Any, silent: bool) -> tuple[np.ndarray, np.ndarray]:
    """Exposures as numbers, and which of them (N,) are above zero; an error, but where `silent`, if some are not."""
    try:
        exposure = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise DataError("the exposure must be numbers above zero, got text.") from None
    with np.errstate(invalid="ignore"):
        good = (exposure > 0.0) & (exposure <= HUGE)
    if not silent and not good.all():
        raise DataError("the exposure has missing, zero, negative or huge values; every row needs a number above zero.")
    return exposure, good


def usable_counts(tasks: TaskSet, unusable: str) -> TaskSet:
    """Counts are not negative; a task where one is, is set aside or an error."""
    bad = tasks.y < 0.0
    if not bad.any():
        return tasks
    usable = tasks.without_tasks_of(bad)
    if unusable == "error" or not usable.n_rows:
        raise DataError("loss 'poisson' counts events, so the target must not be negative. Use 'squared' or 'huber' for numbers.")
    return usable


def fill_facts(missing: str) -> tuple[Fact, ...]:
    """What the certificate must list for this treatment, whether or not a cell was missing."""
    return {"impute-own": (Fact("own-fill"),), "drop": (Fact("dropped"),)}.get(missing, ())


def dropped_rows(kept: np.ndarray) -> str:
    """How many rows missing='drop' left out."""
    return f"{int((~kept).sum())} of {kept.size} rows were left out for an empty cell (missing='drop')"


def gaps(columns: Sequence[str]) -> str:
    """What is said of empty cells where nothing fills them."""
    return (
        f"missing or infinite values in column {some(map(repr, columns))}. Correct them, or choose missing= (--missing): "
        "'impute-own' (median of the task's own rows), 'impute-bounds' (middle of the declared range) or 'drop' (leave such rows "
        "out; for load_tasks and on the command line)."
    )


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
    columns = [names[j] for j in holes]
    if missing == "error":
        raise DataError(_refused(X, columns, holes))
    if missing == "drop":
        kept = ~np.isnan(X[:, holes]).any(axis=1)
        if not kept.any():
            raise DataError(f"every row has a missing value in column {some(map(repr, columns))}. Use missing='impute-own'.")
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


def _refused(X: np.ndarray, columns: Sequence[str], holes: np.ndarray) -> str:
    """What is said of columns with holes: one in which there is nothing else cannot be filled, whatever is chosen."""
    empty = [name for name, j in zip(columns, holes, strict=True) if np.isnan(X[:, j]).all()]
    return f"column {empty[0]!r} is empty; {left_out(empty[0])}." if empty else gaps(columns)


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
