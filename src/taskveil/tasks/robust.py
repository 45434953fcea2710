"""Medians and median absolute deviations of every task's own rows: a centre and a scale that wild values do not move.

Half of the values may be anything. Where more than half of them are the centre itself, the scale is that of the others.
"""

from __future__ import annotations

import numpy as np

DEVIATIONS = 1.4826  # median absolute deviations in a standard deviation, of normal numbers
EQUAL = 1e-10  # of a centre: values that close to it are the centre


def medians(values: np.ndarray, offsets: np.ndarray, counted: np.ndarray | None = None) -> np.ndarray:
    """(m,) of values (N,) between the offsets, of those counted; 0 where there are none."""
    task = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    if counted is not None:
        values, task = values[counted], task[counted]
    sizes = np.bincount(task, minlength=offsets.size - 1)
    ordered, first = np.append(values[np.lexsort((values, task))], 0.0), np.cumsum(sizes) - sizes
    low, high = (ordered[np.minimum(first + step, values.size)] for step in (np.maximum(sizes - 1, 0) // 2, sizes // 2))
    return np.where(sizes > 0, low / 2 + high / 2, 0.0)


def robust_scales(values: np.ndarray, offsets: np.ndarray, centre: np.ndarray, counted: np.ndarray | None = None) -> np.ndarray:
    """(m,) scale of values (N,) around a centre (m,), as a standard deviation; 0 where all of them are the centre."""
    task = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    away, least = np.abs(values - centre[task]), EQUAL * np.abs(centre)
    spread = medians(away, offsets, counted)
    same = spread <= least
    if same.any():
        others = (away > least[task]) & same[task]
        spread = np.where(same, medians(away, offsets, others if counted is None else others & counted), spread)
    return DEVIATIONS * spread
