"""Arithmetic in the prime field of p = 2^61 - 1 elements, on whole NumPy arrays of uint64.

A Mersenne prime makes reduction two shifts and an addition, and 61 bits leave room for carries in 64, so
nothing here needs big integers or Python loops. Elements are always kept below p. (Test: against Python
integers.)
"""

from __future__ import annotations

import os

import numpy as np

BITS = 61
PRIME = (1 << BITS) - 1

_P = np.uint64(PRIME)
_LOW32 = np.uint64(0xFFFFFFFF)
_LOW29 = np.uint64((1 << 29) - 1)
_S3, _S29, _S32, _S61 = (np.uint64(n) for n in (3, 29, 32, BITS))


def reduce(values: np.ndarray) -> np.ndarray:
    """Any uint64 to its residue below p: 2^61 = 1 (mod p), so the top three bits are added to the rest."""
    folded = (values & _P) + (values >> _S61)
    return np.where(folded >= _P, folded - _P, folded)


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return reduce(a + b)


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a b mod p by 32-bit halves: a b = 2^64 a1 b1 + 2^32 (a1 b0 + a0 b1) + a0 b0, with 2^64 = 8 (mod p).

    With a, b < p the five terms are below 2^61, 2^33, 2^61, 2^61 and 8: their sum fits in 64 bits.
    """
    a1, a0, b1, b0 = a >> _S32, a & _LOW32, b >> _S32, b & _LOW32
    middle, low = a1 * b0 + a0 * b1, a0 * b0
    total = ((a1 * b1) << _S3) + (middle >> _S29) + ((middle & _LOW29) << _S32) + (low & _P) + (low >> _S61)
    return reduce(total)


def dot(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """sum_i weights_i values_i mod p, weights (n,), values (n, columns)."""
    products = multiply(weights[:, None], values)
    low = reduce((products & _LOW32).sum(axis=0, dtype=np.uint64))  # halves, so that 2^31 terms cannot overflow
    high = reduce((products >> _S32).sum(axis=0, dtype=np.uint64))
    return add(multiply(high, np.asarray(1 << 32, dtype=np.uint64)), low)


def random_elements(shape: tuple[int, ...]) -> np.ndarray:
    """Uniform field elements from the operating system: 61 random bits, the one value p drawn again."""
    size = int(np.prod(shape))
    values = np.frombuffer(os.urandom(8 * size), dtype=np.uint64) & _P
    while (bad := values == _P).any():
        values = values.copy()
        values[bad] = np.frombuffer(os.urandom(8 * int(bad.sum())), dtype=np.uint64) & _P
    return values.reshape(shape)
