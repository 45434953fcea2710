"""Masks: long pseudo-random vectors from 32-byte keys, and the rings they live in.

The generator is ChaCha20 (RFC 8439) with a zero nonce and counter: every key is used for one mask only. Words
are read little-endian, so that every machine expands a key to the same mask. Sums wrap modulo the word size,
which is a multiple of the ring's modulus 2^bits; `Ring.fold` brings them into the ring.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import ChaCha20


@dataclass(frozen=True)
class Ring:
    """Integers modulo 2^bits, 1 <= bits <= 64, stored in the smallest unsigned word that holds them."""

    bits: int

    @property
    def dtype(self) -> np.dtype:
        size = next(n for n in (8, 16, 32, 64) if self.bits <= n)
        return np.dtype(f"<u{size // 8}")

    def fold(self, values: np.ndarray) -> np.ndarray:
        """Unsigned words to residues below 2^bits."""
        words = values.astype(self.dtype, copy=False)
        return np.asarray(words & self.dtype.type((1 << self.bits) - 1))

    def encode(self, integers: np.ndarray) -> np.ndarray:
        """Signed integers to residues (two's complement)."""
        return self.fold(np.asarray(integers, dtype=np.int64).view(np.uint64).astype(self.dtype))

    def centre(self, residues: np.ndarray) -> np.ndarray:
        """Residues to the signed integers in [-2^(bits-1), 2^(bits-1))."""
        shift = np.int64(64 - self.bits)
        return (residues.astype(np.uint64) << np.uint64(shift)).view(np.int64) >> shift


def expand(key: bytes, length: int, ring: Ring) -> np.ndarray:
    """`length` uniform words of the ring's type from one key."""
    stream = Cipher(ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(_zeros(length * ring.dtype.itemsize)), dtype=ring.dtype)


def add_mask(total: np.ndarray, key: bytes, ring: Ring, positive: bool = True) -> None:
    """total += mask or total -= mask, in place, wrapping."""
    mask = expand(key, total.size, ring)
    (np.add if positive else np.subtract)(total, mask, out=total)


@lru_cache(maxsize=8)
def _zeros(size: int) -> bytes:
    return bytes(size)
