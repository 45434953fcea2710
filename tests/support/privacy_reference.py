"""Slow, obvious references for the private core. Nothing here is imported by src."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np


def composition_bound_by_hand(epsilons: list[float], delta: float) -> float:
    """MP-MTL Def. 7 written out term by term, with the printed (e^x - 1)/(e^x + 1)."""
    total = drift = squares = 0.0
    for e in epsilons:
        total += e
        drift += e * (math.exp(e) - 1) / (math.exp(e) + 1)
        squares += e**2
    if delta == 0:
        return total
    first = drift + math.sqrt(sum(2 * e**2 * math.log(1 / delta) for e in epsilons))
    second = drift + math.sqrt(sum(2 * e**2 * math.log(math.e + math.sqrt(squares) / delta) for e in epsilons))
    return min(total, first, second)


def optimal_pure_delta(epsilons: list[float], epsilon: float) -> float:
    """Exact delta of composed randomised responses: all 2^T outcomes (Murtagh & Vadhan 2016, Thm. 1.5)."""
    delta = 0.0
    for signs in itertools.product((1, -1), repeat=len(epsilons)):
        loss = sum(s * e for s, e in zip(signs, epsilons, strict=True))
        p = math.prod(1 / (1 + math.exp(-s * e)) for s, e in zip(signs, epsilons, strict=True))
        delta += p * max(0.0, 1 - math.exp(epsilon - loss))
    return delta


def optimal_pure_epsilon(epsilons: list[float], delta: float) -> float:
    """Smallest epsilon of composed randomised responses, by bisection on the exact delta."""
    low, high = 0.0, sum(epsilons)
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if optimal_pure_delta(epsilons, middle) <= delta else (middle, high)
    return high


def exact_square_norm(row: np.ndarray) -> Fraction:
    """Squared l2 norm of a row of floats without any rounding."""
    return sum((Fraction(float(v)) ** 2 for v in row), Fraction(0))


def two_sided_wishart_log_density_2x2(Z: np.ndarray, c: float, points: int = 600) -> float:
    """log of the unnormalised density of W_2(3, cI) - W_2(3, cI) at the symmetric 2 x 2 matrix Z.

    f(Z) = integral of exp(-tr(2A - Z)/(2c)) over A >= 0, A >= Z. With Z = diag(a, b) (rotate) and
    A = [[x, w], [w, y]]: x >= max(a, 0), y >= max(b, 0), |w| <= min(sqrt(x y), sqrt((x - a)(y - b))).
    The outer two integrals are taken on a fine grid.
    """
    a, b = np.linalg.eigvalsh(Z)
    t = (np.arange(points) + 0.5) / points
    u, weight = -c * np.log1p(-t), 1 / points  # midpoint rule in the exponential's own quantiles
    x, y = (max(a, 0.0) + u)[:, None], (max(b, 0.0) + u)[None, :]
    width = 2 * np.minimum(np.sqrt(x * y), np.sqrt((x - a) * (y - b)))
    return math.log(float((width * weight * weight).sum()) * c * c) + ((a + b) / 2 - max(a, 0) - max(b, 0)) / c


def kairouz_divergence(orders: np.ndarray, share_variance: float, shares: int, l1: float, l2: float, size: int) -> np.ndarray:
    """Renyi divergence of discrete Gaussian shares: Kairouz, Liu, Steinke 2021, Prop. 14; to compare with."""
    k = np.arange(1, shares)
    tau = 10 * float(np.exp(-2 * math.pi**2 * share_variance * k / (k + 1)).sum())
    scale = math.sqrt(shares * share_variance)
    a, b = l2 / scale, l1 / scale
    constant = orders / 2 * a**2 + tau * size
    crossed = orders / 2 * (a**2 + 2 * b * tau + tau**2 * size)
    rooted = orders / 2 * (a + math.sqrt(size) * tau) ** 2
    return np.asarray(np.minimum(np.minimum(constant, crossed), rooted))
