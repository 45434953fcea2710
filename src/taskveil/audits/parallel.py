"""Many runs, each with noise of its own, over the cores of one machine, where that pays: processes made by fork share what was
prepared before.

Used only when asked for (`jobs` > 1), where fork exists and JAX is not loaded (its threads do not survive a fork).
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

CHUNK = 50
_work: list[Callable[[int], Any]] = []


def spread(function: Callable[[int], Any], numbers: Sequence[int], jobs: int = 1) -> list[Any]:
    """[function(n) for n in numbers], in order."""
    if jobs < 2 or len(numbers) < 4 * CHUNK or not can_fork():
        return [function(n) for n in numbers]
    _work.append(function)  # children inherit it, nothing is pickled but results
    try:
        with multiprocessing.get_context("fork").Pool(jobs) as pool:
            return pool.map(_call, numbers, chunksize=CHUNK)
    finally:
        _work.pop()


def noise_seed(key: int, world: int, number: int) -> int:
    """The noise of a run: another one for every audit, world and number."""
    return 2 * (key * 1_000_003 + number) + world


def repeated(run: Callable[[int, int], np.ndarray], key: int, jobs: int) -> Callable[[int, int, int], np.ndarray]:
    """What run(world, seed) shows, as a sampler: world, first run, runs -> outputs (runs, size)."""

    def sampler(world: int, begin: int, count: int) -> np.ndarray:
        seeds = [noise_seed(key, world, number) for number in range(begin, begin + count)]
        return np.stack(spread(lambda seed: run(world, seed), seeds, jobs))

    return sampler


def can_fork() -> bool:
    """Whether worker processes may be forked: not where JAX has started threads."""
    return "fork" in multiprocessing.get_all_start_methods() and "jax" not in sys.modules


def _call(number: int) -> Any:
    return _work[-1](number)
