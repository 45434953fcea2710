"""Harrell's concordance: of two rows of which one had its event first, how often it had the higher risk. Ties count half."""

from __future__ import annotations

import numpy as np

__all__ = ["concordance"]

CHUNK = 1000


def concordance(risk: np.ndarray, y: np.ndarray) -> float:
    """For signed times y (N,), negative where censored; NaN where no two rows can be compared.

    Rows can be compared where the shorter time is an event; of two equal times, where one is an event and the other is not.
    """
    time, event = np.abs(y), y > 0.0
    first = np.flatnonzero(event)
    agree = pairs = 0.0
    for start in range(0, first.size, CHUNK):
        i = first[start : start + CHUNK, None]
        later = (time[None] > time[i]) | ((time[None] == time[i]) & ~event[None])
        agree += float((later & (risk[None] < risk[i])).sum()) + 0.5 * float((later & (risk[None] == risk[i])).sum())
        pairs += float(later.sum())
    return agree / pairs if pairs else float("nan")
