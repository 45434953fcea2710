"""zCDP: rho adds up (Bun & Steinke 2016, Lemma 1.7); read off by the optimal Renyi conversion."""

from __future__ import annotations

import math

import numpy as np

from taskveil.privacy.accountants.additive import Additive, FloatArray
from taskveil.privacy.events import Event
from taskveil.privacy.guarantees import zcdp_to_epsilon


class Zcdp(Additive):
    """Curve: rho."""

    name = "zcdp"

    def supports(self, event: Event) -> bool:
        return math.isfinite(event.zcdp())

    def curve(self, event: Event) -> FloatArray:
        return np.array([event.zcdp()])

    def read_epsilon(self, curve: FloatArray, delta: float) -> float:
        return zcdp_to_epsilon(float(curve[0]), delta)
