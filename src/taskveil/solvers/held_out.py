"""Results of k-fold cross-validation on every task's own rows, and two rules to choose by.

The result belongs to the task: it may steer what the task keeps for itself, and nothing else
(docs/theory/index.md#local-work).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from taskveil.solvers.padding import normalised
from taskveil.solvers.per_task import per_task

Array = NDArray[np.floating]


@dataclass(frozen=True)
class CrossValidation:
    """Held-out mean loss per grid entry and task (g, m), and its standard error over the task's rows."""

    mean: Array
    standard_error: Array

    def best(self) -> NDArray[np.int64]:
        """(m,) the entry of least mean loss; the first, hence the strongest penalty, among equals."""
        return np.argmin(self.mean, axis=0)


def mean_and_error(held: Array, weights: Array) -> tuple[Array, Array]:
    """Means of `held` (g, k, n) over rows that count by `weights` (k, n), and standard errors, (g, k)."""
    share = normalised(weights)
    count = (weights > 0.0).sum(axis=1)
    mean = per_task("kn,kgn->kg", share, held.swapaxes(0, 1)).T
    spread = per_task("kn,kgn->kg", share, np.square(held - mean[:, :, None]).swapaxes(0, 1)).T
    return mean, np.sqrt(spread / np.maximum(count - 1, 1))
