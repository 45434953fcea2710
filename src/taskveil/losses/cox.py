"""Survival: Cox's partial likelihood over the rows of a task, and what one row says by itself.

Targets are times, negative where the row was censored (its event not seen). The hazard of a row is h(t) exp(s), h the task's own
baseline. With Breslow's estimate of the cumulative baseline (ties as in Breslow 1974), the slope of the partial likelihood at a
row is what was expected of it less what happened, E_i - d_i with E_i = H(t_i) exp(s_i): a Poisson loss of the event with the
expected number as its mean, H recomputed as scores change (Whitehead 1980). It depends on the order of times alone.

`value` and its derivatives are those of a row by itself, under a constant hazard: t exp(s) - d s. They judge held-out rows and
place intercepts; a partial likelihood is no sum over rows (which is why unit = record uses methods/mean_records.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.base import Array, Loss
from taskveil.losses.poisson import CEILING, exponential, log_ratio

if TYPE_CHECKING:
    from taskveil.tasks.block import TaskBlock

LEAST = 1e-300


class Cox(Loss):
    """Rows of a task count together: whoever is still at risk when somebody has an event."""

    name = "cox"
    targets = "times"
    smoothness = float("inf")
    rowwise = False
    strengths = (-0.5, 1.0, 1.0)
    prior_rows = 30.0

    def value(self, scores: Array, y: Array) -> Array:
        time, event = np.abs(y), y > 0.0
        return time * exponential(scores) - np.where(event, scores + 1.0 + np.log(np.maximum(time, LEAST)), 0.0)

    def derivative(self, scores: Array, y: Array) -> Array:
        return np.abs(y) * np.exp(np.minimum(scores, CEILING)) - (y > 0.0)

    def second_derivative(self, scores: Array, y: Array) -> Array:
        return np.where(np.asarray(scores) <= CEILING, np.abs(y) * np.exp(np.minimum(scores, CEILING)), 0.0)

    def working(self, scores: Array, y: Array, weights: Array) -> tuple[Array, Array]:
        expected = np.stack([expected_events(*task) for task in zip(scores, y, weights, strict=True)])
        counted = expected > 0.0
        step = np.divide((y > 0.0) - expected, expected, out=np.zeros_like(expected), where=counted)
        return weights * expected, scores + step

    def without_information(self, y: Array, weights: Array) -> NDArray[np.bool_]:
        return np.asarray((weights * (y > 0.0)).sum(axis=1) == 0.0)

    def surprise(self, scores: Array, block: TaskBlock) -> Array:
        """What happened less what was expected, over the task's own share of events, which is the curvature."""
        out = np.zeros((block.n_rows, 1))
        weights = np.ones(block.n_rows) if block.weights is None else block.weights
        for i in range(block.n_tasks):
            rows = block.rows(i)
            y, w = block.y[rows, 0], weights[rows]
            events = float((w * (y > 0.0)).sum())
            if events > 0.0:
                left = (y > 0.0) - expected_events(scores[rows, 0], y, w)
                out[rows, 0] = left * w.sum() / events
        return out

    def intercepts(self, scores: Array, block: TaskBlock) -> Array:
        """Log of the mean hazard: events over time at risk."""
        at_risk = np.abs(block.y) * np.exp(np.minimum(scores, CEILING))
        return log_ratio(block.means_by_task((block.y > 0.0).astype(float)), block.means_by_task(at_risk))


def expected_events(scores: Array, y: Array, weights: Array) -> Array:
    """E_i (n,) of one task: Breslow's cumulative hazard at each row's time, times exp of its score. Any constant drops out."""
    time = np.abs(y)
    order = np.argsort(time, kind="stable")
    t = time[order]
    relative = np.exp(np.clip(scores - np.max(scores, initial=-np.inf, where=weights > 0.0), -700.0, 0.0)) if len(t) else scores
    at_risk = np.cumsum((weights * relative)[order][::-1])[::-1][np.searchsorted(t, t, side="left")]
    events = (weights * (y > 0.0))[order]
    jumps = np.divide(events, at_risk, out=np.zeros_like(at_risk), where=at_risk > 0.0)
    hazard = np.empty_like(t)
    hazard[order] = np.cumsum(jumps)[np.searchsorted(t, t, side="right") - 1]
    return hazard * relative
