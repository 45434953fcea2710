"""Composition bound of Kairouz, Oh, Viswanath 2015/2017, Thm. 3.5 = MP-MTL Def. 7 (eq. 6), for pure releases.

CB({e_t}, delta) = min{ S1,  S2 + sqrt(2 Q log(1/delta)),  S2 + sqrt(2 Q log(e + sqrt(Q)/delta)) } with
S1 = sum e_t,  S2 = sum e_t (exp(e_t) - 1)/(exp(e_t) + 1),  Q = sum e_t^2.  delta = 0 leaves S1.
The three sums add up, so they are the curve.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from taskveil.privacy.accountants.additive import Additive, FloatArray
from taskveil.privacy.events import Event


def composition_bound(epsilons: Sequence[float] | FloatArray, delta: float) -> float:
    """CB({epsilons}, delta) of MP-MTL Def. 7."""
    e = np.asarray(epsilons, dtype=np.float64)
    return read_bound(float(e.sum()), float((e * np.tanh(e / 2)).sum()), float((e * e).sum()), delta)


def read_bound(total: float, drift: float, squares: float, delta: float) -> float:
    """The minimum of the three terms, from their three sums."""
    if delta <= 0 or squares == 0:
        return total
    second = drift + math.sqrt(2 * squares * math.log(1 / delta))
    third = drift + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / delta))
    return min(total, second, third)


class Kairouz(Additive):
    """Curve: (sum of e, sum of e tanh(e/2), sum of e^2)."""

    name = "kairouz"

    def supports(self, event: Event) -> bool:
        return math.isfinite(event.pure_epsilon())

    def curve(self, event: Event) -> FloatArray:
        e = event.pure_epsilon()
        return np.array([e, e * math.tanh(e / 2), e * e])

    def read_epsilon(self, curve: FloatArray, delta: float) -> float:
        return read_bound(float(curve[0]), float(curve[1]), float(curve[2]), delta)
