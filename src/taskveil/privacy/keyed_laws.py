"""Float64 laws over a cryptographic key stream: each number is the inverse distribution function at one uniform word.

For laws without an exact sampler (gamma, chi-square, directions, Wishart factors). The names are those of NumPy's generator, so
that `randomness.Stream` is written once for both. A word becomes (w + 1/2) / 2^52 with 52 bits w: never 0 or 1 (with 53 bits
the half would be rounded away), symmetric about one half.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaincinv, ndtri

from taskveil.privacy.integer_sampler import KeyStream

FloatArray = NDArray[np.float64]


class KeyedLaws:
    """Independent numbers from one key stream."""

    def __init__(self, stream: KeyStream) -> None:
        self._stream = stream

    def random(self, size: Any) -> FloatArray:
        """Uniform on [0, 1): multiples of 2^-53."""
        return self._bits(53, size) * 2.0**-53

    def standard_normal(self, size: Any = ()) -> FloatArray:
        """Normal numbers of mean 0 and deviation 1."""
        return np.asarray(ndtri(self._inside(size)))

    def laplace(self, size: Any = ()) -> FloatArray:
        """Density exp(-|x|) / 2."""
        u = self._inside(size) - 0.5
        return np.asarray(-np.sign(u) * np.log1p(-2 * np.abs(u)))

    def gamma(self, shape: Any, scale: Any = 1.0, size: Any = ()) -> FloatArray:
        """Gamma numbers, one for each entry of `size`."""
        return np.asarray(scale * gammaincinv(shape, self._inside(size)))

    def chisquare(self, df: Any, size: Any = None) -> FloatArray:
        """Chi-square numbers with `df` degrees of freedom."""
        half = np.asarray(df, dtype=np.float64) / 2
        return self.gamma(half, 2.0, half.shape if size is None else size)

    def integers(self, low: int, high: int | None = None, size: Any = ()) -> NDArray[np.int64]:
        """Uniform on low, ..., high - 1, exactly: words beyond the last whole multiple of the range are drawn again."""
        low, high = (0, low) if high is None else (low, high)
        span, count = high - low, _count(size)
        last = np.uint64((1 << 64) // span * span - 1)
        words = self._stream.words(count).copy()
        while (over := np.flatnonzero(words > last)).size:
            words[over] = self._stream.words(over.size)
        return (words % np.uint64(span)).astype(np.int64).reshape(size) + low

    def _inside(self, size: Any) -> FloatArray:
        return (self._bits(52, size) + 0.5) * 2.0**-52

    def _bits(self, bits: int, size: Any) -> FloatArray:
        return (self._stream.words(_count(size)) >> np.uint64(64 - bits)).astype(np.float64).reshape(size)


def _count(size: Any) -> int:
    return int(size) if isinstance(size, int | np.integer) else math.prod(size)
