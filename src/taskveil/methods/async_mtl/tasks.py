"""The task side of asynchronous multi-task learning: one gradient per message, taken at p_t + q_t.

unit record   q_t is on the billboard (post-processing of releases); the message is the row gradients at p_t + q_t,
              which the runtime samples, clips and sums. Nothing private is kept between messages.
unit task     semi-exact (Xie et al. 2017, eq. 8): q_t = argmin L_t(p_t + q) + tau g(q) on the task's own rows, then the
              gradient of L_t at p_t + q_t, clipped as a whole. q_t never leaves the task.

`OwnProblem`. One task's own problem, min_q,b L_t(p_t + q, b) + tau g(q), for a fixed shared part: solved on the task's rows only.

For g the squared Frobenius norm, damped Newton (solvers/newton.py): a few steps where first-order ones need a thousand.
Otherwise accelerated proximal gradient with restart (Beck & Teboulle 2009; O'Donoghue & Candes 2015), all tasks of a block at
once, each with its own step 1/L_t. Used for the semi-exact update (Xie et al. 2017, eq. 8), for the single-task start of
Alg. 1 and for the refinement that only the owner sees.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.losses.base import Loss
from taskveil.methods.async_mtl.presets import Penalties
from taskveil.methods.base import Message, Models, PublicInfo, State, TaskSide, View
from taskveil.methods.row_gradients import RowGradients
from taskveil.privacy.plan import Plan
from taskveil.solvers.block_gradient import mean_gradients
from taskveil.solvers.newton import minimise_local
from taskveil.structures import STRUCTURES
from taskveil.tasks.block import TaskBlock

Array = np.ndarray

if TYPE_CHECKING:
    from taskveil.methods.async_mtl.method import AsyncMTL

STEPS_PER_MESSAGE = 20  # of the semi-exact update; the next message goes on from where this one stopped


class OwnProblem:
    """L_t(p_t + q, b) + tau g(q) for every task t of a block."""

    def __init__(self, block: TaskBlock, loss: Loss, penalties: Penalties, strength: float, fit_intercept: bool) -> None:
        self.block, self.loss, self.strength, self.fit_intercept = block, loss, strength, fit_intercept
        self.structure = STRUCTURES.get(penalties.own)
        self._curvature: Array | None = None

    def curvature(self) -> Array:
        """Lipschitz constant of each task's gradient in (w, b): smoothness times the largest eigenvalue of the mean xx'."""
        if self._curvature is None:
            self._curvature = np.array([self._curvature_of(i) for i in range(self.block.n_tasks)])
        return self._curvature

    def solve(
        self, shared: Array, own: Array | None = None, intercept: Array | None = None, tol: float = 1e-9, iterations: int = 2000
    ) -> tuple[Array, Array]:
        """(q, b) of every task, each to relative tolerance `tol` on its own."""
        if self.structure.name == "squared_frobenius":
            return self._newton(shared)
        k, r, _ = shared.shape
        q = np.zeros_like(shared) if own is None else np.array(own)
        b = np.zeros((k, r)) if intercept is None else np.array(intercept)
        rate = 1.0 / np.maximum(self.curvature(), 1e-12)
        vq, vb, momentum, live = q, b, np.ones(k), np.ones(k, dtype=bool)
        for _ in range(iterations):
            q_new, b_new = self._prox_step(shared, vq, vb, rate)
            # A finished task stands still, so that it ends at the same numbers alone and in a block.
            dq, db = (q_new - q) * live[:, None, None], (b_new - b) * live[:, None]
            q_new, b_new = q + dq, b + db
            uphill = ((vq - q_new) * dq).sum(axis=(1, 2)) + ((vb - b_new) * db).sum(axis=1) > 0
            momentum = np.where(uphill, 1.0, momentum)  # restart, task by task
            following = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
            beta = (momentum - 1) / following
            vq, vb = q_new + beta[:, None, None] * dq, b_new + beta[:, None] * db
            momentum, q, b = following, q_new, b_new
            moved = np.sqrt(np.square(dq).sum(axis=(1, 2)) + np.square(db).sum(axis=1))
            size = 1.0 + np.sqrt(np.square(q).sum(axis=(1, 2)) + np.square(b).sum(axis=1))
            live &= moved > tol * size
            if not live.any():
                break
        return q, b

    def _newton(self, shared: Array) -> tuple[Array, Array]:
        """tau |q|^2 is a ridge of strength 2 tau around the shared part."""
        whole, b = minimise_local(self.block, self.loss, 2 * self.strength, shared, self.fit_intercept)
        return whole - shared, b

    def gradient_step(self, shared: Array, own: Array, intercept: Array, step: float) -> tuple[Array, Array]:
        """One step of public length (Alg. 1, node side): q - a (grad + lambda q); a prox if the own penalty has no gradient."""
        if self.structure.name != "squared_frobenius":
            return self._prox_step(shared, own, intercept, np.full(len(shared), step))
        grad, grad_b, _ = mean_gradients(self.block, shared + own, intercept, self.loss)
        moved = own - step * (grad + 2 * self.strength * own)
        return moved, (intercept - step * grad_b if self.fit_intercept else intercept)

    def _prox_step(self, shared: Array, q: Array, b: Array, rate: Array) -> tuple[Array, Array]:
        grad, grad_b, _ = mean_gradients(self.block, shared + q, b, self.loss)
        moved = self.structure.matrix(q - rate[:, None, None] * grad)
        per_column = np.repeat(rate, moved.shape[1] // len(rate)) * self.strength
        q = self.structure.models(self.structure.prox(moved, per_column), q.shape)
        return q, (b - rate[:, None] * grad_b if self.fit_intercept else b)

    def _curvature_of(self, task: int) -> float:
        rows = self.block.rows(task)
        X, weight = np.asarray(self.block.X[rows], dtype=float), self.block.row_weights[rows]
        if self.fit_intercept:
            X = np.concatenate([X, np.ones((X.shape[0], 1))], axis=1)
        if X.shape[0] == 0:
            return 0.0
        Y = X * np.sqrt(weight)[:, None]
        small = Y @ Y.T if Y.shape[0] < Y.shape[1] else Y.T @ Y
        return float(self.loss.smoothness * np.linalg.eigvalsh(small)[-1])


class AsyncTasks(TaskSide):
    """`view.round` is the number of messages this block has had accepted; it says which release is due."""

    def __init__(self, method: AsyncMTL, block: TaskBlock, public: PublicInfo, plan: Plan) -> None:
        super().__init__(method, block, public, plan)
        self.form = method.form(plan.budget)
        self.problem = OwnProblem(block, self.loss, method.penalties(), method.own_penalty, public.fit_intercept)
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
