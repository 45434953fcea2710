"""Hinge loss, l(s, y) = max(0, 1 - y s) for labels y in {-1, +1} (Cortes & Vapnik 1995)."""

from __future__ import annotations

import numpy as np

from taskveil.losses.base import Array, Loss


class Hinge(Loss):
    """The support vector machine's loss: Lipschitz with constant 1, with a kink at y s = 1."""

    name = "hinge"
    targets = "labels"
    smoothness = float("inf")

    def value(self, scores: Array, y: Array) -> Array:
        return np.maximum(1.0 - y * scores, 0.0)

    def derivative(self, scores: Array, y: Array) -> Array:
        """-y below the margin, 0 above it; at the kink the subgradient 0."""
        return np.where(y * scores < 1.0, -y, 0.0)
