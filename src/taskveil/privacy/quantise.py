"""From clipped vectors to integers on a public grid, and how far one unit can move the integers.

Rounding is stochastic (unbiased), conditional on a bound that is checked on the result, so that the bound
holds for every output and not only with high probability. With step g, D coordinates, c = (largest norm)/g:

  by norm    |R(x)|^2 <= c^2 + D/4 + sqrt(2 log(1/beta)) (c + sqrt(D)/2): Kairouz, Liu, Steinke 2021, Thm. 1
             (their conditional randomised rounding). One unit moves the sum by that norm, or twice that
             (replace-one). Otherwise every coordinate is cut toward zero, which never makes a norm larger.
  by error   |R(x) - x/g|^2 <= D/4 + sqrt(D log(1/beta)/2) (Hoeffding: D independent errors in [0, 1], each of
             mean at most 1/4). One unit moves the sum by S/g plus once (add-remove: the null message rounds
             to itself) or twice that error, S the sensitivity of the real sum. Better where S is less than
             twice the norm (sums of outer products, whose S is sqrt(2) norms). Otherwise every coordinate is
             rounded to the nearest integer, whose error is at most sqrt(D)/2.

We draw once, fall back at once (probability at most beta = 1e-9), and do not repeat the draw as the paper
does: the time a task takes then does not depend on its data, and the bias is at most 1e-9 of a grid step.

Rotation   x -> H S x with public random signs S and the Walsh-Hadamard matrix H spreads every message evenly,
           so that a smaller ring suffices; it changes no norm. Used where it saves at least two bits per
           coordinate.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import OptionError
from taskveil.privacy.integer_sampler import KeyStream

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

BETA = 1e-9
INFLATION = 1 + 1e-9  # covers rounding of floats before the grid (relative 1e-12 at most)
OVERFLOW_BITS = 40  # the sum leaves the ring with probability at most 2^-40


@dataclass(frozen=True)
class Grid:
    """A public grid for vectors of `length` coordinates and norm at most `norm`."""

    length: int
    norm: float
    step: float  # a power of two
    condition: Literal["norm", "error"]
    rotate: bool = False

    @property
    def size(self) -> int:
        """Coordinates that are sent: the length, padded to a power of two when rotated."""
        return 1 << (self.length - 1).bit_length() if self.rotate else self.length

    @property
    def reach(self) -> float:
        """Largest norm in grid steps."""
        return self.norm / self.step * INFLATION

    def sensitivity(self, real: float, replace: bool) -> float:
        """How far one unit moves the integer sum (l2); `real`: the sensitivity before the grid."""
        if self.condition == "norm":
            return (2 if replace else 1) * norm_bound(self.reach, self.size)
        return real / self.step * INFLATION + (2 if replace else 1) * error_bound(self.size)

    def to_integers(self, vector: FloatArray, stream: KeyStream) -> IntArray:
        """One task's message on the grid. The condition holds for the result, whatever the draw."""
        scaled = (rotated(vector, self.size) if self.rotate else vector) / self.step
        lower = np.floor(scaled)
        coins = (stream.words(self.size) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        rounded = lower + (coins < scaled - lower)
        if self._fine(rounded, scaled):
            return rounded.astype(np.int64)
        fallback = np.trunc(scaled) if self.condition == "norm" else np.rint(scaled)
        if not self._fine(fallback, scaled):
            raise OptionError("a message exceeds the norm it was clipped to; nothing was released")
        return fallback.astype(np.int64)

    def _fine(self, rounded: FloatArray, scaled: FloatArray) -> bool:
        if self.condition == "norm":
            return float(rounded @ rounded) <= norm_bound(self.reach, self.size) ** 2
        error = rounded - scaled
        return float(error @ error) <= error_bound(self.size) ** 2

    def to_vector(self, integers: IntArray) -> FloatArray:
        """A sum of messages in real units."""
        values = integers.astype(np.float64) * self.step
        return rotated_back(values, self.length) if self.rotate else values


def norm_bound(reach: float, size: int) -> float:
    """Kairouz, Liu, Steinke 2021, Thm. 1, in grid steps; never more than the deterministic c + sqrt(D)."""
    square = reach**2 + size / 4 + math.sqrt(2 * math.log(1 / BETA)) * (reach + math.sqrt(size) / 2)
    return min(math.sqrt(square), reach + math.sqrt(size))


def error_bound(size: int) -> float:
    """Norm of the rounding error, in grid steps; never more than the deterministic sqrt(D)."""
    return min(math.sqrt(size / 4 + math.sqrt(size * math.log(1 / BETA) / 2)), math.sqrt(size)) * INFLATION


def best_grid(length: int, norm: float, step: float, real: float, replace: bool) -> Grid:
    """The condition with the smaller sensitivity, without rotation."""
    grids = [Grid(length, norm, step, "norm"), Grid(length, norm, step, "error")]
    return min(grids, key=lambda g: g.sensitivity(real, replace))


def ring_bits(grid: Grid, n_tasks: int, deviation: float) -> int:
    """Bits of the ring that holds the sum of `n_tasks` messages and noise of this deviation (grid steps).

    Without rotation a coordinate of the signal is at most n (c + 1); rotated by independent public signs it
    exceeds n c sqrt(2 log(2 D / beta)/D) + n with probability at most beta (Hoeffding). Noise: sub-Gaussian,
    plus the linear term that Skellam tails need. All D coordinates together stay inside with probability
    1 - 2^-OVERFLOW_BITS.
    """
    log_odds = math.log(4 * grid.size) + OVERFLOW_BITS * math.log(2)
    signal = n_tasks * (grid.reach + 1)
    if grid.rotate:
        signal = min(signal, n_tasks * (grid.reach * math.sqrt(2 * log_odds / grid.size) + 1))
    noise = math.sqrt(2 * log_odds) * deviation + log_odds
    return math.ceil(math.log2(2 * (signal + noise) + 2))


def rotated(vector: FloatArray, size: int) -> FloatArray:
    """H S x / sqrt(size), padded with zeros."""
    padded = np.zeros(size)
    padded[: vector.size] = vector
    return walsh_hadamard(padded * public_signs(size))


def rotated_back(values: FloatArray, length: int) -> FloatArray:
    """The first `length` numbers before the public rotation."""
    return (walsh_hadamard(values) * public_signs(values.size))[:length]


def walsh_hadamard(values: FloatArray) -> FloatArray:
    """Orthonormal Walsh-Hadamard transform of a vector whose length is a power of two; its own inverse."""
    x, half = values.copy(), 1
    while half < x.size:
        pairs = x.reshape(-1, 2, half)
        x = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(-1)
        half *= 2
    return x / math.sqrt(x.size)


def public_signs(size: int) -> FloatArray:
    """Signs everybody knows, the same on every machine; they protect nothing."""
    key = hashlib.sha256(f"taskveil public rotation signs {size}".encode()).digest()
    bits = KeyStream(key).words(size) & np.uint64(1)
    return np.where(bits == 0, 1.0, -1.0)
