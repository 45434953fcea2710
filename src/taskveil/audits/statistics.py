"""Scores that tell two neighbours apart: likelihood ratios where the density is known, listed and learned ones elsewhere.

Every function takes outputs, one per row or matrix, and returns one number each; larger speaks for world 1.

    projection            <output, shift>: the likelihood ratio of Gaussian noise
    distance_ratio        |z - t0| - |z - t1|: that of exp(-|z|/b), in l1 (independent Laplace noise) or l2
    support               smallest eigenvalue of Z - T1: below zero it is impossible for one-sided noise on T1
    trace, extreme eigenvalues
    learned               linear discriminants fitted on the selection runs, full and coordinate by coordinate
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Score = Callable[[np.ndarray], np.ndarray]
SHRINKAGE = 0.05  # of correlations toward zero in the learned discriminant


def projection(shift: np.ndarray) -> Score:
    """A score: outputs (runs, ...) projected on the shift between the two worlds."""
    flat = np.asarray(shift, dtype=np.float64).ravel()
    return lambda outputs: outputs.reshape(len(outputs), -1) @ flat


def distance_ratio(first: np.ndarray, second: np.ndarray, order: int) -> Score:
    """A score: how much further from the first centre than from the second, in l1 or l2.

    Under independent Laplace noise (1), or noise exp(-|z|_2 / b) (2), it is the log likelihood ratio up to a factor.
    """

    def far(outputs: np.ndarray, centre: np.ndarray) -> np.ndarray:
        return np.linalg.norm(outputs.reshape(len(outputs), -1) - centre.ravel(), order, axis=1)

    return lambda outputs: far(outputs, first) - far(outputs, second)


def support(present: np.ndarray) -> Score:
    """Smallest eigenvalue of Z - present: negative values show that `present` cannot be inside."""
    return lambda outputs: np.linalg.eigvalsh(outputs - present)[:, 0]


def extreme_eigenvalue(largest: bool) -> Score:
    """A score: the largest or the smallest eigenvalue of each output (runs, d, d)."""
    return lambda outputs: np.linalg.eigvalsh(outputs)[:, -1 if largest else 0]


def trace(outputs: np.ndarray) -> np.ndarray:
    """A score: the trace of each output (runs, d, d)."""
    return np.trace(outputs, axis1=1, axis2=2)


def discriminant(first: np.ndarray, second: np.ndarray, full: bool = True) -> Score:
    """Fisher's linear discriminant from selection runs (n, p); `full=False` ignores correlations.

    Coordinates without spread in one world (noise that cancels) get a large weight, not an infinite one.
    """
    both = np.concatenate([first, second])
    centre, spread = both.mean(axis=0), both.std(axis=0)
    spread = np.where(spread > 1e-12 * (1 + np.abs(centre)), spread, np.inf)  # constants carry nothing
    a, b = (first - centre) / spread, (second - centre) / spread
    gap = b.mean(axis=0) - a.mean(axis=0)
    variance = (a.var(axis=0) + b.var(axis=0)) / 2
    if full and a.shape[1] < len(a):
        covariance = (np.atleast_2d(np.cov(a.T)) + np.atleast_2d(np.cov(b.T))) / 2
        covariance = (1 - SHRINKAGE) * covariance + SHRINKAGE * np.diag(variance) + 1e-9 * np.eye(len(gap))
        weight = np.linalg.solve(covariance, gap)
    else:
        weight = gap / (variance + 1e-9)
    return lambda outputs: ((outputs - centre) / spread) @ weight
