"""Noise of large releases: exact and cryptographic, beside NumPy's Philox, which is neither."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import measured, take_turns_with_processor
from taskveil.privacy.randomness import system_noise

COORDINATES = 1_000_000


def gaussian(repeats: int) -> dict:
    """Million exact Gaussian coordinates per processor second; float64 inversion and Philox take turns with it."""
    philox = np.random.Generator(np.random.Philox(0))
    turns = take_turns_with_processor(
        {
            "exact": lambda: system_noise().at(1, "noise").normal(1.0, COORDINATES),
            "laplace": lambda: system_noise().at(1, "noise").laplace(1.0, COORDINATES),
            "inversion": lambda: system_noise(exact=False).at(1, "noise").normal(1.0, COORDINATES),
            "philox": lambda: philox.standard_normal(COORDINATES),
        },
        min(repeats, 7),
    )
    rates = {name: COORDINATES / 1e6 / pairs[:, 1] for name, pairs in turns.items()}
    beside = {name: float(np.median(rate)) for name, rate in rates.items()}
    return measured(rates["exact"], at_least=5.0, unit="million coordinates per processor second", beside=beside)


BENCHMARKS = {"release-noise": gaussian}
