"""The pieces of MP-MTL's utility theorems: exponents, optimal allocations, Assumption 1, Prop. 3.

Each function names its equation in the journal version (supplement included).
"""

from __future__ import annotations

import math
from collections.abc import Callable

from taskveil.calculators.base import positive, probability
from taskveil.errors import OptionError, UnknownName

__all__ = [
    "GROUP_SPARSE",
    "LOW_RANK",
    "acceleration_helps",
    "assumption_1",
    "best_alpha",
    "best_exponent",
    "best_ratio",
    "contraction",
    "log_term",
    "per_task",
    "phi",
    "psi",
]

LOW_RANK, GROUP_SPARSE = "low-rank", "group-sparse"


def phi(alpha: float, *, acceleration: bool, setting: int = 3) -> float:
    """The exponent of the convex bounds: eq. 12 and 14 (settings 2, 3), eq. 25 and 27 (setting 1)."""
    a, low = (2 if acceleration else 1), (-1.0 if setting == 1 else -0.5)
    if alpha in (2.0 * a, low):
        raise OptionError(f"alpha = {alpha:g} lies on the border of the theorem's cases, where its bound is empty.")
    if alpha < low:
        return a / (2.0 * a - alpha)
    top = 2.0 * a if alpha < 2.0 * a else alpha
    return a / (top + 1.0) if setting == 1 else 2.0 * a / (2.0 * top + 1.0)


def psi(ratio: float, base: float) -> float:
    """Eq. 18: Q below the base, the base between it and 1, base/Q above 1."""
    probability(base=base)
    positive(ratio=ratio)
    if ratio in (base, 1.0):
        raise OptionError(f"Q = {ratio:g} lies on the border of the theorem's cases, where its bound is empty.")
    if ratio < base:
        return ratio
    return base if ratio < 1 else base / ratio


def best_alpha(*, acceleration: bool, setting: int = 3) -> float:
    """Theorems 6, 11, 16: the exponent of eps_t ~ t^alpha that minimises the bound."""
    if not acceleration:
        return 0.0
    return 2.0 / 3.0 if setting == 1 else 2.0 / 5.0


def best_ratio(base: float, *, acceleration: bool, setting: int = 3) -> float:
    """Theorems 6, 11, 16: the Q of eps_t ~ Q^-t that minimises the bound.

    `base` is Q0, or Q0' when accelerated.
    """
    power = (1.0 if acceleration else 2.0) / (3.0 if setting == 1 else 5.0)
    return float(base**power)


def assumption_1(
    estimator: str, *, n_features: int, epsilon: float, delta: float, norm_bound: float = 1.0, setting: int = 3
) -> float:
    """How many tasks Assumption 1 asks for, its unspecified 'sufficiently large' constant C taken as 1.

    Settings 1 and 2 of the supplement use the same assumption with their own log term (none in setting 1).
    """
    positive(n_features=n_features, epsilon=epsilon, norm_bound=norm_bound)
    spread = log_term(epsilon, delta, setting)
    if estimator == LOW_RANK:
        return (norm_bound * n_features * math.log(n_features) * spread / epsilon) ** 2
    if estimator == GROUP_SPARSE:
        return math.log(n_features) * spread / epsilon
    raise UnknownName(f"unknown estimator {estimator!r}: expected {LOW_RANK} or {GROUP_SPARSE}.")


def acceleration_helps(strong_convexity: float, smoothness: float) -> bool:
    """Claim 2's condition for fewer rounds with acceleration: Q0^2 > Q0', that is mu/L < (3 - sqrt 5)/2."""
    positive(strong_convexity=strong_convexity, smoothness=smoothness)
    x = strong_convexity / smoothness
    return (1 - x) ** 2 > 1 - math.sqrt(x)


def per_task(epsilon: float, delta: float, largest_task: int) -> tuple[float, float]:
    """Prop. 3: a per-record (eps', delta') that gives the per-task (epsilon, delta): eps/n, delta/(n
    exp(eps)).

    Group privacy (Vadhan, Lemma 2.2) for all n rows of the largest task: n eps' = eps, n exp(n eps') delta'
    = delta.
    """
    positive(epsilon=epsilon, largest_task=largest_task)
    return epsilon / largest_task, delta / (largest_task * math.exp(epsilon))


def contraction(mu: float | None, L: float, fast: bool) -> float:
    """Q0 = 1 - mu/L, or Q0' = 1 - sqrt(mu/L) with acceleration (Theorems 4, 5)."""
    if mu is None:
        raise OptionError("a strongly convex theorem needs strong_convexity (mu); the paper uses 1e-3.")
    if not 0 < mu < L:
        raise OptionError(f"strong convexity must lie strictly between 0 and the smoothness {L:g}, got {mu}.")
    return 1 - math.sqrt(mu / L) if fast else 1 - mu / L


def best_exponent(fast: bool, strong: bool, setting: int) -> float:
    """The exponent of M at the optimal allocation (Theorems 6, 11, 16; Table 2)."""
    if strong:
        return 1.0 if fast else 0.5
    return phi(best_alpha(acceleration=fast, setting=setting), acceleration=fast, setting=setting)


def log_term(epsilon: float, delta: float, setting: int) -> float:
    """sqrt(l + 2 eps) of Lemma 9; 1 in setting No.1, where budgets simply add up."""
    terms: dict[int, Callable[[], float]] = {
        1: lambda: 1.0,
        2: lambda: math.sqrt(math.log(1 / delta) + 2 * epsilon),
        3: lambda: math.sqrt(math.log(math.e + epsilon / (math.sqrt(2) * delta)) + 2 * epsilon),
    }
    if setting not in terms:
        raise UnknownName(f"unknown composition setting {setting}: expected 1, 2 or 3.")
    if setting > 1:
        probability(delta=delta)
    return terms[setting]()
