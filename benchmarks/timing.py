"""Side-by-side timing and the shape of a result."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Callable

import numpy as np


def take_turns(alternatives: dict[str, Callable[[], object]], repeats: int) -> dict[str, np.ndarray]:
    """Seconds of every alternative in every turn, (repeats,) each; one warm-up turn is not counted."""
    return {name: pairs[:, 0] for name, pairs in take_turns_with_processor(alternatives, repeats).items()}


def take_turns_with_processor(
    alternatives: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = time.process_time
) -> dict[str, np.ndarray]:
    """(seconds, processor seconds of all threads) per turn, (repeats, 2) each; `clock` counts the latter.

    Processor time leaves out what other programs took, so on a busy machine it says more than the clock.
    """
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in alternatives}
    for turn in range(repeats + 1):
        for name, call in alternatives.items():
            start, used = time.perf_counter(), clock()
            call()
            if turn:
                pairs[name].append((time.perf_counter() - start, clock() - used))
    return {name: np.array(values) for name, values in pairs.items()}


def measured(ratios, *, at_least: float | None = None, at_most: float | None = None, **details) -> dict:
    """A result: the median of `ratios` over turns against its promise."""
    ratios = np.atleast_1d(np.asarray(ratios, dtype=float))
    value = float(np.median(ratios))
    holds = (at_least is None or value >= at_least) and (at_most is None or value <= at_most)
    low, high = np.percentile(ratios, [25, 75])
    promise = {k: v for k, v in (("at_least", at_least), ("at_most", at_most)) if v is not None}
    return {"value": value, "spread": [float(low), float(high)], "promise": promise, "holds": bool(holds), **details}


def unavailable(reason: str) -> dict:
    """A result for something that cannot be measured here, with the reason."""
    return {"value": None, "holds": None, "reason": reason}


def machine() -> dict:
    """What the numbers depend on, without names of people or places."""
    return {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0] if hasattr(os, "getloadavg") else None,
        "system": platform.system(),
        "processor": platform.machine(),
    }
