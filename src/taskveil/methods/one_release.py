"""One release says all that is shared: tasks send what they learnt alone, find in the sum what stands out, and solve to the end.

    task      sends its model, or only its direction, once
    server    finds common directions or features in the noisy second moment
    task      averages over the priors built from them, learning alone among them, by the evidence of its own rows

With much noise nothing is found, and every task learns alone to the last bit (MP-MTL Prop. 1). Methods `low-rank` and
`group-sparse` do this by default where there is noise; `subspace` has the same tasks and a mean beside the second moment.

`structure` finds what stands out in one noisy second moment S = sum_i w_i w_i': post-processing of a release. Messages are
directions (trace of S: the number of tasks), or models clipped to a norm K that somebody gave. Then the trace says how much
energy there is, and because no task holds more than K^2 of it, lengths that differ can at most multiply the variance that chance
alone gives S by K^2 tasks / trace.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from taskveil.methods.base import Billboard, Message, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.proximal import ProximalMethod
from taskveil.methods.proximal_sides import RELEASE, first_models
from taskveil.methods.shared_prior import RANGES, WeighingTasks, common_features, noise_deviation, unit_messages
from taskveil.methods.spikes import common_directions
from taskveil.privacy.plan import Budget, Plan, PlannedRelease
from taskveil.tasks.block import TaskBlock

SURE = 3.0  # standard deviations by which the energy must exceed zero


def structure(
    S: np.ndarray, planned: PlannedRelease, public: PublicInfo, aggregation: str, clip: float | None
) -> dict[str, np.ndarray]:
    """What stands out in S (d, d): share (d,) and basis (d, d) with their doubt; in its diagonal (d,): features. Else zeros.

    `clip`: the norm messages were clipped to; None: they are directions.
    """
    m, r = public.n_tasks, public.n_outputs
    deviation = noise_deviation(planned, m, aggregation)
    if clip is not None:
        S, deviation = _in_directions(S, deviation, clip, m, r)
    if S.ndim == 1:
        features, doubt = common_features(S, deviation, m, r, planned.mechanism.log_tail)
        return {"features": features, "features_doubt": np.array(doubt)}
    share, basis, doubt = common_directions(S, deviation, m, r)
    return {"share": share, "basis": basis, "share_doubt": np.array(doubt)}


def _in_directions(S: np.ndarray, deviation: float, clip: float, m: int, r: int) -> tuple[np.ndarray, float]:
    """S and its deviation as if directions had been sent; even, hence without structure, where its energy may be noise."""
    d = len(S)
    energy = float(np.sum(S) if S.ndim == 1 else np.trace(S))
    if energy <= SURE * deviation * math.sqrt(d):
        return (np.full(d, m / d) if S.ndim == 1 else np.eye(d) * m / d), deviation
    unit = m / energy
    uneven = max(0.0, clip**2 * unit - 1.0)
    return S * unit, math.sqrt((deviation * unit) ** 2 + uneven * 2 * m / (r * d * (d + 2)))


class OneReleaseMethod(ProximalMethod):
    """A proximal method that is better off with one release, and weighs what it shows; the loop where rounds are asked for."""

    usual_rounds = 1

    def chooses(self, budget: Budget) -> bool:
        """Whether tasks weigh in the end: one release, and not of models with noise of their own."""
        return budget.epsilon is not None and budget.aggregation != "local-model" and self.n_rounds(budget) == 1

    def weighs_prior(self, budget: Budget) -> bool:
        return self.chooses(budget)

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return OneReleaseTasks(self, block, public, plan) if self.chooses(plan.budget) else super().task_side(block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return OneReleaseServer(self, public, plan) if self.chooses(plan.budget) else super().server_side(public, plan)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return {**super().ranges(public), **RANGES}

    def replayed(self, billboards: list[Billboard], plan: Plan) -> list[Billboard]:
        return billboards[-1:] if self.chooses(plan.budget) else super().replayed(billboards, plan)


class OneReleaseTasks(WeighingTasks):
    """Send what they learnt alone: its direction, or the model itself where a norm to clip it to was given."""

    def step(self, state: State, view: View) -> tuple[State, Message]:
        W, _ = first_models(self.method.start, self.block, self.public)
        return state, {RELEASE: unit_messages(W) if self.method.clip is None else W}


class OneReleaseServer(ServerSide):
    """What stands out in the second moment."""

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        S, (planned,) = releases[RELEASE], self.plan.releases
        shared = structure(S, planned, self.public, self.plan.budget.aggregation, self.method.clip)
        return {}, Billboard(1, {"second-moment": S, **shared}, accepted=accepted)
