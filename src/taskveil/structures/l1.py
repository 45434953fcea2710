"""l1 norm of all entries: entry-wise outliers (Q in MP-MTL Alg. 4), or the lasso for every task alone."""

from __future__ import annotations

import numpy as np

from taskveil.structures.base import Array, Structure


class L1(Structure):
    """g(W) = sum_ij |W_ij|; the dual norm is the largest absolute entry."""

    name = "l1"

    def value(self, W: Array) -> float:
        return float(np.abs(W).sum())

    def prox(self, W: Array, step: float | Array) -> Array:
        return W - np.clip(W, -np.asarray(step), np.asarray(step))
