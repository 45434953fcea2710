"""Survival targets: a time and whether the event was seen, as one signed number per row: negative where it was not (censored).

One number travels wherever a target does, and is prepared row by row. A time of zero counts as FIRST, so that it keeps its sign;
with a declared horizon [0, h] who is followed longer was seen up to h.
"""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.arguments import as_array
from taskveil.tasks.prepare.unusable import HUGE, missing_targets
from taskveil.tasks.public_bounds import PublicBounds

FIRST = 1e-9
EVENT_AND_TIME = "a survival target is (event, time): a structured array as in scikit-survival, or two columns, the event first"


def signed_times(event: Any, time: Any, silent: bool = False) -> np.ndarray:
    """One signed time per row (N,); NaN where event or time is missing.

    What cannot be used is an error, or infinite where `silent`: its task is then set aside.
    """
    happened = _numbers(event, "the event must be 0 or 1", "write 1 where it was seen and 0 where it was not")
    t = _numbers(time, "the time must be a number", "turn it into one: days = (end - start).dt.total_seconds() / 86400")
    if happened.shape != t.shape or t.ndim != 1:
        raise DataError(f"one event and one time per row are needed, got shapes {happened.shape} and {t.shape}.")
    with np.errstate(invalid="ignore"):
        missing = np.isnan(happened) | np.isnan(t)
        marked, usable = np.isin(happened, (0.0, 1.0)) | missing, (t >= 0.0) & (t <= HUGE) | missing
    swapped = not marked.all() and bool((np.isin(t, (0.0, 1.0)) | missing).all())
    if swapped or not silent:
        if not marked.all():
            raise DataError(f"the event must be 0 or 1 (or true and false) in every row: 1 where it was seen; {EVENT_AND_TIME}.")
        if not usable.all():
            raise DataError("times must be finite numbers that are not negative, in every row.")
    t = np.maximum(t, FIRST)
    signed = np.where(missing, np.nan, np.where(happened == 1.0, t, -t))
    return np.where(marked & usable, signed, np.inf)


def _numbers(values: Any, wanted: str, remedy: str) -> np.ndarray:
    """A column as numbers, NaN where a cell is empty, whatever stands for that."""
    column = np.asarray(values)
    if column.dtype.kind == "O":
        column = np.where(missing_targets(column), np.nan, column)
    if column.dtype.kind in "mM" or (column.dtype.kind == "O" and any(isinstance(v, date | timedelta) for v in column.flat)):
        raise DataError(f"{wanted}, got dates or durations; {remedy}. In Python, {EVENT_AND_TIME}.")
    try:
        return column.astype(np.float64)
    except (TypeError, ValueError):
        raise DataError(f"{wanted}, got text; {remedy}. In Python, {EVENT_AND_TIME}.") from None


def survival_target(y: Any, silent: bool = False) -> np.ndarray:
    """Signed times from what a caller passes: a structured array, two columns, or signed times."""
    if hasattr(y, "columns") and len(y.columns) == 2:
        return signed_times(y.iloc[:, 0], y.iloc[:, 1], silent)
    y = as_array(y, "y")
    if y.dtype.names is not None:
        if len(y.dtype.names) != 2:
            raise DataError(f"the structured target has {len(y.dtype.names)} fields; {EVENT_AND_TIME}.")
        event, time = (y[name] for name in y.dtype.names)
        return signed_times(event, time, silent)
    if y.ndim == 2 and y.shape[1] == 2:
        return signed_times(y[:, 0], y[:, 1], silent)
    if y.ndim != 1 or y.dtype.kind != "f":
        raise DataError(f"the target has shape {y.shape}; {EVENT_AND_TIME}.")
    return y


def within_horizon(y: np.ndarray, bounds: PublicBounds | None) -> np.ndarray:
    """Signed times up to the declared horizon; who is followed longer is censored there."""
    if bounds is None or bounds.target is None:
        return y
    horizon = bounds.target[1]
    return np.where(np.isfinite(y) & (np.abs(y) > horizon), -horizon, y)
