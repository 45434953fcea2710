"""The task side of asynchronous multi-task learning: one gradient per message, taken at p_t + q_t.

unit record   q_t is on the billboard (post-processing of releases); the message is the row gradients at p_t + q_t,
              which the runtime samples, clips and sums. Nothing private is kept between messages.
unit task     semi-exact (Xie et al. 2017, eq. 8): q_t = argmin L_t(p_t + q) + tau g(q) on the task's own rows, then the
              gradient of L_t at p_t + q_t, clipped as a whole. q_t never leaves the task.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.losses import LOSSES
from taskveil.methods.async_mtl import local
from taskveil.methods.base import Message, Models, PublicInfo, State, TaskSide, View
from taskveil.methods.row_gradients import RowGradients
from taskveil.tasks.block import TaskBlock

if TYPE_CHECKING:
    from taskveil.methods.async_mtl.method import AsyncMTL, Form

STEPS_PER_MESSAGE = 20  # of the semi-exact update; the next message goes on from where this one stopped


class AsyncTasks(TaskSide):
    """`view.round` is the number of messages this block has had accepted; it says which release is due."""

    def __init__(self, method: AsyncMTL, form: Form, block: TaskBlock, public: PublicInfo) -> None:
        self.method, self.form, self.block, self.public = method, form, block, public
        self.loss = LOSSES.get(public.loss)
        self.problem = local.OwnProblem(block, self.loss, method.penalties(), method.own_penalty, public.fit_intercept)
        self._rows = with_ones(block.X) if public.fit_intercept else np.asarray(block.X, dtype=float)

    def start(self) -> State:
        k, r, d = self.block.n_tasks, self.block.n_outputs, self.block.n_features
        state: State = {"messages": np.zeros(k, dtype=np.int64)}
        if self.form.own_at_task:
            state["own"] = np.zeros((k, r, d))
            state["intercept"] = np.zeros((k, r))
        return state

    def step(self, state: State, view: View) -> tuple[State, Message]:
        state = dict(state)
        state["messages"] = state["messages"] + 1
        message: Message = {}
        for name in self.form.due(view.round):
            if name == "curvature":
                message[name] = self.problem.curvature()[:, None]
            else:
                state, message[name] = self._gradient(state, view)
        return state, message

    def finish(self, state: State, view: View) -> Models:
        """p_t + q_t; refined on the task's own rows where `refine` asks for it (then for the owner's eyes only)."""
        shared, own, intercept = self._parts(state, view)
        models = Models(shared + own, intercept)
        if self.method.refine:
            models.extra = {"unrefined_coef": models.coef, "unrefined_intercept": models.intercept}
            own, intercept = self.problem.solve(shared, own, intercept)
            models.coef, models.intercept = shared + own, intercept
        return models

    def _parts(self, state: State, view: View) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shared = view["shared"]
        if len(shared) != self.block.n_tasks:  # a task nobody has seen: the average shared part
            k = self.block.n_tasks
            mean = np.broadcast_to(shared.mean(axis=0), (k, *shared.shape[1:]))
            return mean, np.zeros_like(mean), np.zeros((k, shared.shape[1]))
        if self.form.own_at_task:
            return shared, state["own"], state["intercept"]
        return shared, view["own"], view["intercept"]

    def _gradient(self, state: State, view: View) -> tuple[State, Any]:
        if self.form.own_at_task:
            state = self._update_own(state, view)
        shared, own, intercept = self._parts(state, view)
        return state, self._gradient_at(shared + own, intercept)

    def _gradient_at(self, point: np.ndarray, intercept: np.ndarray) -> Any:
        slopes = self.loss.derivative(self.block.scores(point, intercept), self.block.y)
        if self.block.weights is not None:
            slopes = slopes * self.block.weights[:, None]
        if self.form.rows:
            return RowGradients(self._rows, slopes, self.block.offsets)
        spread = slopes * self.block.row_weights[:, None]
        return self.block.sums_by_task(spread[:, :, None] * self._rows[:, None, :])

    def _update_own(self, state: State, view: View) -> State:
        own, intercept = self.problem.solve(*self._parts(state, view), iterations=STEPS_PER_MESSAGE)
        return {**state, "own": own, "intercept": intercept}


def with_ones(X: np.ndarray) -> np.ndarray:
    """X with a last column of ones: the intercept is part of the clipped gradient."""
    return np.concatenate([np.asarray(X, dtype=float), np.ones((X.shape[0], 1))], axis=1)
