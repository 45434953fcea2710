"""Squared Frobenius norm |W|_F^2, without a factor 1/2 as in MP-MTL Remark 4: ridge for every task alone."""

from __future__ import annotations

import numpy as np

from taskveil.structures.base import Array, Structure


class SquaredFrobenius(Structure):
    """g(W) = |W|_F^2."""

    name = "squared_frobenius"

    def value(self, W: Array) -> float:
        return float(np.square(W).sum())

    def prox(self, W: Array, step: float | Array) -> Array:
        return W / (1.0 + 2.0 * np.asarray(step))
