"""The relationship penalty at one given relationship: what a learned one is compared with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from taskveil.structures.base import Structure

Array = NDArray[np.floating]


class FixedRelationship(Structure):
    """g(W) = (1/2) tr(W Omega^-1 W') for one given positive definite Omega (tasks x tasks)."""

    name = "fixed_relationship"
    column = "task"

    def __init__(self, omega: Array) -> None:
        shares, self.basis = np.linalg.eigh((omega + omega.T) / 2.0)
        self.shares = np.maximum(shares, 1e-14 * shares[-1])  # rounding must not make Omega singular

    def value(self, W: Array) -> float:
        return 0.5 * float(np.sum(np.square(W @ self.basis) / self.shares))

    def prox(self, W: Array, step: float | Array) -> Array:
        return (W @ self.basis) * (self.shares / (self.shares + float(step))) @ self.basis.T

    def conjugate(self, G: Array) -> float:
        return 0.5 * float(np.sum(np.square(G @ self.basis) * self.shares))
