"""Budget schedules over rounds: how much of the budget each round gets, and the largest base epsilon.

MP-MTL section 3.5: eps_t = eps_0 t^alpha (convex) or eps_0 Q^-t (strongly convex), eps_0 the largest value
with CB({eps_t}, delta) <= eps, CB the composition bound of Def. 7. alpha = 0 is uniform. Weights are
relative: plans rescale them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import OptionError
from taskveil.privacy.accountants.base import composition_bound
from taskveil.privacy.calibrate import largest_feasible

FloatArray = NDArray[np.float64]


def uniform(rounds: int) -> FloatArray:
    """The same share for every round."""
    return np.ones(_check_rounds(rounds))


def power(rounds: int, alpha: float) -> FloatArray:
    """Shares proportional to t^alpha, t = 1, ..., rounds."""
    return np.arange(1, _check_rounds(rounds) + 1, dtype=np.float64) ** alpha


def geometric(rounds: int, Q: float) -> FloatArray:
    """Shares proportional to Q^-t, t = 1, ..., rounds, the largest being 1 (Q^-t may overflow)."""
    if not Q > 0:
        raise OptionError(f"Q must be positive; got {Q!r}")
    exponents = -np.arange(1, _check_rounds(rounds) + 1) * np.log(Q)
    # A share of 1e-100 is nothing, but not zero.
    return np.asarray(np.exp(np.maximum(exponents - exponents.max(), -230.0)))


def largest_base_epsilon(weights: Sequence[float] | FloatArray, epsilon: float, delta: float) -> float:
    """Largest eps_0 with CB({eps_0 * weight_t}, delta) <= epsilon, rounded toward more noise."""
    w = np.asarray(weights, dtype=np.float64)
    if not (len(w) and np.all(w > 0) and np.all(np.isfinite(w))):
        raise OptionError("schedule weights must be positive and finite, one per round")
    start = epsilon / float(w.sum())  # always feasible: the first of the three terms
    return largest_feasible(lambda e: composition_bound(e * w, delta), epsilon, start, tolerance=1e-13)


def _check_rounds(rounds: int) -> int:
    if int(rounds) != rounds or rounds < 1:
        raise OptionError(f"rounds must be a whole number >= 1; got {rounds!r}")
    return int(rounds)
