"""Accountants whose curve is an array of numbers that simply add up: pure, kairouz, zcdp, gaussian, rdp."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from taskveil.privacy.accountants.base import Accountant

FloatArray = NDArray[np.float64]


class Additive(Accountant[FloatArray]):
    """Curves are arrays; composition is addition."""

    def times(self, curve: FloatArray, count: int) -> FloatArray:
        return np.asarray(count * curve)

    def plus(self, first: FloatArray, second: FloatArray) -> FloatArray:
        return np.asarray(first + second)
