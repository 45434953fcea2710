"""Values no computer can calculate with: missing, infinite, or so large that their square overflows; labels nobody declared.

In a private run for unit = task a refusal would tell everybody about one task's rows (docs/theory/index.md#local-work). So
such a task is set aside: it keeps its place with no rows, sends the zero message, gets the shared or a constant model, and only
its owner reads why. Everywhere else, and where there is no other task to tell, it is an ordinary error.
"""

from __future__ import annotations

import numpy as np

from taskveil.tasks.grouping import row_chunks

__all__ = ["HUGE", "SET_ASIDE", "UNUSABLE", "rows_to_keep"]

HUGE = 1e150
"""Largest magnitude taken: its square still fits a float64."""
UNUSABLE = ("error", "set-aside")
SET_ASIDE = (
    "it holds missing, infinite or huge values, or labels outside the declared ones, and was set aside: it sends nothing and "
    "gets the shared or a constant model. Correct them, or fill missing cells with missing= (--missing)"
)


def rows_to_keep(X: np.ndarray, y: np.ndarray, codes: np.ndarray, n_tasks: int, lost: np.ndarray) -> np.ndarray | None:
    """Which rows (N,) belong to tasks that can be used; None where nothing is, or must not be, set aside.

    `lost` says which rows have no label that can be used.
    """
    bad = np.zeros(n_tasks, dtype=bool)
    bad[codes[lost]] = True
    for rows in row_chunks(X.shape[0]):
        good = np.abs(X[rows]).max(axis=1).astype(np.float64) <= HUGE  # in single precision HUGE is infinity, and no limit
        if y.dtype.kind == "f":
            good &= np.abs(y[rows]).astype(np.float64) <= HUGE
        bad[codes[rows][~good]] = True
    if not bad.any() or bad[np.unique(codes)].all():
        return None
    return ~bad[codes]
