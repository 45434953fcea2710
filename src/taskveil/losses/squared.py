"""Squared loss, l(s, y) = (s - y)^2 / 2."""

from __future__ import annotations

import numpy as np

from taskveil.losses.base import Array, Loss


class Squared(Loss):
    """Half the squared error; smooth with constant 1, not Lipschitz on unbounded scores."""

    name = "squared"
    smoothness = 1.0
    kernel = 0
    quadratic = True

    def value(self, scores: Array, y: Array) -> Array:
        return 0.5 * np.square(scores - y)

    def derivative(self, scores: Array, y: Array) -> Array:
        return scores - y

    def second_derivative(self, scores: Array, y: Array) -> Array:
        return np.ones(np.broadcast_shapes(np.shape(scores), np.shape(y)))
