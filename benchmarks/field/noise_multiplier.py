"""The noise multiplier of DP-SGD as the peers compute it: Renyi composition of Poisson-sampled Gaussian steps, add-remove.

dp-accounting has the same numbers, but takes seconds for one; a silo-wise table needs thousands. Whole orders by the closed form of
Mironov, Talwar, Zhang 2019; between them (a - 1) times the divergence is convex in a, so a straight line bounds it from above.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import gammaln, logsumexp

WHOLE = np.arange(2, 65)
ORDERS = np.concatenate([np.arange(1.05, 8.0, 0.05), np.arange(8, 65)])
DRAWN = np.arange(65)
LEFT = np.maximum(WHOLE[:, None] - DRAWN, 0)
CHOOSE = np.where(DRAWN <= WHOLE[:, None], gammaln(WHOLE + 1)[:, None] - gammaln(DRAWN + 1) - gammaln(LEFT + 1), -np.inf)


@cache
def epsilon_of(multiplier: float, rate: float, steps: int, delta: float) -> float:
    """Epsilon at delta of so many steps, each with every row drawn at this rate."""
    gaussian = DRAWN * (DRAWN - 1) / (2 * multiplier**2)
    if rate < 1.0:
        moments = logsumexp(CHOOSE + DRAWN * np.log(rate) + LEFT * np.log1p(-rate) + gaussian, axis=1)
    else:
        moments = gaussian[WHOLE]
    between = np.interp(ORDERS, [1, *WHOLE], [0.0, *moments])  # (a - 1) times the divergence of one step
    found = steps * between / (ORDERS - 1) + np.log1p(-1 / ORDERS) - np.log(delta * ORDERS) / (ORDERS - 1)
    return float(max(0.0, found.min()))


@cache
def noise_multiplier(epsilon: float, delta: float, rate: float, steps: int) -> float:
    """The smallest, to one part in two hundred, rounded up."""
    low, high = np.log(0.05), np.log(1e4)
    while high - low > 0.005:
        middle = (low + high) / 2
        low, high = (low, middle) if epsilon_of(float(np.exp(middle)), rate, steps, delta) <= epsilon else (middle, high)
    return float(np.exp(high))
