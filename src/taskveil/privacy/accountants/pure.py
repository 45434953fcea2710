"""Basic composition: the epsilons of pure releases add up, with delta = 0 (Dwork & Roth 2014, Thm. 3.14)."""

from __future__ import annotations

import math

import numpy as np

from taskveil.privacy.accountants.additive import Additive, FloatArray
from taskveil.privacy.events import Event


class PureSum(Additive):
    """Curve: epsilon."""

    name = "pure"

    def supports(self, event: Event) -> bool:
        return math.isfinite(event.pure_epsilon())

    def curve(self, event: Event) -> FloatArray:
        return np.array([event.pure_epsilon()])

    def read_epsilon(self, curve: FloatArray, delta: float) -> float:
        return float(curve[0])
