"""Logistic loss, l(s, y) = log(1 + exp(-y s)) for labels y in {-1, +1}.

Written with exp of non-positive numbers only, so that no score overflows.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit, xlogy

from taskveil.losses.base import Array, Loss


class Logistic(Loss):
    """Negative log-likelihood of a Bernoulli label; smooth with constant 1/4, Lipschitz with constant 1."""

    name = "logistic"
    smoothness = 0.25
    lipschitz = 1.0
    kernel = 1

    def value(self, scores: Array, y: Array) -> Array:
        margin = y * scores
        return np.maximum(-margin, 0.0) + np.log1p(np.exp(-np.abs(margin)))

    def derivative(self, scores: Array, y: Array) -> Array:
        return -y * expit(-y * scores)

    def second_derivative(self, scores: Array, y: Array) -> Array:
        return expit(scores) * expit(-scores) * np.square(y)

    def conjugate(self, slopes: Array, y: Array) -> Array:
        """With p = -y u in [0, 1]: p log p + (1 - p) log(1 - p); inf outside."""
        p = -y * slopes
        inside = np.clip(p, 0.0, 1.0)
        entropy = xlogy(inside, inside) + xlogy(1.0 - inside, 1.0 - inside)
        return np.where((p >= 0.0) & (p <= 1.0), entropy, np.inf)
