"""Mean regularisation, (1/2) sum_i |w_i - wbar|^2 with wbar the mean model: all tasks are variations of one.

Evgeniou & Pontil 2004 (regularised multi-task learning), with the mean taken over the tasks at hand.
"""

from __future__ import annotations

import numpy as np

from taskveil.structures.base import Array, Structure


class Mean(Structure):
    """g(W) = (1/2) sum_i |w_i - wbar|^2; zero exactly when all columns agree."""

    name = "mean"
    column = "task"

    def value(self, W: Array) -> float:
        return float(0.5 * np.square(W - W.mean(axis=1, keepdims=True)).sum())

    def prox(self, W: Array, step: float | Array) -> Array:
        """The mean stays; deviations from it shrink by 1/(1 + step)."""
        centre = W.mean(axis=1, keepdims=True)
        return centre + (W - centre) / (1.0 + float(step))

    def conjugate(self, G: Array) -> float:
        """|G|_F^2 / 2 where the columns of G sum to zero, else inf (moving all columns together is free)."""
        drift = np.abs(G.sum(axis=1)).max(initial=0.0)
        if drift > 1e-9 * max(1.0, float(np.abs(G).sum())):
            return float("inf")
        return float(0.5 * np.square(G).sum())
