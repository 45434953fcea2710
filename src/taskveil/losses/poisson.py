"""Poisson loss of a count y >= 0 with mean exp(s), l(s, y) = exp(s) - y s - (y - y log y): half its deviance.

Exposure is a weight: e (exp(s) - (y/e) s) is the loss of y events in exposure e, that is of the rate y/e, counted e times.
Beyond CEILING the exponential goes on as its tangent: no score overflows, and the loss stays convex.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.special import xlogy

from taskveil.losses.base import SCORE_RANGE, Array, Loss

if TYPE_CHECKING:
    from taskveil.tasks.block import TaskBlock

CEILING = 20.0


class Poisson(Loss):
    """Negative log-likelihood of a count, log link. Its noise variance is estimated: counts often spread more than Poisson's."""

    name = "poisson"
    targets = "counts"
    smoothness = float("inf")

    def value(self, scores: Array, y: Array) -> Array:
        return exponential(scores) - y * scores - y + xlogy(y, y)

    def derivative(self, scores: Array, y: Array) -> Array:
        return np.exp(np.minimum(scores, CEILING)) - y

    def second_derivative(self, scores: Array, y: Array) -> Array:
        return np.where(np.asarray(scores) <= CEILING, np.exp(np.minimum(scores, CEILING)), 0.0) + 0.0 * y

    def first_scores(self, y: Array, weights: Array) -> Array:
        return log_ratio((weights * y).sum(axis=1), weights.sum(axis=1))

    def working(self, scores: Array, y: Array, weights: Array) -> tuple[Array, Array]:
        mean = np.exp(np.clip(scores, -SCORE_RANGE, SCORE_RANGE))
        return weights * mean, scores + (y - mean) / mean

    def intercepts(self, scores: Array, block: TaskBlock) -> Array:
        return log_ratio(block.means_by_task(block.y), block.means_by_task(np.exp(np.minimum(scores, CEILING))))


def exponential(scores: Array) -> Array:
    """exp(s), going on as its tangent beyond CEILING."""
    low = np.minimum(scores, CEILING)
    return np.exp(low) * (1.0 + (scores - low))


def log_ratio(events: Array, expected: Array) -> Array:
    """log(events / expected), with half an event where there is none; 0 where nothing is expected."""
    ratio = np.where(events > 0.0, events, 0.5) / np.where(expected > 0.0, expected, 1.0)
    return np.where(expected > 0.0, np.log(ratio), 0.0)
