"""Conversions between forms of guarantee, each with its theorem.

Gaussian curve   Balle & Wang 2018, arXiv:1805.06530, Thm. 8: exact (epsilon, delta) of Gaussian noise with
                 mu = D/s. Adaptive composition of Gaussians with mu_t is one Gaussian with mu^2 = sum
                 mu_t^2 (Dong, Roth, Su 2022, Cor. 3.3), so the same formula is exact for a whole plan of
                 unsampled Gaussian releases.
Renyi -> DP      Canonne, Kamath, Steinke 2020, arXiv:2004.00010, Prop. 12 (also Balle et al. 2020, Thm. 21).
zCDP -> DP       the same with the curve rho * a, minimised over a > 1.
Selection        Papernot & Steinke 2022, arXiv:2110.03620, Thm. 2 and 6.
Record -> task   MP-MTL Prop. 3 (group privacy of n records).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from taskveil.checks import Number
from taskveil.errors import OptionError

FloatArray = NDArray[np.float64]
LARGEST_DELTA = 0.5


def check_delta(delta: float) -> float:
    """delta as a float in [0, 1)."""
    return float(Number(at_least=0, below=1).check("delta", delta))


def check_new_delta(delta: float) -> float:
    """delta of a run that is about to begin. From one half on the promise is more likely void than kept: that is refused."""
    if not 0 <= float(delta) < LARGEST_DELTA:
        raise OptionError(
            f"delta must be at least 0 and below {LARGEST_DELTA:g}, got {delta!r}: with probability delta nothing is promised. "
            "Use one far below 1 divided by the number of protected units, or leave it out."
        )
    return float(delta)


SMALLEST_DELTA = 1e-300  # below, tails lose their digits before they vanish, and an epsilon read off them would be too small


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Smallest delta at which Gaussian noise with mu = sensitivity/scale is (epsilon, delta)-DP."""
    if mu == 0:
        return 0.0
    first = float(ndtr(mu / 2 - epsilon / mu))
    second = math.exp(min(epsilon + float(log_ndtr(-mu / 2 - epsilon / mu)), 0.0))
    return max(first - second, 0.0)


def gaussian_epsilon(delta: float, mu: float) -> float:
    """Smallest epsilon at which Gaussian noise with mu = sensitivity/scale is private; rounded up."""
    if mu == 0 or gaussian_delta(0.0, mu) <= delta:
        return 0.0
    if delta < SMALLEST_DELTA or not math.isfinite(mu):
        return math.inf
    high = 1.0
    while gaussian_delta(high, mu) > delta:
        high *= 2
    return last_that_holds(lambda e: gaussian_delta(e, mu) <= delta, holds_at=high, fails_at=0.0)


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Largest mu = sensitivity/scale at which Gaussian noise is (epsilon, delta)-DP; rounded down."""
    if delta <= 0:
        raise OptionError("Gaussian noise needs delta > 0; give a positive delta or choose a pure mechanism")
    high = 1.0
    while gaussian_delta(epsilon, high) <= delta:
        high *= 2
    return last_that_holds(lambda m: gaussian_delta(epsilon, m) <= delta, holds_at=0.0, fails_at=high)


def last_that_holds(holds: Callable[[float], bool], holds_at: float, fails_at: float) -> float:
    """The number next to the edge at which `holds` was seen to be true: halved to the last bit, never on the wrong side.

    As exact as a root finder, safe without a correction, and a third of a second less to import than scipy.optimize.
    """
    while (middle := (holds_at + fails_at) / 2) not in (holds_at, fails_at):
        if holds(middle):
            holds_at = middle
        else:
            fails_at = middle
    return holds_at


def rdp_to_epsilon(curve: Sequence[float] | FloatArray, orders: Sequence[float] | FloatArray, delta: float) -> float:
    """Smallest epsilon implied by Renyi divergences `curve` at `orders` (> 1)."""
    a, r = np.asarray(orders, dtype=np.float64), np.asarray(curve, dtype=np.float64)
    if not np.any(r > 0):
        return 0.0
    if delta <= 0:
        return math.inf
    with np.errstate(invalid="ignore"):
        epsilons = r + np.log1p(-1 / a) - (math.log(delta) + np.log(a)) / (a - 1)
    epsilons = epsilons[np.isfinite(epsilons)]
    return max(0.0, float(epsilons.min())) if epsilons.size else math.inf


def rdp_to_delta(curve: FloatArray, orders: FloatArray, epsilon: float) -> float:
    """Smallest delta implied at `epsilon`: the same proposition, read the other way."""
    a, r = np.asarray(orders, dtype=np.float64), np.asarray(curve, dtype=np.float64)
    if not np.any(r > 0):
        return 0.0
    with np.errstate(invalid="ignore"):
        exponents = (a - 1) * (r - epsilon + np.log1p(-1 / a)) - np.log(a)
    exponents = exponents[~np.isnan(exponents)]
    return float(min(1.0, np.exp(min(exponents.min(), 0.0)))) if exponents.size else 1.0


def zcdp_to_epsilon(rho: float, delta: float) -> float:
    """Smallest epsilon implied by rho-zCDP, minimised over all orders."""
    if rho == 0:
        return 0.0
    if delta <= 0 or not math.isfinite(rho):
        return math.inf
    from scipy.optimize import minimize_scalar

    def epsilon(log_order: float) -> float:
        a = 1 + math.exp(log_order)
        return rho * a + math.log1p(-1 / a) - (math.log(delta) + math.log(a)) / (a - 1)

    best = minimize_scalar(epsilon, bounds=(-12.0, 25.0), method="bounded", options={"xatol": 1e-10})
    return max(0.0, float(best.fun))


def select_curve(orders: FloatArray, one_run: FloatArray, mean_runs: float, shape: float) -> FloatArray:
    """Renyi curve of "repeat a random number of times, publish the best" (Papernot & Steinke 2022)."""
    with np.errstate(invalid="ignore"):
        overhead = math.log(mean_runs) / (orders - 1)
        if math.isinf(shape):  # Thm. 6, Poisson
            deltas = [rdp_to_delta(one_run, orders, math.log1p(1 / (a - 1))) for a in orders]
            return np.asarray(one_run + mean_runs * np.array(deltas) + overhead)
        gamma = negative_binomial_gamma(mean_runs, shape)
        constant = (1 + shape) * np.min((1 - 1 / orders) * one_run - math.log(gamma) / orders)  # Thm. 2
        curve = one_run + overhead + constant
    # The divergence grows with the order, so a bound at a higher order also holds at a lower one.
    return np.asarray(np.minimum.accumulate(curve[::-1])[::-1])


def negative_binomial_gamma(mean: float, shape: float) -> float:
    """gamma of the truncated negative binomial with this mean (Papernot & Steinke, Def. 1); rounded down."""
    if mean == 1:
        return 1.0
    if shape == 1:
        return 1 / mean

    def excess(gamma: float) -> float:
        if shape == 0:
            return (1 / gamma - 1) / -math.log(gamma) - mean
        return shape * (1 / gamma - 1) / -math.expm1(shape * math.log(gamma)) - mean

    low = 0.5
    while excess(low) < 0:
        low /= 2
    high = 1 - 1e-15
    if excess(high) >= 0:
        return high
    from scipy.optimize import brentq

    return float(brentq(excess, low, high, xtol=1e-15)) * (1 - 1e-12)
