"""DP-AGGR: one averaged model for everybody (Pathak, Rane & Raj 2010), as a model-protected baseline.

Release     sum_i w_i of regularised local models.
Sound       every message clipped to K: l2 sensitivity K (add-remove), 2K (replace-one), unit task. Gaussian by default,
            `mechanism="l2-laplace"` for pure DP.
Paper       per-record sensitivity 2/(n_min lambda) of one model (1-Lipschitz loss, |x| <= 1), turned into a per-task one by
            MP-MTL Prop. 3 with n = n_max: the task's whole data moves the sum by at most 2 n_max/(n_min lambda). That is the
            sensitivity of messages clipped to K = n_max/(n_min lambda), so the same clipping makes it true for every
            loss: `n_min` and `n_max` must be declared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from taskveil.errors import OptionError
from taskveil.losses import LOSSES
from taskveil.methods.alone import alone_models, best_intercepts
from taskveil.methods.base import Billboard, Message, Method, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.privacy.contributions import Contribution, VectorSum
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.solvers.newton import minimise_local
from taskveil.tasks.block import TaskBlock

RELEASE = "models"


class DpAggr(Method):
    """The average of all local models.

    penalty       ridge strength of the local models; None lets each task choose on its own rows (paper variant: 0.1)
    clip          K of the sound variant
    n_min, n_max  declared smallest and largest number of rows of a task (paper variant)
    """

    name = "dp-aggr"
    variants = ("sound", "paper")
    reference = "Pathak, Rane & Raj 2010; MP-MTL sections 4.6 and 5.1"

    def __init__(self, penalty: float | None = None, clip: float = 1.0, n_min: int | None = None, n_max: int | None = None):
        self.penalty = penalty
        self.clip = clip
        self.n_min = n_min
        self.n_max = n_max

    def strength(self, budget: Budget) -> float | None:
        return self.penalty if self.penalty is not None or budget.variant == "sound" else 0.1

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        shape = (public.n_outputs, public.n_features)
        return [Request(RELEASE, 1, VectorSum(shape, self.bound(budget)), mechanism=self.mechanism(budget))]

    def mechanism(self, budget: Budget) -> str | None:
        return "l2-laplace" if budget.variant == "paper" else None

    def bound(self, budget: Budget) -> float:
        if budget.epsilon is None:
            return Contribution.unbounded
        if budget.variant == "sound":
            return self.clip
        if not (self.n_min and self.n_max and 0 < self.n_min <= self.n_max):
            raise OptionError(
                "dp-aggr in its paper variant needs the declared smallest and largest number of rows of a task: "
                "n_min=..., n_max=... (--set n_min=30 --set n_max=30)"
            )
        strength = self.strength(budget)
        assert strength is not None
        return self.n_max / (self.n_min * strength)

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return AveragedTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return AveragingServer(public)

    def shared_model(self, public: PublicInfo, plan: Plan, billboard: Billboard) -> Models | None:
        return Models(billboard.values["mean"][None], np.zeros((1, public.n_outputs)))


class AveragedTasks(TaskSide):
    def __init__(self, method: DpAggr, block: TaskBlock, public: PublicInfo, plan: Plan):
        self.method, self.block, self.public, self.plan = method, block, public, plan
        self.loss = LOSSES.get(public.loss)

    def start(self) -> State:
        strength = self.method.strength(self.plan.budget)
        if strength is None:
            return {"w": alone_models(self.block, self.public).coef}
        return {"w": minimise_local(self.block, self.loss, strength, fit_intercept=self.public.fit_intercept)[0]}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        return state, {RELEASE: state["w"]}

    def finish(self, state: State, view: View) -> Models:
        W = np.repeat(view["mean"][None], self.block.n_tasks, axis=0)
        return Models(W, best_intercepts(self.block, W, self.loss, self.public.fit_intercept))


class AveragingServer(ServerSide):
    """Divides by the public number of tasks."""

    def __init__(self, public: PublicInfo):
        self.public = public

    def start(self) -> tuple[State, Billboard]:
        return {}, Billboard(0, {})

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        return {}, Billboard(1, {"mean": releases[RELEASE] / self.public.n_tasks}, accepted=accepted)
