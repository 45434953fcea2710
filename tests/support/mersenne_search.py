"""Searching 32-bit seeds of Mersenne Twister masks, the way a curious server would (Flower's SecAgg+ has
such masks)."""

from __future__ import annotations

import numpy as np


def seeded_mask(seed: int, length: int) -> np.ndarray:
    """A mask from a 32-bit seed: NumPy's legacy Mersenne Twister, raw 32-bit words."""
    return np.random.RandomState(seed).randint(0, 2**32, length, dtype=np.uint32)


def first_words(seeds: np.ndarray, count: int = 3) -> np.ndarray:
    """The first words of `seeded_mask` for many seeds at once, (seeds, count): MT19937, initialised and
    tempered."""
    state = [seeds.astype(np.uint32)]
    for i in range(1, 397 + count):
        last = state[-1]
        state.append(np.uint32(1812433253) * (last ^ (last >> np.uint32(30))) + np.uint32(i))
    words = []
    for i in range(count):
        mixed = (state[i] & np.uint32(0x80000000)) | (state[i + 1] & np.uint32(0x7FFFFFFF))
        y = state[i + 397] ^ (mixed >> np.uint32(1)) ^ np.where(mixed & np.uint32(1), np.uint32(0x9908B0DF), np.uint32(0))
        y ^= y >> np.uint32(11)
        y ^= (y << np.uint32(7)) & np.uint32(0x9D2C5680)
        y ^= (y << np.uint32(15)) & np.uint32(0xEFC60000)
        words.append(y ^ (y >> np.uint32(18)))
    return np.stack(words, axis=1)


def guess_input(residue: np.ndarray, candidates: list[np.ndarray], hint: int, unknown_bits: int) -> int | None:
    """Which candidate was masked, if some seed explains it: the `2^unknown_bits` seeds that agree with
    `hint` are tried.
    96 bits must match, so a mask without a short seed is never explained by accident.
    """
    top = (hint >> unknown_bits) << unknown_bits
    words = first_words(top + np.arange(1 << unknown_bits, dtype=np.uint64))
    for number, candidate in enumerate(candidates):
        mask = (residue.astype(np.int64) - candidate).astype(np.uint32)[: words.shape[1]]
        if (words == mask).all(axis=1).any():
            return number
    return None
