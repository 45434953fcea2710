"""Baseline hazards and Kaplan-Meier curves of every task, from its own rows: never sent, and nobody else's grid of times.

A task has POINTS times of its own (its event times, thinned where there are more), so that curves are arrays over tasks like
everything else a task keeps.
"""

from __future__ import annotations

import numpy as np

from taskveil.losses.cox import expected_events
from taskveil.tasks.task import TaskSet

__all__ = ["POINTS", "StepFunction", "own_curves"]

POINTS = 50


class StepFunction:
    """A function that jumps at times x to values y, and is 1 before the first: a row's chance to be free of the event so far."""

    def __init__(self, x: np.ndarray, y: np.ndarray):
        self.x, self.y = x, y

    def __call__(self, times: np.ndarray | float) -> np.ndarray:
        at = np.searchsorted(self.x, np.asarray(times, dtype=float), side="right")
        return np.concatenate([[1.0], self.y])[at]

    def __repr__(self) -> str:
        return f"StepFunction({self.x.size} times)"


def own_curves(tasks: TaskSet, scores: np.ndarray) -> dict[str, np.ndarray]:
    """Arrays (m, POINTS): times, Breslow's cumulative hazard at score zero, and the Kaplan-Meier curve. `scores` (N,) of rows.

    A task without an event has one time, its last, and the hazard of half an event up to it.
    """
    curves = {name: np.zeros((tasks.n_tasks, POINTS)) for name in ("times", "hazard", "kaplan_meier")}
    for i in range(tasks.n_tasks):
        rows = tasks.rows(i)
        y, s = tasks.y[rows], np.clip(scores[rows], -700.0, 700.0)
        if y.size:
            for name, values in zip(curves, _curves(y, s), strict=True):
                curves[name][i, : values.size], curves[name][i, values.size :] = values, values[-1]
    return curves


def _curves(y: np.ndarray, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    time, event = np.abs(y), y > 0.0
    if not event.any():
        at_risk = max(float(np.exp(scores - scores.max()) @ time), 1e-300)
        return time.max()[None], np.array([0.5 * time.max() / at_risk * np.exp(-scores.max())]), np.ones(1)
    hazards = expected_events(scores, y, np.ones(y.size)) * np.exp(-scores)
    times, where, deaths = np.unique(time[event], return_index=True, return_counts=True)
    left = (time[None] >= times[:, None]).sum(axis=1)
    survivors = np.cumprod(1.0 - deaths / left)
    kept = np.unique(np.linspace(0, times.size - 1, POINTS).round().astype(int))
    return times[kept], hazards[event][where][kept], survivors[kept]
