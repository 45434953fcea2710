"""One model for all rows of all tasks, with each task's own intercept: what sharing everything would give.

Without privacy the server takes Newton steps on the pooled loss: one for squared loss, several for logistic loss. A
block sends the sum of its tasks' curvatures and gradients.

In a private run the shared weights are learnt by noisy gradient rounds, see methods/mean.py, and used as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from taskveil.losses import LOSSES
from taskveil.methods.alone import best_intercepts
from taskveil.methods.base import (
    ANY_KIND,
    ANY_LOSS,
    Billboard,
    Message,
    Method,
    Models,
    PublicInfo,
    ServerSide,
    State,
    TaskSide,
    View,
)
from taskveil.privacy.contributions import Contribution, VectorSum, seal_clipped_sum
from taskveil.privacy.partial_sums import Partial, add_up, joined
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.solvers.cox import partial_likelihood
from taskveil.tasks.block import TaskBlock

STATISTICS = "statistics"
RIDGE = 1e-6  # relative to the mean curvature; decides constant columns
ROUNDS = 12
CHUNK = 2**22  # numbers of single tasks in memory at once


class Pooled(Method):
    """One common weight vector for all tasks, own intercepts.

    rounds    Newton rounds without privacy (1 suffices for squared loss); noisy gradient rounds with it
    """

    name = "pooled"
    kinds, losses = ANY_KIND, ANY_LOSS
    units = ("task", "record")
    reference = "the pooled baseline of all five papers"

    def __init__(self, rounds: int | None = None):
        self.rounds = rounds

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        if budget.epsilon is not None:
            return self._noisy().requests(public, budget)
        rounds = 1 if public.loss == "squared" else (self.rounds or ROUNDS)
        shape = (public.n_outputs, public.n_features, public.n_features + 1)
        return [Request(STATISTICS, t + 1, VectorSum(shape, Contribution.unbounded)) for t in range(rounds)]

    def _noisy(self) -> Method:
        from taskveil.methods.mean import Mean

        return Mean(rounds=self.rounds, personalise=False)

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        if plan.budget.epsilon is not None:
            return self._noisy().task_side(block, public, plan)
        return PooledTasks(block, public)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        if plan.budget.epsilon is not None:
            return self._noisy().server_side(public, plan)
        return PooledServer(public)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return self._noisy().ranges(public)

    def sends_sums(self, n_tasks: int, public: PublicInfo, plan: Plan) -> bool:
        return plan.budget.epsilon is None

    def keeps_history(self, plan: Plan) -> bool:
        return False

    def shared_model(self, public: PublicInfo, plan: Plan, billboard: Billboard) -> Models | None:
        return Models(billboard.values["mean"][None], np.zeros((1, public.n_outputs)))


class PooledTasks(TaskSide):
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
        few, partial = max(1, CHUNK // (r * d * (d + 1))), None
        for first in range(0, m, few):  # summed here: one such array for every task would not fit for images
            own = np.stack([self._own(i, slopes, bends, weights) for i in range(first, min(first + few, m))])
            added = Partial((add_up(own, Contribution.unbounded),))
            partial = added if partial is None else joined([partial, added])
        return state, {STATISTICS: seal_clipped_sum(VectorSum((r, d, d + 1), Contribution.unbounded), partial, m)}

    def _own(self, i: int, slopes: np.ndarray, bends: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Curvature and gradient of one task, (r, d, d + 1)."""
        rows, d = self.block.rows(i), self.block.n_features
        own = np.zeros((self.block.n_outputs, d, d + 1))
        X = np.asarray(self.block.X[rows], dtype=float)
        for k in range(len(own)):
            bend = weights[rows] * bends[rows, k]
            weight = bend.sum()
            centred = X - (bend @ X / weight if self.public.fit_intercept and weight > 0 else 0.0)
            own[k, :, :d] = (centred * bend[:, None]).T @ centred
            own[k, :, d] = (weights[rows] * slopes[rows, k]) @ X
        return own

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


class PooledServer(ServerSide):
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
        longest = 10.0 / np.maximum(length, 1e-300) if self.public.loss != "squared" else 1.0
        mean = state["mean"] - move * np.minimum(1.0, longest)
        still = bool(np.abs(move).max() < 1e-9)
        return {"mean": mean, "round": np.array(t)}, Billboard(t, {"mean": mean}, accepted=accepted, done=still)
