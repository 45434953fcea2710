"""Events of sums with integer noise shares: the distributed discrete Gaussian and the distributed Skellam
mechanism.

Setting      integer vectors of D coordinates, l2 sensitivity D2; h honest sites add independent integer noise
             of variance v each to every coordinate; the observer sees the sum (and may know all other
             shares).

Discrete Gaussian shares: as private as a real Gaussian of variance h v - 5.
  Theta      T_v(t) = sum_j exp(-(j-t)^2/(2v)) lies in sqrt(2 pi v) (1 -+ k(v)), k(v) = 2.01 exp(-2 pi^2 v), v
             >= 1/4 (Poisson summation).
  Sum        convolving N_Z(0, a) with N_Z(0, b) gives, at k, N_Z(0, a+b)(k) times T_{ab/(a+b)} at some point,
             up to normalisation: the pointwise ratio lies within exp(-+ 3 k(ab/(a+b))). So the sum of h
             shares is within exp(-+ sum_{i<h} 3 k(v i/(i+1))) of N_Z(0, h v): the bound of Kairouz, Liu,
             Steinke 2021, Thm. 1 (their tau, constant 10), derived again.
  Rounding   take y ~ N(x, s - w), x an integer, and draw an integer with probability proportional to
             exp(-(k-y)^2/(2w)). The result has mass N(k; x, s) within exp(-+ 3 k(w)), because T_w(y) is
             nearly constant. So N_Z(x, s) is, within that factor, POST-PROCESSING of the real Gaussian
             mechanism of variance s - w; we take w = 5. (Gaussian convolution is known from lattice
             cryptography, Peikert 2010; this use is ours. Tested against brute force in one dimension.)
  Hence      the exact Gaussian curve (Balle & Wang 2018), Gaussian composition, RDP and PLD all apply with
             noise multiplier sqrt(h v - 5)/D2. With v >= 16 all factors together are below 1e-35 for D h <=
             1e9; they are converted to total variation and added to `distance`.

Skellam shares (difference of two Poisson(v/2)): the sum is Skellam of variance m = h v. Renyi divergence at
integer
             orders a (Agarwal, Kairouz, Liu 2021, Cor. 3.6): a D2^2/(2m) + min(((2a-1) D2^2 + 6 D1)/(4 m^2),
             3 D1/(2m)). Other orders by convexity of (a-1) D_a.

distance     total variation between what is sent and this description, per release: table sampling and the
             factors above. Accountants add (1 + e^eps) times it to delta.
failure      an allowance of 2^-40 for the cryptography, whatever the data; added to delta as it is. (Up to version 0.1.0
             it paid for sparse mask graphs that failed by chance; those of today never do.)
Assumed      the masks and the key stream are indistinguishable from random under the usual assumptions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from taskveil.errors import OptionError
from taskveil.privacy.events import Event, FloatArray, GaussianEvent

SMALLEST_SHARE_VARIANCE = 16.0
ROUNDING_VARIANCE = 5.0


@dataclass(frozen=True)
class SharedGaussianEvent(GaussianEvent):
    """Sum of discrete Gaussian shares; the multiplier is that of the real Gaussian that dominates it."""

    kind = "shared-gaussian"
    distance: float = 0.0
    failure_probability: float = 0.0

    def slack(self) -> float:
        return self.distance

    def failure(self) -> float:
        return self.failure_probability


@dataclass(frozen=True)
class SharedSkellamEvent(Event):
    """Sum of Skellam shares of total variance `variance`, in grid steps, as are the sensitivities."""

    kind = "shared-skellam"
    variance: float
    l1_sensitivity: float
    l2_sensitivity: float
    distance: float = 0.0
    failure_probability: float = 0.0

    def __post_init__(self) -> None:
        if not (self.variance > 0 and self.l2_sensitivity > 0 and self.l1_sensitivity > 0):
            raise OptionError("a Skellam event needs positive variance and sensitivities")

    def slack(self) -> float:
        return self.distance

    def failure(self) -> float:
        return self.failure_probability

    def rdp(self, orders: Sequence[float] | FloatArray) -> FloatArray:
        a = np.asarray(orders, dtype=np.float64)
        low, high = np.maximum(np.floor(a), 1.0), np.maximum(np.ceil(a), 2.0)
        t = a - low  # (a - 1) D_a is convex in a, and zero at a = 1
        at_low, at_high = (low - 1) * self._integer(np.maximum(low, 2.0)), (high - 1) * self._integer(high)
        return np.asarray(np.where(t == 0, self._integer(high), ((1 - t) * at_low + t * at_high) / (a - 1)))

    def _integer(self, orders: FloatArray) -> FloatArray:
        return skellam_divergence(orders, self.variance, self.l1_sensitivity, self.l2_sensitivity)


def skellam_divergence(orders: FloatArray, variance: float, l1: float, l2: float) -> FloatArray:
    """Agarwal, Kairouz, Liu 2021, Cor. 3.6, at integer orders above 1."""
    extra = np.minimum(((2 * orders - 1) * l2**2 + 6 * l1) / (4 * variance**2), 3 * l1 / (2 * variance))
    return np.asarray(orders * l2**2 / (2 * variance) + extra)


def theta_error(variance: float) -> float:
    """k(v) of the module docstring."""
    return 2.01 * math.exp(-2 * math.pi**2 * variance)


def gaussian_share_distance(share_variance: float, shares: int, size: int) -> float:
    """Total variation between h discrete Gaussian shares and a rounded real Gaussian, all coordinates."""
    if share_variance < SMALLEST_SHARE_VARIANCE:
        raise OptionError("noise shares are too narrow for this grid; use more grid_bits")
    log_ratio = 3 * (shares * theta_error(share_variance / 2) + theta_error(ROUNDING_VARIANCE))
    return size * math.expm1(2 * log_ratio)
