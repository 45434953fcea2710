"""Rows of stacked tasks, centred and weighed: what every ridge problem of a task starts from.

Tasks come in stacks of similar size (solvers/padding.py): there is no loop over tasks, and only one stack is in memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskveil.solvers.padding import Stack
from taskveil.solvers.per_task import per_task

Array = NDArray[np.floating]
LIMIT = 100_000  # numbers of X in one stack; a dozen arrays of this size live at a time, and should in the cache
ROUNDING = 1e-12  # what is left of equal targets after centring, relative to them, is not a signal


@dataclass(frozen=True)
class CentredRows:
    """Rows of a stack, centred (where there is an intercept) and multiplied by the root of their weight."""

    X: Array  # (k, n, d)
    y: Array  # (k, n)
    free: Array  # (k,) degrees of freedom: weights of the rows that count, less one for the intercept, at least 0

    @property
    def scale(self) -> Array:
        """(k,) standard deviation of the task's own target; 1 where there is none."""
        spread = np.sqrt(per_task("kn,kn->k", self.y, self.y) / np.maximum(self.free, 1.0))
        return np.where(spread > 0.0, spread, 1.0)


def centred_rows(stack: Stack, y: Array, weights: Array, fit_intercept: bool = True) -> CentredRows:
    """`y` (k, n) and row weights (k, n); rows of weight 0 vanish, and so does a task with a value that is
    not finite.
    """
    counted = weights > 0.0
    finite = np.isfinite(stack.X)
    row = np.isfinite(y) if finite.all() else finite.all(axis=2) & np.isfinite(y)  # along short rows a reduction is slow
    usable = np.asarray((row | ~counted).all(axis=1))
    w = np.where(usable[:, None], weights, 0.0)
    X, t = stack.X, y
    if not usable.all():
        X = np.where((usable[:, None] & counted)[:, :, None], X, 0.0)
        t = np.where(usable[:, None] & counted, t, 0.0)
    root = np.sqrt(w)
    if fit_intercept:
        total = w.sum(axis=1)
        share = np.divide(w, total[:, None], out=np.zeros_like(w), where=total[:, None] > 0.0)
        X = X - per_task("kn,knd->kd", share, X)[:, None, :]
        size = np.abs(np.where(counted, t, 0.0)).max(axis=1, initial=0.0)[:, None]
        t = np.where(counted, t - per_task("kn,kn->k", share, t)[:, None], 0.0)
        t = np.where(np.abs(t).max(axis=1, initial=0.0, keepdims=True) <= ROUNDING * size, 0.0, t)
    free = np.maximum(np.where(counted & usable[:, None], stack.weights, 0.0).sum(axis=1) - float(fit_intercept), 0.0)
    weighted = X if (root == 1.0).all() else X * root[:, :, None]
    return CentredRows(weighted, np.where(counted, t, 0.0) * root, free)
