"""Exact accounting of unsampled Gaussian releases: together they are one Gaussian with 1/z^2 = sum 1/z_t^2.

Dong, Roth, Su 2022, Cor. 3.3, and the exact curve of Balle & Wang 2018, Thm. 8.
"""

from __future__ import annotations

import math

import numpy as np

from taskveil.privacy.accountants.additive import Additive, FloatArray
from taskveil.privacy.events import Event, GaussianEvent
from taskveil.privacy.guarantees import gaussian_delta, gaussian_epsilon


class ExactGaussian(Additive):
    """Curve: mu^2 = 1/z^2."""

    name = "gaussian"

    def supports(self, event: Event) -> bool:
        return isinstance(event, GaussianEvent)

    def curve(self, event: Event) -> FloatArray:
        assert isinstance(event, GaussianEvent)
        return np.array([1 / event.noise_multiplier**2])

    def read_epsilon(self, curve: FloatArray, delta: float) -> float:
        return gaussian_epsilon(delta, math.sqrt(float(curve[0])))

    def read_delta(self, curve: FloatArray, epsilon: float) -> float:
        return gaussian_delta(epsilon, math.sqrt(float(curve[0])))
