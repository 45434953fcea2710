"""Logistic loss, l(s, y) = log(1 + exp(-y s)) for labels y in {-1, +1}.

Written with exp of non-positive numbers only, so that no score overflows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit

from taskveil.losses.base import Array, Loss

if TYPE_CHECKING:
    from taskveil.tasks.block import TaskBlock

STEPS = 50


class Logistic(Loss):
    """Negative log-likelihood of a Bernoulli label; smooth with constant 1/4, Lipschitz with constant 1.

    Labels say little about the scale of a score: signal-to-noise ratios are believed to be around one, within one decade (a wider
    belief, or one around three, makes rare classes overconfident).
    """

    name = "logistic"
    targets = "labels"
    smoothness = 0.25
    kernel = 1
    strengths = (0.0, 1.0, 1.0)
    likelihood = True
    step_size = 2.0

    def value(self, scores: Array, y: Array) -> Array:
        margin = y * scores
        return np.maximum(-margin, 0.0) + np.log1p(np.exp(-np.abs(margin)))

    def derivative(self, scores: Array, y: Array) -> Array:
        return -y * expit(-y * scores)

    def second_derivative(self, scores: Array, y: Array) -> Array:
        return expit(scores) * expit(-scores) * np.square(y)

    def first_scores(self, y: Array, weights: Array) -> Array:
        """Log-odds with half a row added to each class: finite for one-class tasks."""
        hits, counts = (weights * (y > 0.0)).sum(axis=1), weights.sum(axis=1)
        return np.asarray(logit((hits + 0.5) / (counts + 1.0)))

    def working(self, scores: Array, y: Array, weights: Array) -> tuple[Array, Array]:
        p = expit(scores)
        return weights * p * (1.0 - p), scores + ((y > 0.0) - p) / (p * (1.0 - p))

    def without_information(self, y: Array, weights: Array) -> NDArray[np.bool_]:
        counts = weights.sum(axis=1)
        return np.asarray(((weights * (y > 0.0)).sum(axis=1) % np.maximum(counts, 1.0)) == 0.0)

    def surprise(self, scores: Array, block: TaskBlock) -> Array:
        return 2.0 * (block.y - np.tanh(scores / 2.0))  # 4 (hit - p)

    def intercepts(self, scores: Array, block: TaskBlock) -> Array:
        """Newton's method; one-class tasks get the smoothed log-odds shift."""
        b = np.zeros((block.n_tasks, block.n_outputs))
        n = np.maximum(block.counts, 0.0)[:, None]
        share = (block.means_by_task(block.y) + 1.0) / 2.0
        low, high = 0.5 / (n + 1.0), 1.0 - 0.5 / (n + 1.0)
        target = np.clip(share, low, high)  # a one-class task: smoothed, hence finite
        open_ = np.ones(b.shape, dtype=bool)  # each task stops on its own gap: when others stop must not show in its numbers
        for _ in range(STEPS):
            p = 0.5 * (1.0 + np.tanh((scores + b[block.task_of_row]) / 2.0))
            gap = block.means_by_task(p) - target
            slope = np.maximum(block.means_by_task(p * (1.0 - p)), 1e-6)
            b -= np.where(open_, np.clip(gap / slope, -2.0, 2.0), 0.0)
            open_ &= np.abs(gap) >= 1e-12
            if not open_.any():
                break
        return np.where(n > 0, b, 0.0)


def shortened_for(classes: int) -> float:
    """What scores of one class against the others are multiplied by for a softmax: they are K / (K - 1) times a joint model's."""
    return 1.0 - 1.0 / classes
