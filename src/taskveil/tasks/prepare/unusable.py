"""Values no computer can calculate with: missing, infinite, or so large that their square overflows; labels nobody declared.

In a private run for unit = task a refusal would tell everybody about one task's rows (docs/theory/index.md#local-work). So
such a task is set aside: it keeps its place with no rows, sends the zero message, gets the shared or a constant model, and only
its owner reads why. Everywhere else, and where there is no other task to tell, it is an ordinary error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.files import MISSING_MARKS
from taskveil.tasks.grouping import row_chunks

if TYPE_CHECKING:
    from taskveil.tasks.task import TaskSet


HUGE = 1e150
"""Largest magnitude taken: its square still fits a float64."""
UNUSABLE = ("error", "set-aside", "set-aside-all")  # all: there are tasks elsewhere, even where every one here is set aside
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
    wrong = np.zeros(tasks.n_tasks, dtype=bool)
    wrong[tasks.task_of_row()[bad]] = True
    if unusable == "error" or wrong[tasks.sizes > 0].all():
        raise DataError("loss 'poisson' counts events, so the target must not be negative. Use 'squared' or 'huber' for numbers.")
    aside = tuple(name for name, out in zip(tasks.task_names, wrong, strict=True) if out)
    return replace(tasks.select(~wrong[tasks.task_of_row()]), set_aside=(*tasks.set_aside, *aside))
