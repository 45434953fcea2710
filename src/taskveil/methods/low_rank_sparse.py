"""Shared structure plus what is a task's own: MP-MTL Algorithm 4 and its Remark 4.

    min_{P,Q} sum_i L_i(X_i (p_i + q_i), y_i) + penalty g(P) + own_penalty h(Q)

g is the trace norm or the l2,1 norm; h is l1, l1,2 (sum of the norms of the tasks' columns) or the squared Frobenius
norm. Only P takes part in the release, Q stays with its task: same cost as Algorithm 2.

It starts at P = W0, Q = 0 with step 1/(2L), because (P, Q) has twice the curvature.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.methods.base import Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.group_sparse import GroupSparseServer
from taskveil.methods.local import best_intercepts
from taskveil.methods.proximal import ProximalMethod
from taskveil.methods.proximal_sides import SETUP, ProximalServer, ProximalTasks
from taskveil.privacy.plan import Plan
from taskveil.structures import STRUCTURES
from taskveil.structures.base import Structure
from taskveil.tasks.block import TaskBlock


@dataclass(eq=False, repr=False)
class LowRankSparse(ProximalMethod):
    """Shared part `shared` ("trace_norm", "group_sparse") plus own part `own` ("l1", "l12", "squared_frobenius").

    `own_penalty` is lambda_2; None takes the size of each task's own gradient noise (without privacy: their mean).
    The other options are those of `low-rank`.
    """

    name = "low-rank-sparse"
    forms: ClassVar[dict[str, str]] = dict.fromkeys(("paper", "preprint"), ".papers.liang_2020:LowRankSparse")
    reference = "Liang et al., Model-Protected Multi-Task Learning, Algorithm 4 and Remark 4"

    clip: float | None = 1.0
    shared: str = "trace_norm"
    own: str = "l1"
    own_penalty: float | None = None

    @property
    def structure(self) -> Structure:  # type: ignore[override]
        """The penalty on the shared part."""
        return STRUCTURES.get(self.shared)

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return TwoPartTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        kind = GroupSparseTwoPart if self.shared == "group_sparse" else TwoPartServer
        return kind(self, public, plan)


class TwoPartTasks(ProximalTasks):
    """Algorithm 4, steps 4 and 10-16, for a block of tasks."""

    method: LowRankSparse

    def start(self) -> State:
        state = super().start()
        own = self.first_own(state["w"])
        return {**state, "own": own, "own_previous": own.copy()}

    def first_own(self, W: np.ndarray) -> np.ndarray:
        """The own part before the first round, shaped like W: zero."""
        return np.zeros_like(W)

    def finish(self, state: State, view: View) -> Models:
        P = self.apply_map(view["map"], self.kept(state["w"]))
        Q = self.shrink_own(state["own"], self._steps(view), view)
        W = P + Q
        intercept = best_intercepts(self.block, W, self.loss, self.public.fit_intercept)
        return Models(W, intercept, extra={"shared": P, "own": Q})

    def _steps(self, view: View) -> np.ndarray:
        steps = super()._steps(view)
        return steps / 2.0 if "map" in view and self.private else steps

    def _advance(self, state: State, view: View) -> State:
        M, eta = view["map"], self._steps(view)
        P, P_last, Q, Q_last = state["w"], state["previous"], state["own"], state["own_previous"]
        b = state["intercept"]
        for k in range(self.local_steps):
            P_hat = self.apply_map(M, self.kept(P))
            Q_hat = self.shrink_own(Q, eta, view)
            beta = self.method.momentum_at(view.round + k, float(view["curvature"]))
            Z_p, Z_q = P_hat + beta * (P_hat - P_last), Q_hat + beta * (Q_hat - Q_last)
            gradient, b = self._gradient(Z_p + Z_q, b, eta)
            move = eta[:, None, None] * gradient
            P, P_last, Q, Q_last = Z_p - move, P_hat, Z_q - move, Q_hat
        return {"w": P, "previous": P_last, "own": Q, "own_previous": Q_last, "intercept": b}

    def shrink_own(self, Q: np.ndarray, eta: np.ndarray, view: View) -> np.ndarray:
        """Step 11: the proximal map of h, task by task (h is a sum over tasks)."""
        structure = STRUCTURES.get(self.method.own)
        strength = np.repeat(eta * self.own_penalty(view), Q.shape[1] if structure.column == "output" else 1)
        return structure.models(structure.prox(structure.matrix(Q), strength), Q.shape)

    def own_penalty(self, view: View) -> np.ndarray:
        """(tasks,): the strength of the penalty on the own part: as given, as published, or from a task's own noise."""
        if self.method.own_penalty is not None:
            return np.full(self.block.n_tasks, float(self.method.own_penalty))
        if "own_penalty" in view:
            return np.full(self.block.n_tasks, float(view["own_penalty"]))
        noise, rows, _ = self._setup_once().T
        return np.sqrt(2 * np.log(self.block.n_features + 1) * noise / np.maximum(rows, 1.0))

    def _setup_once(self) -> np.ndarray:
        if not hasattr(self, "_own_setup"):
            self._own_setup = self._setup(super().start())
        return self._own_setup


class TwoPartServer(ProximalServer):
    """Algorithm 2's server with the shorter step, and (without privacy) a common own penalty."""

    method: LowRankSparse

    def _settings(self, releases: dict[str, np.ndarray]) -> State:  # type: ignore[override]
        state = super()._settings(releases)
        if self.private:
            return state
        noise, rows, _ = releases[SETUP].mean(axis=0)
        own = self.method.own_penalty
        if own is None:
            size = np.log(self.public.n_features * self.public.n_tasks + 1)
            own = float(np.sqrt(2 * size * noise / max(rows, 1.0)))
        half = 1.0 if self.method.step is not None else 0.5  # (P, Q) has curvature 2L
        return {
            "step": state["step"] * half,
            "curvature": state["curvature"] / half,
            "threshold": state["threshold"] * half,
            "own_penalty": np.array(own),
        }

    def step(self, state, releases, accepted):  # type: ignore[no-untyped-def]
        state, billboard = super().step(state, releases, accepted)
        if "own_penalty" in state:
            billboard.values["own_penalty"] = state["own_penalty"]  # type: ignore[index]
        return state, billboard


class GroupSparseTwoPart(TwoPartServer, GroupSparseServer):
    """l2,1 on the shared part."""
