"""One weight vector for all tasks under any loss, with the best intercept (or baseline hazard) of every task's own; no noise.

The server takes Newton steps on the pooled loss, a block sends the sum of its tasks' curvatures and gradients:

    "statistics"  curvature and gradient in the weights, every task at its own best intercept              VectorSum, no bound
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from taskveil.methods.base import Billboard, Message, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.exact_sums import CHUNK, summed
from taskveil.methods.local import best_intercepts
from taskveil.privacy.contributions import Contribution, VectorSum
from taskveil.privacy.plan import Plan, Request
from taskveil.solvers.cox import partial_likelihood
from taskveil.tasks.block import TaskBlock

STATISTICS = "statistics"
RIDGE = 1e-6  # relative to the mean curvature; decides constant columns
LONGEST_STEP = 10.0  # curvature may vanish


def own_intercept_requests(public: PublicInfo, rounds: int) -> list[Request]:
    """Sums for Newton steps of one model, every task with an intercept of its own."""
    shape = (public.n_outputs, public.n_features, public.n_features + 1)
    return [Request(STATISTICS, t + 1, VectorSum(shape, Contribution.unbounded)) for t in range(rounds)]


class OwnInterceptTasks(TaskSide):
    """Curvature and gradient of the summed loss at the billboard's weights and the task's own best intercept."""

    def __init__(self, method: Any, block: TaskBlock, public: PublicInfo, plan: Plan):
        super().__init__(method, block, public, plan)
        self.weights = np.ones(block.n_rows) if block.weights is None else block.weights

    def step(self, state: State, view: View) -> tuple[State, Message]:
        block, d = self.block, self.block.n_features
        own, shape = (self._rowwise if self.loss.rowwise else self._at_risk)(view["mean"]), (block.n_outputs, d, d + 1)
        few = max(1, CHUNK // math.prod(shape))
        some = (range(a, min(a + few, block.n_tasks)) for a in range(0, block.n_tasks, few))
        return state, {STATISTICS: summed(some, lambda tasks: np.stack([own(i) for i in tasks]), shape, block.n_tasks)}

    def _rowwise(self, mean: np.ndarray) -> Callable[[int], np.ndarray]:
        """Curvature and gradient of one task, (r, d, d + 1)."""
        block, d = self.block, self.block.n_features
        scores = block.scores(mean[None], best_intercepts(block, self._repeated(mean), self.loss, self.public.fit_intercept))
        slopes, bends = self.loss.derivative(scores, block.y), self.loss.second_derivative(scores, block.y)

        def own(i: int) -> np.ndarray:
            rows, statistics = block.rows(i), np.zeros((block.n_outputs, d, d + 1))
            X = np.asarray(block.X[rows], dtype=float)
            for k in range(len(statistics)):
                bend = self.weights[rows] * bends[rows, k]
                weight = bend.sum()
                centred = X - (bend @ X / weight if self.public.fit_intercept and weight > 0 else 0.0)
                statistics[k, :, :d] = (centred * bend[:, None]).T @ centred
                statistics[k, :, d] = (self.weights[rows] * slopes[rows, k]) @ X
            return statistics

        return own

    def _at_risk(self, mean: np.ndarray) -> Callable[[int], np.ndarray]:
        """The same for a loss whose rows count together, task by task: every task keeps its own baseline."""

        def own(i: int) -> np.ndarray:
            rows = self.block.rows(i)
            X = np.asarray(self.block.X[rows], dtype=float)
            _, gradient, curvature = partial_likelihood(X, self.block.y[rows, 0], self.weights[rows], mean[0])
            return np.column_stack([curvature, gradient])[None]

        return own

    def _repeated(self, mean: np.ndarray) -> np.ndarray:
        return np.repeat(mean[None], self.block.n_tasks, axis=0)

    def finish(self, state: State, view: View) -> Models:
        W = self._repeated(view["mean"])
        return Models(W, best_intercepts(self.block, W, self.loss, self.public.fit_intercept))


class OwnInterceptServer(ServerSide):
    """Newton steps from the sums of all tasks."""

    def start(self) -> tuple[State, Billboard]:
        mean = np.zeros((self.public.n_outputs, self.public.n_features))
        return {"mean": mean, "round": np.array(0)}, Billboard(0, {"mean": mean})

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        t, d = int(state["round"]) + 1, self.public.n_features
        curvature, gradient = releases[STATISTICS][:, :, :d], releases[STATISTICS][:, :, d]
        ridge = RIDGE * np.trace(curvature, axis1=1, axis2=2) / d + 1e-300
        regular = curvature + ridge[:, None, None] * np.eye(d)
        move = np.linalg.solve(regular, (gradient + ridge[:, None] * state["mean"])[:, :, None])[:, :, 0]
        length = np.linalg.norm(move, axis=1, keepdims=True)
        mean = state["mean"] - move * np.minimum(1.0, LONGEST_STEP / np.maximum(length, 1e-300))
        still = bool(np.abs(move).max() < 1e-9)
        return {"mean": mean, "round": np.array(t)}, Billboard(t, {"mean": mean}, accepted=accepted, done=still)
