"""A budget that follows the evidence: `subspace` with spending="adaptive". Ours.

    round 1  "moments"   probe: 30 % of the budget (of mu squared), the same sums as always
    round 2  nothing     where neither a mean nor a direction shows: the run ends, the rest was never released
             "mean"      all that is left, where only a mean shows
             "moments"   all that is left, else

Both rounds send the same message, so their sums are averaged by precision: where the second is the first over again, the two
are worth one release of the whole budget, and probing has cost nothing.

**Privacy.** Every release is mu_t-GDP whatever was released before, and what is released next is a function of earlier releases
and public sizes; accounts refuse what exceeds the total. So the whole is mu-GDP for the total (docs/theory/spending.md#adaptive),
whatever the rule below: it decides how useful a run is, never how private.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from taskveil.errors import OptionError
from taskveil.methods import direction_mean
from taskveil.methods.base import Billboard, Message, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.spikes import a_mean, first_direction, mean_within
from taskveil.methods.subspace import BOTH, MEAN, Subspace, SubspaceServer, SubspaceTasks, joint
from taskveil.privacy.contributions import MomentSum
from taskveil.privacy.plan import Budget, Plan, PlannedRelease, Request
from taskveil.tasks.block import TaskBlock

POLICY = "probe"
PROBE = 0.3  # of the budget
NO_DIRECTION, NO_MEAN = -3.5, -5.0  # log odds below which all of the budget would hardly show any either
FEW_DIRECTIONS, A_MEAN = -1.0, 0.0  # what is left goes to the mean where only that shows: log odds below and above


@dataclass(eq=False, repr=False)
class Probing(Subspace):
    """The probe, and what may follow."""

    def policy(self, public: PublicInfo, budget: Budget) -> str:
        return "" if budget.epsilon is None else POLICY

    def check(self, public: PublicInfo, budget: Budget) -> None:
        super().check(public, budget)
        if budget.epsilon is not None and not (joint(budget) and self.rounds in (None, 1)):
            raise OptionError(
                "spending='adaptive' probes with one noisy sum and goes on where something shows: give delta > 0 and Gaussian "
                "noise, and leave rounds out"
            )

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        if not self.policy(public, budget):
            return super().requests(public, budget)
        self.check(public, budget)
        (both,) = self._joint_requests(public, budget, 1)
        mean, left = direction_mean.contribution(public.n_outputs, public.n_features), math.sqrt(1.0 - PROBE)
        probe, again = replace(both, weight=math.sqrt(PROBE)), replace(both, round=2, weight=left)
        return [probe, again, Request(MEAN, 2, mean, weight=left)]

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return super().task_side(block, public, plan) if plan.total is None else ProbedTasks(block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return super().server_side(public, plan) if plan.total is None else ProbingServer(public, plan)


class ProbedTasks(SubspaceTasks):
    """Send the same in both rounds: what they learnt alone."""

    def __init__(self, block: TaskBlock, public: PublicInfo, plan: Plan):
        super().__init__(block, public, plan)
        _, self.first = ProbingServer(public, plan).start()

    def step(self, state: State, view: View) -> tuple[State, Message]:
        return super().step(state, replace(view, values=dict(self.first.values)))


class ProbingServer(SubspaceServer):
    """Averages what was released, and says what is released next."""

    def start(self) -> tuple[State, Billboard]:
        state, billboard = super().start()
        d, r = self.public.n_features, self.public.n_outputs
        seen = {
            "directions": np.zeros((r, d)), "logs": np.array(0.0), "directions_precision": np.array(0.0),
            "moment": np.zeros((d, d)), "moment_precision": np.array(0.0), "odds": np.zeros(2),
        }  # fmt: skip
        return {**state, **seen}, billboard

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        t, m = int(state["round"]) + 1, self.public.n_tasks
        new = {**state, "round": np.array(t)}
        for name, total in releases.items():
            new.update(self._added(new, self.planned[t, name], total))
        deviation, spread = (1 / math.sqrt(float(new[f"{name}_precision"])) for name in ("moment", "directions"))
        S, directions = new["moment"] * deviation**2, new["directions"] * spread**2
        new.update(self._structure(S, deviation))
        direction, doubt = mean_within(directions, spread, m, new["share"], new["basis"])
        new["mean"] = direction * direction_mean.length(float(new["logs"]) * spread**2, spread, m)
        new["mean_doubt"] = np.array(doubt if np.any(new["mean"]) else 0.0)
        odds = first_direction(S, deviation, m, self.public.n_outputs), a_mean(directions, spread, m, new["share"], new["basis"])
        new["odds"] = np.array(odds)
        return new, self._billboard(new, accepted)

    def chosen(self, state: State, possible: list[PlannedRelease]) -> list[PlannedRelease]:
        """The policy: a function of noisy sums and public sizes."""
        if int(state["round"]) == 0:
            return possible
        direction, mean = state["odds"]
        if direction < NO_DIRECTION and mean < NO_MEAN and not np.any(state["features"]):
            return []
        wanted = MEAN if mean > A_MEAN and direction < FEW_DIRECTIONS else BOTH
        return [p for p in possible if p.name == wanted]

    def _added(self, state: State, planned: PlannedRelease, total: np.ndarray) -> State:
        """Sums so far, each weighed by its precision."""
        deviation, what = self._deviation(planned), planned.contribution
        if isinstance(what, MomentSum):
            directions, logs, S = what.parts(total)
            precise = (what.moment_weight / deviation) ** 2
            moment = {"moment": state["moment"] + precise * S, "moment_precision": state["moment_precision"] + precise}
            weight = (what.mean_weight / deviation) ** 2
        else:
            directions = total[:-1].reshape(state["directions"].shape) / direction_mean.DIRECTION_PART
            logs = float(total[-1]) / direction_mean.LENGTH_PART
            moment, weight = {}, (direction_mean.DIRECTION_PART / deviation) ** 2
        return {
            **moment, "directions": state["directions"] + weight * directions, "logs": state["logs"] + weight * logs,
            "directions_precision": state["directions_precision"] + weight,
        }  # fmt: skip
