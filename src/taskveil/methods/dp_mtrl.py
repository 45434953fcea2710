"""DP-MTRL (Gupta, Rana & Venkatesh 2016) as MP-MTL section 5.1 modifies it: noisy models, relationships learnt from them.

Each round every task solves, in closed form and with least squares even for labels,

    min_w  L_i(w) + (ridge/2)|w|^2 + (penalty/2) (Omega^-1_ii |w|^2 + 2 w' sum_{j != i} Omega^-1_ij w~_j)

and releases w_i with noise; Omega = (W~'W~)^(1/2) / tr follows from the noisy models.

Messages are clipped to K, so that noise for 2K (replace-one) is enough whatever the data; composed over rounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.losses import LOSSES
from taskveil.methods.base import LARGEST, Message, Method, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.local import best_intercepts
from taskveil.privacy.contributions import Contribution, TaskStack
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.solvers.newton import minimise_local
from taskveil.structures.relationship import Relationship as Structure
from taskveil.tasks.block import TaskBlock

MODELS = "models"
FLOOR = 0.05  # share of the uniform covariance mixed into Omega, so that it can be inverted


@dataclass(eq=False, repr=False)
class DpMtrl(Method):
    """Learn how tasks relate, from noisy models.

    rounds   releases (each one costs); penalty and ridge: strengths of the relationship and of plain shrinkage
    clip     K, the norm a task's message is clipped to
    """

    name = "dp-mtrl"
    forms: ClassVar[dict[str, str]] = {"paper": ".papers.gupta_2016:DpMtrl"}
    aggregations = ("curator", "local")
    reference = "Gupta, Rana & Venkatesh 2016; MP-MTL section 5.1"

    rounds: int = 3
    penalty: float = 0.01
    ridge: float = 0.01
    clip: float = 1.0

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        bound = self.clip if budget.epsilon is not None else Contribution.unbounded
        what = TaskStack(public.n_tasks, (public.n_outputs, public.n_features), bound)
        return [Request(MODELS, t + 1, what) for t in range(self.rounds)]

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return {"weight": (0.0, LARGEST)}

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return NoisyModelTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return NoisyModelServer(self, public, plan)


class NoisyModelTasks(TaskSide):
    """Solve around the relations on the billboard, send the model."""

    squared = LOSSES.get("squared")  # closed form, also for labels

    def start(self) -> State:
        return {"w": np.zeros((self.block.n_tasks, self.block.n_outputs, self.block.n_features))}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        W, _ = self._solve(view)
        return {"w": W}, {MODELS: W}

    def finish(self, state: State, view: View) -> Models:
        """Solves once more with what is now public."""
        return self._with_intercepts(self._solve(view)[0])

    def _with_intercepts(self, W: np.ndarray) -> Models:
        return Models(W, best_intercepts(self.block, W, self.loss, self.public.fit_intercept))

    def _solve(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        """The closed form; completing the square turns the pull of the others into a centre."""
        m = self.block.n_tasks
        weight = view["weight"] if "weight" in view else np.ones(m)
        strength = self.method.ridge + self.method.penalty * weight
        shape = (m, self.block.n_outputs, self.block.n_features)
        pull = view["pull"] if "pull" in view else np.zeros(shape)
        centre = -self.method.penalty * pull / strength[:, None, None]
        W, _ = minimise_local(self.block, self.squared, strength, centre, self.public.fit_intercept)
        return W, strength


class NoisyModelServer(ServerSide):
    """Learns relations from the noisy models and publishes them."""

    published, per_task = ("weight", "pull", "own_noisy", "omega"), frozenset({"weight", "pull", "own_noisy"})

    def changes(self, state: State, releases: Mapping[str, np.ndarray], t: int) -> State:
        noisy = releases[MODELS]
        flat = noisy.reshape(len(noisy), -1)
        omega = Structure().covariance(flat @ flat.T, ridge=FLOOR)
        inverse = np.linalg.inv(omega) / len(noisy)  # I/m has inverse m I: scaled so that unrelated tasks have weight 1
        weight = np.diag(inverse).copy()
        pull = ((inverse - np.diag(weight)) @ flat).reshape(noisy.shape)
        return {"weight": weight, "pull": pull, "own_noisy": noisy, "omega": omega}
