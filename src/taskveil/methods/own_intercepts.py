"""One weight vector for all tasks under any loss, with the best intercept (or baseline hazard) of every task's own; no noise.

The server takes Newton steps on the pooled loss, a block sends the sum of its tasks' curvatures and gradients:

    "statistics"  curvature and gradient in the weights, every task at its own best intercept              VectorSum, no bound
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from taskveil.losses import LOSSES
from taskveil.methods.alone import best_intercepts
from taskveil.methods.base import Billboard, Message, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.privacy.contributions import Contribution, VectorSum, seal_clipped_sum
from taskveil.privacy.plan import Request
from taskveil.solvers.cox import partial_likelihood
from taskveil.tasks.block import TaskBlock

STATISTICS = "statistics"
RIDGE = 1e-6  # relative to the mean curvature; decides constant columns
LONGEST_STEP = 10.0  # curvature may vanish


def own_intercept_requests(public: PublicInfo, rounds: int) -> list[Request]:
    shape = (public.n_outputs, public.n_features, public.n_features + 1)
    return [Request(STATISTICS, t + 1, VectorSum(shape, Contribution.unbounded)) for t in range(rounds)]


class OwnInterceptTasks(TaskSide):
    """Curvature and gradient of the summed loss at the billboard's weights and the task's own best intercept."""

    def __init__(self, block: TaskBlock, public: PublicInfo):
        self.block, self.public = block, public
        self.loss = LOSSES.get(public.loss)

    def start(self) -> State:
        return {}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        block = self.block
        m, r, d = block.n_tasks, block.n_outputs, block.n_features
        W = np.repeat(view["mean"][None], m, axis=0)
        if not self.loss.rowwise:
            what = VectorSum((r, d, d + 1), Contribution.unbounded)
            return state, {STATISTICS: seal_clipped_sum(what, self._together(W[0, 0]), m)}
        b = best_intercepts(block, W, self.loss, self.public.fit_intercept)
        scores = block.scores(W, b)
        slopes, bends = self.loss.derivative(scores, block.y), self.loss.second_derivative(scores, block.y)
        weights = np.ones(block.n_rows) if block.weights is None else block.weights
        total = np.zeros((r, d, d + 1))  # summed here: one such array per task would not fit for images
        for i in range(m):
            rows = block.rows(i)
            X = np.asarray(block.X[rows], dtype=float)
            for k in range(r):
                bend = weights[rows] * bends[rows, k]
                weight = bend.sum()
                centred = X - (bend @ X / weight if self.public.fit_intercept and weight > 0 else 0.0)
                total[k, :, :d] += (centred * bend[:, None]).T @ centred
                total[k, :, d] += (weights[rows] * slopes[rows, k]) @ X
        return state, {STATISTICS: seal_clipped_sum(VectorSum(total.shape, Contribution.unbounded), total, m)}

    def _together(self, w: np.ndarray) -> np.ndarray:
        """The same for a loss whose rows count together, task by task: every task keeps its own baseline."""
        block, d = self.block, self.block.n_features
        weights = np.ones(block.n_rows) if block.weights is None else block.weights
        total = np.zeros((1, d, d + 1))
        for rows in map(block.rows, range(block.n_tasks)):
            X = np.asarray(block.X[rows], dtype=float)
            _, gradient, curvature = partial_likelihood(X, block.y[rows, 0], weights[rows], w)
            total[0] += np.column_stack([curvature, gradient])
        return total

    def finish(self, state: State, view: View) -> Models:
        W = np.repeat(view["mean"][None], self.block.n_tasks, axis=0)
        return Models(W, best_intercepts(self.block, W, self.loss, self.public.fit_intercept))


class OwnInterceptServer(ServerSide):
    def __init__(self, public: PublicInfo):
        self.public = public

    def start(self) -> tuple[State, Billboard]:
        mean = np.zeros((self.public.n_outputs, self.public.n_features))
        return {"mean": mean, "round": np.array(0)}, Billboard(0, {"mean": mean})

    def step(
        self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray
    ) -> tuple[State, Billboard]:
        t, d = int(state["round"]) + 1, self.public.n_features
        curvature, gradient = releases[STATISTICS][:, :, :d], releases[STATISTICS][:, :, d]
        ridge = RIDGE * np.trace(curvature, axis1=1, axis2=2) / d + 1e-300
        regular = curvature + ridge[:, None, None] * np.eye(d)
        move = np.linalg.solve(regular, (gradient + ridge[:, None] * state["mean"])[:, :, None])[:, :, 0]
        length = np.linalg.norm(move, axis=1, keepdims=True)
        mean = state["mean"] - move * np.minimum(1.0, LONGEST_STEP / np.maximum(length, 1e-300))
        still = bool(np.abs(move).max() < 1e-9)
        return {"mean": mean, "round": np.array(t)}, Billboard(t, {"mean": mean}, accepted=accepted, done=still)
