"""Low-rank learning by Frank-Wolfe steps: MP-MTL's frame (Algorithm 1, any map and local algorithm; section 1 names Frank-Wolfe).

    min sum_i L_i(w_i)   subject to  |W|_* <= radius

The step goes toward the corner -radius u v' of the ball, u and v the first singular vectors of the gradient G = (g_1, ..., g_m).
All that tasks need of each other is u and the singular value s: v_i = u'g_i / s is task i's own.

    task      g_i at its own model, clipped                                                        (the message)
    release   S = sum_i g_i g_i' + noise; sensitivity sqrt(2) C^2 (replace-one), C^2 (add-remove)   (privacy/contributions.py)
    server    u, s^2: the largest eigenpair of S                                                   (the billboard)
    task      w_i <- (1 - gamma) w_i - gamma radius v_i u,   |v_i| held to one

Jain, Thakkar & Thakurta (2018) prove this scheme private in the same joint sense for matrix completion. Without noise gamma is
2/(t + 2) for all (Jaggi 2013): the gap closes like 1/rounds. With noise rounds are few and local work is free: each task goes as
far as its own loss falls for certain, <g_i, w_i - s_i> / (L_i |w_i - s_i|^2) of the way to its part s_i of the corner. No task's
loss rises, the rank is at most the number of rounds, and the radius bounds a step, no longer the sum of them. A task that
gained nothing keeps what it learns alone. Noise and charge: docs/theory/model-protected.md#frank-wolfe.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.checks import Rule
from taskveil.methods.base import LARGEST, Message, Method, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.local import best_intercepts
from taskveil.methods.local_gradients import local_curvature
from taskveil.methods.options import POSITIVE
from taskveil.privacy.contributions import Contribution, OuterSum
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.solvers.block_gradient import mean_gradients
from taskveil.solvers.padding import per_task
from taskveil.tasks.block import TaskBlock

RELEASE = "gradient-moment"
PRIVATE_ROUNDS, PLAIN_ROUNDS = 4, 300
USUAL_RANK = 4  # the usual radius has room for so many common directions along which models have length one
LEAST = 1e-12


@dataclass(eq=False, repr=False)
class FrankWolfe(Method):
    """Models inside a trace-norm ball, one common direction a round.

    rounds      releases, and the largest rank; None: 4 with noise, 300 without
    radius      of the trace-norm ball, public; None: sqrt(4 tasks x outputs), four directions with models of length one
    clip        C, the norm to which a task's gradient is clipped
    """

    name = "frank-wolfe"
    aggregations = ("curator", "local", "secure")
    reference = "Liang et al., Model-Protected Multi-Task Learning, Algorithm 1; Jain, Thakkar, Thakurta 2018; Jaggi 2013"
    rules: ClassVar[Mapping[str, Rule]] = {"radius": POSITIVE}

    rounds: int | None = None
    radius: float | None = None
    clip: float = 1.0

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        private = budget.epsilon is not None
        what = OuterSum(public.n_features, self.clip if private else Contribution.unbounded, public.n_outputs)
        rounds = self.rounds or (PRIVATE_ROUNDS if private else PLAIN_ROUNDS)
        return [Request(RELEASE, t + 1, what) for t in range(rounds)]

    def ball(self, public: PublicInfo) -> float:
        """Radius of the trace-norm ball: as given, or from public sizes."""
        return self.radius or float(np.sqrt(USUAL_RANK * public.n_tasks * public.n_outputs))

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return FrankWolfeTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return FrankWolfeServer(self, public, plan)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return {"direction": (-1.0, 1.0), "size": (LEAST, LARGEST)}


class FrankWolfeTasks(TaskSide):
    """Own models and their gradients; the intercept is unpenalised and always the best one."""

    def __init__(self, method: FrankWolfe, block: TaskBlock, public: PublicInfo, plan: Plan):
        super().__init__(method, block, public, plan)
        self.radius = method.ball(public)
        self.curvature = None if plan.budget.epsilon is None else local_curvature(block, public)

    def start(self) -> State:
        return self._at(np.zeros((self.block.n_tasks, self.block.n_outputs, self.block.n_features)))

    def _at(self, W: np.ndarray) -> State:
        b = best_intercepts(self.block, W, self.loss, self.public.fit_intercept)
        return {"w": W, "gradient": mean_gradients(self.block, W, b, self.loss)[0]}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        if "direction" in view:
            state = self._at(self._moved(state, view))
        return state, {RELEASE: state["gradient"]}

    def finish(self, state: State, view: View) -> Models:
        W = self._moved(state, view)
        return Models(W, best_intercepts(self.block, W, self.loss, self.public.fit_intercept))

    def _moved(self, state: State, view: View) -> np.ndarray:
        """v_i has length at most one in every honest run; held to it, no view can throw a model far out of the ball."""
        W, g = state["w"], state["gradient"]
        u = view["direction"] / max(float(np.linalg.norm(view["direction"])), LEAST)
        v = per_task("krd,kd->kr", g, np.broadcast_to(u, (len(g), u.size))) / float(view["size"])
        v /= np.maximum(1.0, np.linalg.norm(v, axis=1, keepdims=True))
        away = -self.radius * v[:, :, None] * u - W
        if self.curvature is None:
            return np.asarray(W + 2.0 / (view.round + 1.0) * away)
        fall, length = -per_task("krd,krd->k", g, away), per_task("krd,krd->k", away, away)
        share = np.clip(fall / np.maximum(self.curvature * length, LEAST), 0.0, 1.0)
        return np.asarray(W + share[:, None, None] * away)


class FrankWolfeServer(ServerSide):
    """The largest eigenpair of the noisy moment."""

    published = ("direction", "size")

    def changes(self, state: State, releases: Mapping[str, np.ndarray], t: int) -> State:
        values, U = np.linalg.eigh(releases[RELEASE])
        return {"direction": U[:, -1], "size": np.array(max(float(values[-1]), LEAST) ** 0.5)}
