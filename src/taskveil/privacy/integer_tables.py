"""Exact tables of integer noise laws, for sampling by look-up.

`noise_table(law, variance)` gives the alias table (Walker 1977) of a discrete Gaussian or a Skellam law,
rounded to multiples of 2^-128, and a proved bound on its total variation distance from the law itself. The
bound has two parts: the tail that is cut off (at most 2^-TAIL_BITS) and the rounding (one unit of 2^-128 per
entry). Whoever samples adds that distance, once per sample, to delta.

  discrete Gaussian   P(k) proportional to exp(-k^2 / (2 s^2)); tail P(|X| >= K) <= 2 exp(-K^2 / (2 s^2))
                      (Canonne, Kamath, Steinke 2020, Prop. 25).
  Skellam             difference of two Poisson(s^2/2): P(k) proportional to the Bessel function I_k(s^2);
                      tail P(|X| >= K) <= 2 exp(-K^2 / (2 (s^2 + K/3))) (Bernstein).

All weights are computed with Python integers: the Gaussian by the ratio of neighbours, the Bessel functions
by Miller's downward recurrence I_{k-1} = I_{k+1} + (2k/s^2) I_k, all of whose terms are positive. No floating
point is involved but the exponential function, which is evaluated to 100 decimal digits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import OptionError

LAWS = ("skellam", "discrete-gaussian")
WEIGHT_BITS = 128
TAIL_BITS = 100
LARGEST_DISTANCE = 2.0**-99  # of any table from its law: the cut tail and the rounding of its entries
LARGEST_DEVIATION = 2**17  # standard deviation in grid units; larger tables no longer fit the caches

_PRECISION = 256  # bits of the fixed-point numbers behind the discrete Gaussian


@dataclass(frozen=True, eq=False)
class NoiseTable:
    """Alias table with 2^column_bits columns; a column holds its own value below `split`, its alias above."""

    lowest: int  # the integer of column 0
    column_bits: int
    split_high: NDArray[np.uint64]
    split_low: NDArray[np.uint64]
    alias: NDArray[np.int64]  # already shifted: the integer itself
    distance: float  # total variation distance from the law, per sample


@lru_cache(maxsize=32)
def noise_table(law: str, variance: float) -> NoiseTable:
    """The table of a law with this variance (the parameter s^2 of the discrete Gaussian)."""
    if law not in LAWS:
        raise OptionError(f"unknown integer noise {law!r}: expected one of {', '.join(LAWS)}")
    if not 0 < variance <= LARGEST_DEVIATION**2:
        raise OptionError(f"integer noise has a deviation in (0, {LARGEST_DEVIATION}] grid steps; use another grid")
    half = half_weights(law, variance)
    weights = integer_weights(half)
    distance = 2.0**-TAIL_BITS + len(weights) * 2.0**-WEIGHT_BITS
    assert distance <= LARGEST_DISTANCE
    return _alias_table(weights, -(len(half) - 1), distance)


def half_weights(law: str, variance: float) -> list[int]:
    """Unnormalised weights of 0, 1, ..., K, K the place where the tail is cut."""
    cut = tail_cut(law, variance)
    return gaussian_weights(variance, cut) if law == "discrete-gaussian" else _bessel_weights(variance, cut)


def tail_cut(law: str, variance: float) -> int:
    """Smallest K the tail bounds above allow: P(|X| > K) <= 2^-TAIL_BITS."""
    c = (TAIL_BITS + 1) * math.log(2)  # need K^2/(2 s^2) >= c, or K^2 - (2c/3) K - 2 c s^2 >= 0
    if law == "discrete-gaussian":
        return math.ceil(math.sqrt(2 * c * variance)) + 1
    return math.ceil(c / 3 + math.sqrt((c / 3) ** 2 + 2 * c * variance)) + 1


def integer_weights(half: list[int]) -> list[int]:
    """Weights of -K..K as integers that add up to exactly 2^128; what rounding leaves over goes to zero."""
    norm = half[0] + 2 * sum(half[1:])
    side = [(w << WEIGHT_BITS) // norm for w in half[1:]]
    return [*side[::-1], (1 << WEIGHT_BITS) - 2 * sum(side), *side]


def half_table(half: list[int]) -> NoiseTable:
    """The table of a law on 0, 1, ..., K with these unnormalised weights; what rounding leaves over goes to zero."""
    norm = sum(half)
    side = [(w << WEIGHT_BITS) // norm for w in half[1:]]
    distance = 2.0 ** (1 - TAIL_BITS) + len(half) * 2.0**-WEIGHT_BITS  # a tail of both sides is at most twice one side's
    return _alias_table([(1 << WEIGHT_BITS) - sum(side), *side], 0, distance)


def geometric_weights(scale: float, cut: int) -> list[int]:
    """exp(-k / scale) for k = 0, ..., cut; the tail beyond is exp(-(cut + 1) / scale) of the whole."""
    with localcontext() as context:
        context.prec = 100
        ratio = int((-1 / Decimal(scale)).exp() * Decimal(2) ** _PRECISION)
    weights = [1 << _PRECISION]
    for _ in range(cut):
        weights.append((weights[-1] * ratio) >> _PRECISION)
    return weights


def gaussian_weights(variance: float, cut: int) -> list[int]:
    """exp(-k^2 / (2 variance)) for k = 0, ..., cut."""
    with localcontext() as context:
        context.prec = 100
        inverse = 1 / Decimal(variance)
        ratio, step = ((-inverse / 2).exp(), (-inverse).exp())
        one = Decimal(2) ** _PRECISION
        r, q = int(ratio * one), int(step * one)
    weights = [1 << _PRECISION]
    for _ in range(cut):  # w_{k+1} = w_k exp(-(2k+1)/(2 s^2))
        weights.append((weights[-1] * r) >> _PRECISION)
        r = (r * q) >> _PRECISION
    return weights


def _bessel_weights(variance: float, cut: int) -> list[int]:
    exact = Fraction(variance)
    top = cut + cut // 2 + 64  # Miller: what is wrong at the start dies out on the way down
    above, here = 0, 1 << 200
    weights = [0] * (cut + 1)
    for k in range(top, 0, -1):
        above, here = here, above + here * 2 * k * exact.denominator // exact.numerator
        if k - 1 <= cut:
            weights[k - 1] = here
    return weights


def _alias_table(weights: list[int], lowest: int, distance: float) -> NoiseTable:
    bits = max(1, (len(weights) - 1).bit_length())
    size, capacity = 1 << bits, 1 << (WEIGHT_BITS - bits)
    left = [*weights, *[0] * (size - len(weights))]
    split, alias = [capacity] * size, list(range(size))
    small = [i for i, w in enumerate(left) if w < capacity]
    large = [i for i, w in enumerate(left) if w >= capacity]
    while small and large:
        i, j = small.pop(), large[-1]
        split[i], alias[i] = left[i], j
        left[j] -= capacity - left[i]
        if left[j] < capacity:
            small.append(large.pop())
    low = (1 << 64) - 1
    return NoiseTable(
        lowest,
        bits,
        np.array([s >> 64 for s in split], dtype=np.uint64),
        np.array([s & low for s in split], dtype=np.uint64),
        np.array(alias, dtype=np.int64) + lowest,
        distance,
    )
