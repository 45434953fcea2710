"""Together: one public model and how tasks differ from it, for tables whose tasks have few rows. Ours.

`subspace` sends directions of models with an intercept of their own; from three rows these carry nothing. Here a row has a
constant column, so that a task of one row, or of one class, still says something about the common model:

    "base"      mean label of every task (classification only, round 1)               VectorSum, bound 1
    "score"     a ridge step of every task from the public model, in units of the     VectorSum, bound 1
                longest: for few rows its gradient, for many its solution (numbers and labels without noise: pooled.py)
    "moment"    second moment of what is left of a task's slopes, of length one       OuterSum, bound 1
    "strength"  what its rows say (log evidence) of each way to differ from the       VectorSum, bound 1
                public model, and by how much (last round)
    server      adds denoised steps up; summed evidence is the log posterior of one strength for all
    task        averages over ways and strengths, by that belief and the evidence of its own rows

Steps for logistic loss are those of Boehning & Lindsay (1988), with curvature 1/4 everywhere: linear in the labels, so that they
add up to zero at the right model however rare a class is, and short, so that cutting them off does not change that. The server
makes up for it: it divides by 4 p (1 - p) at the base rate, which bounds the mean curvature wherever classes stay as rare.

**Units.** Steps add up best in common units: they are bought first where no ranges are declared (methods/common_scale.py); where
that is too dear, every task's own units serve, and tasks of fewer rows than make a unit stay alone.

Single rows are protected by other messages: together_records.py (docs/theory/model-protected.md#together-records).

**Privacy.** Unit: the task. Every message has norm at most 1 by clipping, so one task moves a vector sum by 1 (add-remove) or 2
(replace-one) in l2, and the second moment by 1 or sqrt(2) in Frobenius norm (see subspace.py), whatever its rows are; later
messages are functions of rows and billboards: adaptive composition of Gaussian releases, accounted by the plan. A message that
is not finite is sent as zero. What a task makes of the last billboard stays with it. Observer: the other tasks (billboard
lemma); the server too where the aggregation hides messages from it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar

import numpy as np

from taskveil.checks import Choice, Number, Rule, optional
from taskveil.losses import LOSSES
from taskveil.methods import together_records
from taskveil.methods.around_model import (
    KNOWN,
    SENT,
    WAYS,
    WITH_DIRECTIONS,
    chosen_models,
    models_around,
    nothing_known,
    ways,
    without_noise,
)  # fmt: skip
from taskveil.methods.base import ANY_TARGET, Billboard, Message, Method, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.base_rates import (
    BASE,
    MOST_RATE_NOISE,
    BaseRateServer,
    BaseRateTasks,
    base_message,
    has_base_rates,
    near_base_rates,
    rate_deviation,
    with_base_rates,
)
from taskveil.methods.common_units import CommonUnits
from taskveil.methods.held_out import BLENDS, HELD_OUT, best_blend, blended, held_out_losses
from taskveil.methods.local import alone_models
from taskveil.methods.own_intercepts import STATISTICS
from taskveil.methods.own_units import alone_in_own_units
from taskveil.methods.pooled import common_level, determined, newton_rounds, newton_step, statistics, statistics_request
from taskveil.methods.shared_prior import FEW_ROWS, RANGES, noise_deviation, unit_messages
from taskveil.methods.spikes import common_directions
from taskveil.methods.subspace import Subspace, moment_noise
from taskveil.privacy.contributions import Contribution, OuterSum, VectorSum
from taskveil.privacy.plan import Budget, Plan, PlannedRelease, Request, make_plan
from taskveil.privacy.units import Unit
from taskveil.solvers.evidence import log_evidence, residual_models
from taskveil.tasks.block import TaskBlock

SCORE, MOMENT, STRENGTH = "score", "moment", "strength"
STEP_SIGNAL, DIRECTION_SIGNAL = 1.0, 10.0  # signal-to-noise ratio of the penalty under which steps and directions are found
BASE_SHARE, STRENGTH_SHARE, MOMENT_SHARE = 0.05, 0.1, 0.5  # of the budget (of rho)
MOST_ROUNDS, PLAIN_ROUNDS = 8, 30
NOISE_PER_ROUND, OF_LABELS = 0.12, 0.06  # rounds = this over the noise of one release, norm over number of tasks
MOST_NOISE = {
    "numbers": 0.14,
    "labels": 0.7,
}  # of one release, times the root of the number of features; above it directions are sent
MOST_MOMENT_NOISE = 0.5  # of the energy of tasks that all agree: above it directions can tell little
EVIDENCE_SIZE = 3.0  # nats at which what a task says is cut off
LEAST_BEND = 0.2  # of the curvature at even odds: steps are lengthened five times at most
FURTHER = 1.8  # and further still: penalties shorten them, and below two such a walk converges
CLEAR = 4.0  # deviations of noise by which one sum must be ahead of another
HEARD = 0.15  # nats a task must be ahead on average to be heard: more noise, and nobody is asked
SURE = 12.0  # nats by which what all tasks say may speak against a way or a strength


class Together(Method):
    """Learn together by the kind of message that suits the public sizes. Each task weighs the result against learning alone.

    messages      "scores" (above), "directions" (all of `subspace`), None: scores where noise is small (norm over number of
                  tasks, times the root of the number of features, at most 0.14, or 0.4 for labels, whose directions say
                  little: more features leave more to directions), else directions
    rounds        releases of the score; None: from the noise (1 to 8)
    moment_share  share of the budget (of rho, in zCDP terms) for the second moment
    """

    name = "together"
    kinds, losses = ANY_TARGET
    units: ClassVar[tuple[str, ...]] = ("task", "record")
    chooses_locally = True
    common_units = True
    reference = "ours; docs/theory/model-protected.md#together"
    rules: ClassVar[dict[str, Rule]] = {
        "messages": optional(Choice("scores", "directions")),
        "moment_share": Number(at_least=0, at_most=0.8),
    }

    def __init__(self, messages: str | None = None, rounds: int | None = None, moment_share: float = MOMENT_SHARE):
        self.messages = messages
        self.rounds = rounds
        self.moment_share = moment_share

    def in_own_units(self) -> Method:
        return Together("directions", self.rounds, self.moment_share)

    def weighs_prior(self, budget: Budget) -> bool:
        """Directions do; a run with a prior takes them (see TaskEstimator)."""
        return self.messages == "directions" and not by_rows(budget)

    def check(self, public: PublicInfo, budget: Budget) -> None:
        super().check(public, budget)
        if by_rows(budget):
            together_records.check(public)

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        self.check(public, budget)
        if by_rows(budget):
            return together_records.requests(public, budget, self.rounds)
        if not self.gains_by_common_units(public, budget):
            budget = replace(budget, unit=Unit.TASK)
            directions = self._directions().requests(public, budget)
            lost = budget.epsilon is not None and moment_noise(make_plan(directions, budget), public.n_tasks) > MOST_MOMENT_NOISE
            return with_base_rates(directions, public, budget, only=lost)
        if budget.epsilon is None and common_level(public):
            return self._exact_requests(public)
        rounds, strength = self._sizes(public, budget)
        return self._requests(public, rounds, private=budget.epsilon is not None, strength=strength)

    def gains_by_common_units(self, public: PublicInfo, budget: Budget) -> bool:
        """Whether scores are sent: a public question."""
        if by_rows(budget):
            return False  # rows come in declared units
        if self.messages is not None or budget.epsilon is None:
            return self.messages != "directions"
        most = MOST_NOISE.get(LOSSES.get(public.loss).targets, MOST_NOISE["numbers"])
        return self._noise(public, budget)[SCORE] * math.sqrt(public.n_features) <= most

    def _directions(self) -> Subspace:
        return Subspace(self.rounds)

    def _exact_requests(self, public: PublicInfo) -> list[Request]:
        """Without noise: the model of all rows from exact statistics, then what is left of each task's, then strengths."""
        rounds, width = newton_rounds(public, self.rounds), public.n_features + int(public.fit_intercept)
        requests = [statistics_request(public, t + 1) for t in range(rounds)]
        if self.moment_share > 0.0:
            rounds += 1
            requests.append(Request(MOMENT, rounds, OuterSum(width, 1.0, public.n_outputs)))
        requests.append(Request(STRENGTH, rounds + 1, VectorSum((WAYS, len(SENT)), Contribution.unbounded)))
        if public.n_tasks == 1:  # whose public model is its own
            return requests
        return [*requests, Request(HELD_OUT, rounds + 2, VectorSum((len(BLENDS),), Contribution.unbounded))]

    def _requests(self, public: PublicInfo, rounds: int, *, private: bool = True, strength: bool = True) -> list[Request]:
        """Weights are noise precisions: squares add up to the shares of the budget."""
        r, width = public.n_outputs, public.n_features + int(public.fit_intercept)
        first, base, last = int(based(public)), BASE_SHARE * based(public), STRENGTH_SHARE * strength
        score, bound = 1.0 - base - last - self.moment_share, 1.0 if private else Contribution.unbounded
        requests = [Request(BASE, 1, VectorSum((r,), 1.0), weight=math.sqrt(base))] if first else []
        for t in range(first + 1, first + rounds + 1):
            requests.append(Request(SCORE, t, VectorSum((r, width), bound), weight=math.sqrt(score / rounds)))
        if self.moment_share > 0.0:
            requests.append(Request(MOMENT, first + rounds, OuterSum(width, 1.0, r), weight=math.sqrt(self.moment_share)))
        if strength:
            requests.append(Request(STRENGTH, first + rounds + 1, VectorSum((WAYS, len(SENT)), bound), weight=math.sqrt(last)))
        return requests

    def _sizes(self, public: PublicInfo, budget: Budget) -> tuple[int, bool]:
        """Rounds, and whether the common strength can be told from noise: from public sizes alone."""
        if budget.epsilon is None:
            return int(self.rounds or PLAIN_ROUNDS), True
        noise, enough = self._noise(public, budget), OF_LABELS if LOSSES.get(public.loss).labels else NOISE_PER_ROUND
        return int(self.rounds or np.clip(enough / noise[SCORE], 1, MOST_ROUNDS)), noise[STRENGTH] <= HEARD

    def _noise(self, public: PublicInfo, budget: Budget) -> dict[str, float]:
        """Norm of the noise of one score, and what noise hides in a release of the strength, over the number of tasks."""
        noise = {}
        for planned in make_plan(self._requests(public, 1), budget).releases:
            factor = CLEAR * EVIDENCE_SIZE if planned.name == STRENGTH else math.sqrt(planned.contribution.vector_size)
            noise[planned.name] = factor * noise_deviation(planned, public.n_tasks, budget.aggregation) / public.n_tasks
        return noise

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        if by_rows(plan.budget):
            return together_records.RecordTasks(self, block, public, plan)
        if scored(plan):
            return TogetherTasks(self, block, public, plan)
        side = self._directions().task_side(block, public, plan)
        return BaseRateTasks(side, block, public, plan) if has_base_rates(plan) else side

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        if by_rows(plan.budget):
            return together_records.RecordServer(self, public, plan)
        if scored(plan):
            return TogetherServer(self, public, plan)
        side = self._directions().server_side(public, plan)
        return BaseRateServer(side, public, plan) if has_base_rates(plan) else side

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        own = {"belief": (-SURE, 0.0), "model": (-1e3, 1e3), "model_doubt": (-10.0, 0.0), BASE: (-1.0, 1.0)}
        own |= {"leverage": (0.0, 1e6), "blend": (0.0, 1.0)}
        return {**RANGES, **together_records.RANGES, **own}

    def replayed(self, billboards: list[Billboard], plan: Plan) -> list[Billboard]:
        """The last billboard holds all that a new task needs."""
        return billboards[-1:]

    def shared_model(self, public: PublicInfo, plan: Plan, billboard: Billboard) -> Models | None:
        if not by_rows(plan.budget) and not scored(plan):
            return self._directions().shared_model(public, plan, billboard)
        model, d = billboard.values["model"], public.n_features
        intercept = model[:, d] if public.fit_intercept else np.zeros(len(model))
        return Models(model[None, :, :d], intercept[None])


def by_rows(budget: Budget) -> bool:
    """Whether single rows are protected; without privacy the unit makes no difference."""
    return budget.unit is Unit.RECORD and budget.epsilon is not None


def scored(plan: Plan) -> bool:
    """Whether a plan shares a model by scores; else it does as `subspace`."""
    return any(p.name in (SCORE, STATISTICS) for p in plan.releases)


def based(public: PublicInfo) -> bool:
    """Whether base rates are asked for first: labels, with intercepts."""
    return public.kind == "classification" and public.fit_intercept


def evidence_message(evidence: np.ndarray) -> np.ndarray:
    """(m, ways, strengths asked about), around their mean, in units of the size at which it is cut off."""
    return finite(evidence - evidence.mean(axis=(1, 2), keepdims=True)) / EVIDENCE_SIZE


class TogetherTasks(TaskSide):
    """Answer what each round asks: base rate, step, direction or evidence."""

    def __init__(self, method: Together, block: TaskBlock, public: PublicInfo, plan: Plan):
        super().__init__(method, replace(block, constant=public.fit_intercept), public, plan)
        self.plain = block

    def step(self, state: State, view: View) -> tuple[State, Message]:
        loss = self.public.loss
        if (view.round + 1, STATISTICS) in self.asked:
            return state, {STATISTICS: statistics(self.block, view["model"], self.loss)}
        message: Message = {}
        if (view.round + 1, BASE) in self.asked:
            message[BASE] = base_message(self.plain)
        if (view.round + 1, SCORE) in self.asked:
            message[SCORE] = finite(self._steps(view["model"])) / self.loss.step_size
        options = ways(view, self.public)
        if (view.round + 1, MOMENT) in self.asked:
            message[MOMENT] = unit_messages(self._slopes_left(view["model"]))
        if (view.round + 1, STRENGTH) in self.asked:
            message[STRENGTH] = evidence_message(log_evidence(self.block, options, loss, False, asked=SENT))
        if (view.round + 1, HELD_OUT) in self.asked:
            around = partial(models_around, public=self.public, view=view)
            message[HELD_OUT] = finite(held_out_losses(self.plain, self.public, view, around))
        return state, message

    def _slopes_left(self, model: np.ndarray) -> np.ndarray:
        """(m, r, width): a task's slopes under one weak penalty, less the model's; an average shrinks directions away."""
        W = residual_models(self.block, model, DIRECTION_SIGNAL, self.public.loss, False, own_scale=False)
        W[:, :, self.public.n_features :] = 0.0
        return W

    def _steps(self, model: np.ndarray) -> np.ndarray:
        """(m, r, width): ridge steps from the public model, linear in the targets."""
        block = self.block
        left = self.loss.surprise(block.scores(model[None]), block)
        return residual_models(block.with_targets(left), np.zeros_like(model), STEP_SIGNAL, "squared", False, own_scale=False)

    def finish(self, state: State, view: View) -> Models:
        if isinstance(self.plain, CommonUnits) or self.public.declared_bounds:
            around = models_around(self.plain, self.public, view)
            return blended(around, alone_in_own_units(self.plain, self.public), self.public, view) if "blend" in view else around
        alone, few = alone_models(self.plain, self.public), self.plain.counts < FEW_ROWS
        if has_base_rates(self.plan) and (deviation := rate_deviation(self.plan, self.public)) <= MOST_RATE_NOISE:
            alone = near_base_rates(self.plain, self.public, alone, np.tanh(view["model"][:, -1] / 2.0), deviation)
        if few.all() or not (np.any(view["model"][:, : self.public.n_features]) or np.any(view["share"])):
            return alone
        return chosen_models(few, alone, models_around(self.plain, self.public, view))


def finite(messages: np.ndarray) -> np.ndarray:
    """Messages (tasks, ...) with those that are not finite sent as zero."""
    usable = np.isfinite(messages).all(axis=tuple(range(1, messages.ndim)), keepdims=True)
    return np.where(usable, messages, 0.0)


class TogetherServer(ServerSide):
    """Adds denoised steps up to a model, then finds directions and strength."""

    published = (*KNOWN, "leverage", "blend")

    def first(self) -> State:
        width = self.public.n_features + int(self.public.fit_intercept)
        state = {
            **nothing_known(self.public.n_outputs, width), "strength": np.zeros(self.public.n_outputs),
            "bend": np.ones(self.public.n_outputs), "unheard": np.zeros((self.public.n_outputs, width)), "waited": np.array(0),
        }  # fmt: skip
        if self.plan.budget.epsilon is None:
            state |= {"leverage": np.array(0.0), "blend": BLENDS[0]}
        return state

    def changes(self, state: State, releases: Mapping[str, np.ndarray], t: int) -> State:
        new: State = {}
        m, r = self.public.n_tasks, self.public.n_outputs
        if STATISTICS in releases:
            free, rows = int(self.public.fit_intercept), max(float(releases[STATISTICS][0, -1]), 1.0)
            arguments = releases[STATISTICS], state["model"], state["strength"], self.public.loss, free
            new["model"], new["strength"], variance = newton_step(*arguments)
            new["leverage"] = np.array(determined(new["model"], new["strength"], variance, free) / rows)
        if BASE in releases:
            least = max(2.0 * rate_deviation(self.plan, self.public), 1.0 / m)
            share, model = np.clip(releases[BASE] * math.sqrt(r) / m, -1.0, 1.0), state["model"].copy()
            share = np.clip(share, -1.0 + least, 1.0 - least) if least < 1.0 else 0.0 * share
            model[:, -1] = 2.0 * np.arctanh(share)
            new["model"], new["bend"] = model, np.maximum(1.0 - share**2, LEAST_BEND) / FURTHER
        if SCORE in releases:
            sloped = bool(np.any(state["model"][:, : self.public.n_features]))
            total, k = releases[SCORE] + state["unheard"], int(state["waited"]) + 1  # steps from one model add up
            move, doubt = without_noise(total / (k * m), self._deviation(self.planned[t, SCORE]) / (math.sqrt(k) * m), sloped)
            wait = not sloped and not np.any(move)
            new["unheard"], new["waited"] = (total, np.array(k)) if wait else (np.zeros_like(total), np.array(0))
            new["model"] = state["model"] + self.loss.step_size * move / state["bend"][:, None]
            new["model_doubt"] = np.array(max(doubt, float(state["model_doubt"])) if sloped else doubt)  # of the clearest step
        if MOMENT in releases:
            deviation = self._deviation(self.planned[t, MOMENT])
            new["share"], new["basis"], unsure = common_directions(releases[MOMENT], deviation, m, r)
            new["share_doubt"] = np.array(unsure)
        if STRENGTH in releases:
            new["belief"] = self._belief(releases[STRENGTH], self._deviation(self.planned[t, STRENGTH]), state["share"])
        if HELD_OUT in releases:
            new["blend"] = best_blend(releases[HELD_OUT])
        return new

    def _belief(self, total: np.ndarray, deviation: float, share: np.ndarray) -> np.ndarray:
        """What is clear of the noise: the log posterior of one way and strength for all, relative to the best.

        Directions come from the rows that speak for them: a nat off for every number that says where they lie (Akaike 1974).
        """
        total, k = total.copy(), int(np.count_nonzero(share))
        total[-WITH_DIRECTIONS:] -= k * (len(share) - k) / EVIDENCE_SIZE
        behind = EVIDENCE_SIZE * np.maximum(total.max() - total - CLEAR * deviation, 0.0)
        return -np.minimum(behind, SURE)

    def _deviation(self, planned: PlannedRelease) -> float:
        return noise_deviation(planned, self.public.n_tasks, self.plan.budget.aggregation)
