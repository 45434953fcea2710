"""Discrete Gaussian and Laplace noise on the fine public grid, millions of samples a second, over a ChaCha20 key stream.

With s = scale / (2^36 g) the wanted integer j (noise = j g) has P(j) proportional to exp(-j^2 / (2 (2^36 s)^2)), or to
exp(-|j| / (2^36 s)). Rejection (after Karney 2016, arXiv:1303.6257): |j| = 2^36 (a + x), cell a = 0, 1, ..., place x in
[0, 1) a multiple of 2^-36. Draw a from a table of the law's weights at whole cells, x and the sign uniformly, and accept with
probability exp(-t):

    gaussian   (a + x)^2 = a^2 + x (2a + x),   so t = x (2a + x) / (2 s^2)
    laplace     a + x,                         so t = x / s

A negative zero is rejected, so that zero counts once. s lies in [16, 32): about 97 of 100 proposals are accepted.

Exact up to 2^-97 per sample in total variation: the table's cut tail and rounding (integer_tables.py). Acceptance compares 64
bits with exp(-t) in float64, whose error is below 2^-50; where the two are closer than 2^-46 the comparison is made again with
128 bits and 60 decimal digits. For 2^30 coordinates that is 2^-67, far below what INFLATION (mechanisms/base.py) leaves of any
delta. The variance s^2 is rounded once, to float64, and that rounded number is the law's parameter in both places.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from taskveil.privacy.integer_sampler import KeyStream, look_up
from taskveil.privacy.integer_tables import TAIL_BITS, NoiseTable, gaussian_weights, geometric_weights, half_table, tail_cut

LAWS = ("gaussian", "laplace")
CELL_BITS = 36
CHUNK = 1 << 14  # samples whose intermediate arrays stay in the cache
SPARE = 24  # one proposal more for so many that are wanted: a second pass is rare
_DOUBT = 2.0**-46  # float64 decides where it is further than this from a tie


def grid_steps(law: str, deviation: float, size: int, stream: KeyStream) -> NDArray[np.int64]:
    """`size` independent integers; `deviation` is the law's scale in steps of the grid, 2^40 to 2^41.

    Proposals are accepted or not whatever became of the others, so the first `size` that are accepted have the law.
    """
    s, filled = math.ldexp(deviation, -CELL_BITS), 0
    steps = np.empty(size, dtype=np.int64)
    while filled < size:
        missing = size - filled
        proposed, accepted = _propose(law, s, min(CHUNK, missing + missing // SPARE + SPARE), stream)
        kept = proposed[accepted][:missing]
        steps[filled : filled + kept.size] = kept
        filled += kept.size
    return steps


def _propose(law: str, s: float, size: int, stream: KeyStream) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    cell = look_up(_cells(law, s), stream.words(size), stream)
    bits = stream.words(size)
    place = (bits >> np.uint64(64 - CELL_BITS)).view(np.int64)
    minus = -(bits & np.uint64(1)).view(np.int64)  # all ones, or zero
    accepted = _accepts(law, s, cell, np.multiply(place, 2.0**-CELL_BITS), stream.words(size), stream)
    steps = np.left_shift(cell, CELL_BITS, out=cell)
    steps += place
    if not steps.all():
        accepted &= (steps != 0) | (minus == 0)
    steps ^= minus
    steps -= minus  # two's complement: -steps where minus is all ones
    return steps, accepted


def _accepts(
    law: str, s: float, cell: NDArray[np.int64], x: NDArray[np.float64], words: NDArray[np.uint64], stream: KeyStream
) -> NDArray[np.bool_]:
    """Coins that are True with probability exp(-t), decided by 64 bits, or by 128 where those are too close to tell."""
    t = x * (2 * cell + x) / (2 * s * s) if law == "gaussian" else x / s
    gap = np.exp(-t) - words * 2.0**-64
    accepted = gap > 0
    near = np.abs(gap)
    if near.min(initial=1.0) < _DOUBT:
        for i in np.flatnonzero(near < _DOUBT):
            accepted[i] = _accepts_exactly(law, s, int(cell[i]), float(x[i]), int(words[i]), int(stream.words(1)[0]))
    return accepted


def _accepts_exactly(law: str, s: float, cell: int, x: float, high: int, low: int) -> bool:
    with localcontext() as context:
        context.prec = 60
        place = Decimal(x)
        t = place * (2 * cell + place) / (2 * Decimal(s * s)) if law == "gaussian" else place / Decimal(s)
        return Decimal((high << 64) | low) / Decimal(2) ** 128 < (-t).exp()


@lru_cache(maxsize=64)
def _cells(law: str, s: float) -> NoiseTable:
    """The law at whole cells 0, 1, ...: weights exp(-a^2 / (2 s^2)) or exp(-a / s)."""
    if law == "gaussian":
        return half_table(gaussian_weights(s * s, tail_cut("discrete-gaussian", s * s)))
    return half_table(geometric_weights(s, math.ceil(s * (TAIL_BITS + 1) * math.log(2)) + 1))
