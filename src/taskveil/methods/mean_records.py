"""The common mean when single rows are protected: noisy accelerated gradient rounds on the pooled loss.

    task      sends the sum over its (drawn) rows of the gradient of the row's loss at the public (wbar, b),
              each row clipped to `clip`
    server    adds them up, divides by the expected number of rows q N, and takes a step of Nesterov's
              method (momentum (t-1)/(t+2)) with step 1/L, L a public bound

**Privacy.** Unit: one row of one task, one person being one row. A row's clipped gradient has norm at most
`clip`, so replacing a row by a null one moves the sum by `clip`, another row by 2 `clip`. Nothing private
enters a message but the current rows: (wbar, b) is public, there are no own intercepts, own scales or own
states, and N is public (sizes are fixed under this unit). Poisson coins are drawn row by row by the
runtime. Observer: everybody who sees the releases. Personal models are fitted afterwards, by their owners,
for themselves.

**Survival.** Hazards are constant on the parts of a public time grid:

    hazard of a row in part k of [0, horizon]      exp(x'w + a_k)

A partial likelihood compares rows with one another; this one is a sum over rows, so that a row's gradient in (w, a) is its own
and can be clipped. With o_k the time a row spent in part k (the horizon is 1) and d whether its event was seen, in part k(t):

    g_k = o_k exp(x'w + a_k) - d [k = k(t)],     gradient (sum_k g_k x, g_1, ..., g_PARTS)

Only the row, the public model and the declared horizon enter. The baseline a is common to all tasks until they personalise.
Why this and not Cox's: docs/theory/preparation.md#rates-and-times.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.losses import LOSSES
from taskveil.losses.poisson import CEILING
from taskveil.methods.base import Billboard, Message, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.row_gradients import RowGradients
from taskveil.privacy.contributions import RowSum
from taskveil.privacy.plan import Plan
from taskveil.tasks.block import TaskBlock

PARTS = 4


def hazard_gradients(block: TaskBlock, point: np.ndarray) -> RowGradients:
    """The gradient of every row's loss at a public model (1, features + PARTS), before clipping."""
    X, d = np.asarray(block.X, dtype=float), block.n_features
    time = np.minimum(np.abs(block.y[:, 0]), 1.0)
    starts = np.arange(PARTS) / PARTS
    spent = np.clip(time[:, None] - starts, 0.0, 1.0 / PARTS)
    scores = (X @ point[0, :d])[:, None] + point[0, d:]
    last = np.minimum((time * PARTS).astype(np.int64), PARTS - 1)
    slopes = spent * np.exp(np.minimum(scores, CEILING))
    slopes[np.arange(len(time)), last] -= block.y[:, 0] > 0.0
    if block.weights is not None:
        slopes = slopes * block.weights[:, None]
    rows = np.concatenate([slopes.sum(axis=1, keepdims=True) * X, slopes], axis=1)
    return RowGradients(rows, np.ones((len(rows), 1)), block.offsets)


RELEASE = "mean"
ROUNDS = 50
TYPICAL_SLOPE = 0.5  # of the loss at a row: half a range of the target, or an undecided label


def check(strength: float | None, public: PublicInfo) -> None:
    """Refuses what cannot protect single rows: a fixed strength, numbers of rows that are not public."""
    if strength is not None:
        raise OptionError(
            "strength belongs to unit='task': with unit='record' a task's own model may not enter a message. "
            "Leave strength=None; each task weighs the mean against its own rows afterwards."
        )
    if public.task_rows is None:
        raise OptionError("method 'mean' with unit='record' needs the public number of rows of every task")


def contribution(public: PublicInfo, clip: float | None) -> RowSum:
    """What is summed: one clipped gradient for each row."""
    bound = TYPICAL_SLOPE * math.sqrt(longest_row(public)) if clip is None else clip
    return RowSum((public.n_outputs, public.n_features + n_levels(public)), bound)


def n_levels(public: PublicInfo) -> int:
    """Coefficients beside those of the features: an intercept, or the levels of a baseline hazard."""
    return PARTS if public.kind == "survival" else int(public.fit_intercept)


def longest_row(public: PublicInfo) -> float:
    """Squared length of a row with its intercept: 1 + 1 for unit rows, else entries of size one."""
    return (1.0 if public.unit_rows else float(public.n_features)) + float(public.fit_intercept)


class RecordTasks(TaskSide):
    """Row gradients at the public model."""

    def step(self, state: State, view: View) -> tuple[State, Message]:
        block = self.block
        if self.public.kind == "survival":
            return state, {RELEASE: hazard_gradients(block, view["point"])}
        X = np.asarray(block.X, dtype=float)
        if self.public.fit_intercept:
            X = np.concatenate([X, np.ones((block.n_rows, 1))], axis=1)
        slopes = self.loss.derivative(X @ view["point"].T, block.y)
        if block.weights is not None:
            slopes = slopes * block.weights[:, None]
        return state, {RELEASE: RowGradients(X, slopes, block.offsets)}


class RecordServer(ServerSide):
    """Nesterov's accelerated gradient method on noisy gradients; all of it is post-processing."""

    def __init__(self, method: Any, public: PublicInfo, plan: Plan):
        super().__init__(method, public, plan)
        smooth = LOSSES.get(public.loss).smoothness  # rates are parts of the declared largest: their curvature is at most one
        self.step_size = 1.0 / ((smooth if math.isfinite(smooth) else 1.0) * longest_row(public))

    def start(self) -> tuple[State, Billboard]:
        zero = np.zeros((self.public.n_outputs, self.public.n_features + n_levels(self.public)))
        state = {"model": zero, "point": zero, "round": np.array(0)}
        return state, self._billboard(state, None)

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        t = int(state["round"]) + 1
        rows = max(1.0, float(sum(self.public.task_rows or ())) * (self.plan.releases[t - 1].rate or 1.0))
        model = state["point"] - self.step_size * releases[RELEASE] / rows
        point = model + (t - 1.0) / (t + 2.0) * (model - state["model"])
        new = {"model": model, "point": point, "round": np.array(t)}
        return new, self._billboard(new, accepted)

    def _billboard(self, state: State, accepted: np.ndarray | None) -> Billboard:
        d, model = self.public.n_features, state["model"]
        intercept = model[:, d:].mean(axis=1) if n_levels(self.public) else np.zeros(model.shape[0])
        values = {"mean": model[:, :d], "intercept": intercept, "point": state["point"]}
        return Billboard(int(state["round"]), values, accepted=accepted)
