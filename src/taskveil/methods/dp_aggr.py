"""DP-AGGR: one averaged model for everybody (Pathak, Rane & Raj 2010), as a model-protected baseline.

Release     sum_i w_i of regularised local models, every message clipped to K: l2 sensitivity K (add-remove), 2K (replace-one),
            unit task. Gaussian by default, `mechanism="l2-laplace"` for pure DP.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.methods.base import Billboard, Message, Method, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.local import alone_models, best_intercepts
from taskveil.privacy.contributions import Contribution, VectorSum
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.solvers.newton import minimise_local
from taskveil.tasks.block import TaskBlock

RELEASE = "models"


@dataclass(eq=False, repr=False)
class DpAggr(Method):
    """Share the average of all local models.

    penalty       ridge strength of the local models; None lets each task choose on its own rows (as printed: 0.1)
    clip          K, the norm a task's message is clipped to
    n_min, n_max  declared smallest and largest number of rows of a task; as printed (papers/pathak_2010.py) they give K
    """

    name = "dp-aggr"
    forms: ClassVar[dict[str, str]] = {"paper": ".papers.pathak_2010:DpAggr"}
    reference = "Pathak, Rane & Raj 2010; MP-MTL sections 4.6 and 5.1"

    penalty: float | None = None
    clip: float = 1.0
    n_min: int | None = None
    n_max: int | None = None

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        bound = self.clip if budget.epsilon is not None else Contribution.unbounded
        return [Request(RELEASE, 1, VectorSum((public.n_outputs, public.n_features), bound))]

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return AveragedTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return AveragingServer(self, public, plan)

    @property
    def strength(self) -> float | None:
        """The ridge penalty of the local models."""
        return self.penalty

    def shared_model(self, public: PublicInfo, plan: Plan, billboard: Billboard) -> Models | None:
        return Models(billboard.values["mean"][None], np.zeros((1, public.n_outputs)))


class AveragedTasks(TaskSide):
    """Send the model learned alone; in the end use the average as it is."""

    def start(self) -> State:
        if self.method.strength is None:
            return {"w": alone_models(self.block, self.public).coef}
        return {"w": minimise_local(self.block, self.loss, self.method.strength, fit_intercept=self.public.fit_intercept)[0]}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        return state, {RELEASE: state["w"]}

    def finish(self, state: State, view: View) -> Models:
        W = np.repeat(view["mean"][None], self.block.n_tasks, axis=0)
        return Models(W, best_intercepts(self.block, W, self.loss, self.public.fit_intercept))


class AveragingServer(ServerSide):
    """Divides by the public number of tasks."""

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        return {}, Billboard(1, {"mean": releases[RELEASE] / self.public.n_tasks}, accepted=accepted)
