"""One release says all that is shared: tasks send what they learnt alone, find in the sum what stands out, and solve to the end.

    task      sends its model, or only its direction, once
    server    finds common directions or features in the noisy second moment (moment_structure.py)
    task      averages over the priors built from them, learning alone among them, by the evidence of its own rows

With much noise nothing is found, and every task learns alone to the last bit (MP-MTL Prop. 1). Methods `low-rank` and
`group-sparse` do this by default where there is noise; `subspace` has the same tasks and a mean beside the second moment.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from taskveil.methods import moment_structure
from taskveil.methods.base import Billboard, Message, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.proximal import ProximalMethod
from taskveil.methods.proximal_sides import RELEASE, first_models
from taskveil.methods.shared_prior import RANGES, WeighingTasks, unit_messages
from taskveil.privacy.plan import Budget, Plan
from taskveil.tasks.block import TaskBlock


class OneReleaseMethod(ProximalMethod):
    """A proximal method that is better off with one release, and weighs what it shows; the loop where rounds are asked for."""

    usual_rounds = 1

    def chooses(self, budget: Budget) -> bool:
        """Whether tasks weigh in the end: one release, and not of models with noise of their own."""
        return budget.epsilon is not None and budget.aggregation != "local-model" and self.n_rounds(budget) == 1

    def weighs_prior(self, budget: Budget) -> bool:
        return self.chooses(budget)

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return OneReleaseTasks(self, block, public) if self.chooses(plan.budget) else super().task_side(block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return OneReleaseServer(self, public, plan) if self.chooses(plan.budget) else super().server_side(public, plan)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return {**super().ranges(public), **RANGES}

    def replayed(self, billboards: list[Billboard], plan: Plan) -> list[Billboard]:
        return billboards[-1:] if self.chooses(plan.budget) else super().replayed(billboards, plan)


class OneReleaseTasks(WeighingTasks):
    """Send what they learnt alone: its direction, or the model itself where a norm to clip it to was given."""

    def __init__(self, method: OneReleaseMethod, block: TaskBlock, public: PublicInfo):
        super().__init__(block, public)
        self.method = method

    def step(self, state: State, view: View) -> tuple[State, Message]:
        W, _ = first_models(self.method.start, self.block, self.public)
        return state, {RELEASE: unit_messages(W) if self.method.clip is None else W}


class OneReleaseServer(ServerSide):
    """What stands out in the second moment."""

    def __init__(self, method: OneReleaseMethod, public: PublicInfo, plan: Plan):
        self.method, self.public, self.plan = method, public, plan

    def start(self) -> tuple[State, Billboard]:
        return {}, Billboard(0, {})

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        S, (planned,) = releases[RELEASE], self.plan.releases
        found = moment_structure.structure(S, planned, self.public, self.plan.budget.aggregation, self.method.clip)
        return {}, Billboard(1, {"second-moment": S, **found}, accepted=accepted)
