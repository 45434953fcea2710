"""Mean-regularised multi-task learning, linear, with noisy rounds (Hu, Wu, Smith 2023; Evgeniou & Pontil
2004).

    min over w_k, b_k of  sum_k [ l_k(w_k, b_k) + (lambda/2) |w_k - wbar|^2 ],    wbar the mean of all w_k

Every round the tasks send something of norm at most one clip, the server moves wbar, and in the end each
task fits itself around the last wbar. Everything between two releases is solved to the end, so tasks keep
no state. Three ways:

    strength=None   (default) what is sent is the direction and length of a weakly penalised model around wbar
                    (methods/direction_mean.py); no clip, step or lambda to tune. In the end each task
                    averages over staying near wbar, along it, or alone, by the evidence of its own rows.
    strength=lambda Algorithm 1 of the paper with exact local solves (methods/mean_rounds.py). lambda = 0 is
                    learning alone, lambda to infinity one model for all. Without noise it reaches the
                    optimum.
    unit="record"   noisy gradients of single rows at wbar, clipped row by row (methods/mean_records.py).

**Privacy** (docs/theory/mean-regularised.md#cohorts). Unit task: the sum has l2 sensitivity `clip` (add-remove), 2 `clip`
(replace-one), whatever a message depends on. Cohorts are Poisson with probability `rate`, drawn by the
runtime; sums are divided by the expected cohort, never the realised one, and an empty cohort releases noise
like any other; tasks weigh the same whatever they hold; wbar starts at zero. Observer: the other tasks.
Where the server sees who takes part, its statement has no amplification. Unit record: see mean_records.py.
Personal models come after the last release and never leave.

Neural models behind the same name: methods/neural.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.losses import LOSSES
from taskveil.methods import direction_mean, mean_records, mean_rounds
from taskveil.methods.base import ANY_TARGET, Billboard, Message, Method, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.local import best_intercepts
from taskveil.methods.shared_prior import RANGES, noise_deviation, priors, weighed_models
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.plan import Budget, Plan, Request, make_plan
from taskveil.privacy.units import Unit
from taskveil.solvers.evidence import residual_models
from taskveil.tasks.block import TaskBlock

RELEASE = "mean"
SIGNAL_TO_NOISE = 3.0  # of the weak penalty under which the models for the mean are fitted
MOST_ROUNDS = 5
NOISE_PER_ROUND = 0.15  # rounds = this over the noise of one release, norm over number of tasks


@dataclass(eq=False, repr=False)
class Mean(Method):
    """Personal models around a common mean.

    rounds        releases; None: from the noise (1 to 5), 10 with a given strength, 50 for records
    strength      lambda; None: directions are sent and each task weighs the mean against learning alone
    rate          probability that a task (unit record: a row) takes part in a round; None: always
    clip          norm of a message where strength is given (None: 1), of a row's gradient (None: by sizes)
    personalise   False: every task uses wbar itself, with its own intercept (what `pooled` does)
    tol           without noise and with a strength: stop when wbar moves less than this, relative; 0: never
    """

    name = "mean"
    kinds, losses = ANY_TARGET
    units: ClassVar[tuple[str, ...]] = ("task", "record")
    chooses_locally = True
    reference = "Hu, Wu, Smith 2023, Private Multi-Task Learning: Formulation and Applications to Federated Learning"

    rounds: int | None = None
    strength: float | None = None
    rate: float | None = None
    clip: float | None = None
    personalise: bool = True
    tol: float = 1e-10

    def check(self, public: PublicInfo, budget: Budget) -> None:
        super().check(public, budget)
        if budget.unit is Unit.RECORD:
            mean_records.check(self.strength, public)

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        self.check(public, budget)
        what: VectorSum
        default: int | None
        if budget.unit is Unit.RECORD:
            what, default = mean_records.contribution(public, self.clip), mean_records.ROUNDS
        elif self.strength is not None:
            what, default = mean_rounds.contribution(public, budget, self.clip), mean_rounds.rounds(budget)
        else:
            what, default = direction_mean.contribution(public.n_outputs, public.n_features), None
        rounds = self.rounds or default or self._rounds(public, budget)
        return [Request(RELEASE, t + 1, what, rate=self.rate) for t in range(rounds)]

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        if plan.budget.unit is Unit.RECORD:
            return PersonalRecordTasks(self, block, public, plan)
        sides = MeanTasks if self.strength is None else mean_rounds.FixedTasks
        return sides(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        if plan.budget.unit is Unit.RECORD:
            return mean_records.RecordServer(self, public, plan)
        server = MeanServer if self.strength is None else mean_rounds.FixedServer
        return server(self, public, plan)

    def chooses(self, budget: Budget) -> bool:
        """By evidence; not where rows were protected or a strength was given: there held-out rows say what the mean is worth."""
        return not self.personalise or (self.strength is None and budget.unit is not Unit.RECORD)

    def weighs_prior(self, budget: Budget) -> bool:
        return self.personalise and (self.strength is None or budget.unit is Unit.RECORD)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return RANGES

    def keeps_history(self, plan: Plan) -> bool:
        return False

    def replayed(self, billboards: list[Billboard], plan: Plan) -> list[Billboard]:
        """Tasks keep no state: the last billboard is all that a new task needs."""
        return billboards[-1:]

    def shared_model(self, public: PublicInfo, plan: Plan, billboard: Billboard) -> Models | None:
        intercept = billboard.values.get("intercept", np.zeros(public.n_outputs))
        return Models(billboard.values["mean"][None], np.asarray(intercept)[None])

    def _rounds(self, public: PublicInfo, budget: Budget) -> int:
        if budget.epsilon is None:
            return MOST_ROUNDS
        what = direction_mean.contribution(public.n_outputs, public.n_features)
        planned = make_plan([Request(RELEASE, 1, what, rate=self.rate)], budget).releases[0]
        cohort = public.n_tasks * (self.rate or 1.0)
        noise = noise_deviation(planned, cohort, budget.aggregation) * math.sqrt(what.vector_size) / cohort
        return int(np.clip(round(NOISE_PER_ROUND / noise), 1, MOST_ROUNDS))


class MeanTasks(TaskSide):
    """Directions and lengths out, averages over priors around wbar in the end."""

    def step(self, state: State, view: View) -> tuple[State, Message]:
        loss, intercept = self.public.loss, self.public.fit_intercept
        left = residual_models(self.block, view["mean"], SIGNAL_TO_NOISE, loss, intercept, own_scale=False)
        return state, {RELEASE: direction_mean.messages(left)}

    def finish(self, state: State, view: View) -> Models:
        doubt = float(view["mean_doubt"])
        return personal_models(self.block, self.public, view["mean"], self.method.personalise, doubt)


class PersonalRecordTasks(mean_records.RecordTasks):
    """Row gradients out; in the end the same averages, by their owners for themselves."""

    def finish(self, state: State, view: View) -> Models:
        return personal_models(self.block, self.public, view["mean"], self.method.personalise)


def personal_models(block: TaskBlock, public: PublicInfo, mean: np.ndarray, personalise: bool, doubt: float = 0.0) -> Models:
    """Around a public mean (r, d): averaged over priors by evidence, or the mean itself with own
    intercepts.
    """
    if not personalise:
        W, loss = np.repeat(mean[None], block.n_tasks, axis=0), LOSSES.get(public.loss)
        return Models(W, best_intercepts(block, W, loss, public.fit_intercept), np.ones(block.n_tasks, dtype=bool))
    d = public.n_features
    return weighed_models(block, public, priors(mean, np.zeros(d), np.eye(d), (doubt, 0.0)), own_scale=False)


class MeanServer(ServerSide):
    """wbar <- wbar + the denoised mean of what is left around it."""

    published = ("mean", "mean_doubt")

    def first(self) -> State:
        return {"mean": np.zeros((self.public.n_outputs, self.public.n_features)), "mean_doubt": np.array(0.0)}

    def changes(self, state: State, releases: Mapping[str, np.ndarray], t: int) -> State:
        planned = self.plan.releases[t - 1]
        cohort = self.public.n_tasks * (planned.rate or 1.0)  # the expected cohort
        deviation = noise_deviation(planned, cohort, self.plan.budget.aggregation)
        estimate = direction_mean.estimate(releases[RELEASE], deviation, cohort, state["mean"].shape)
        mean, doubt = direction_mean.accumulated(state, *estimate)
        return {"mean": mean, "mean_doubt": doubt}
