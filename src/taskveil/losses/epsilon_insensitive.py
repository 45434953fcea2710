"""Epsilon-insensitive loss, l(s, y) = max(0, |s - y| - e): errors up to e cost nothing (Vapnik 1995)."""

from __future__ import annotations

import numpy as np

from taskveil.losses.base import Array, Loss


class EpsilonInsensitive(Loss):
    """The loss of support vector regression: Lipschitz with constant 1, kinks at s = y - e and s = y + e.

    insensitivity   e, the width of the band in which errors are free (0: absolute error)
    """

    name = "epsilon-insensitive"
    smoothness = float("inf")

    def __init__(self, insensitivity: float = 0.1) -> None:
        self.insensitivity = float(insensitivity)

    def value(self, scores: Array, y: Array) -> Array:
        return np.maximum(np.abs(scores - y) - self.insensitivity, 0.0)

    def derivative(self, scores: Array, y: Array) -> Array:
        """The sign of the error outside the band, 0 inside and at its edges."""
        error = scores - y
        return np.where(np.abs(error) > self.insensitivity, np.sign(error), 0.0)
