"""The base rate of labels beside what another method shares: a task of few rows knows its own level from that of all. Ours.

    round 1  "base"  the mean label of every task, one number for every output           VectorSum, bound 1
    server   the mean of them, as far from one class as noise may be off
    task     its share of hits is Beta around that rate, the rate being worth 4 to 64 rows, by the evidence of its own hits, and
             never more than its noise leaves of it

A task of four rows without a hit cannot tell a rate of 2 from one of 20 %, and smooths its own share toward even odds; those of
all tasks can. Slopes are left as they are: the intercept moves by the difference of the two log-odds. Only tasks whose labels
tell little are moved (local.py); of the others the own share says more than any rate. It is asked for where its noise is small
enough to be worth a few rows, a public question.

**Privacy.** Unit: the task. A mean of labels in [-1, 1] over the root of their number has norm at most 1 and is clipped to 1 by
the runtime, whatever came: a task moves the sum by 1 (add-remove) or 2 (replace-one), one more Gaussian release of the plan. It
and the other method's releases compose adaptively. The last step is the task's own (docs/theory/model-protected.md#base-rates).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from scipy.special import betaln, expit, logit, softmax

from taskveil.losses import LOSSES
from taskveil.methods.base import Billboard, Message, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.local import tells_little
from taskveil.methods.shared_prior import noise_deviation
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.plan import Budget, Plan, Request, make_plan
from taskveil.tasks.block import TaskBlock

BASE = "base"
SHARES, MOST_SHARE = (0.1, 0.3), 0.8  # of the budget (of rho): the least that will do; where nothing else can be told
MOST_RATE_NOISE = 0.15  # of a mean label in [-1, 1]: above it a rate is worth less than a dozen rows
LITTLE_NOISE = 0.12  # what the smaller shares must reach, since others pay for them
POINTS = 2001  # of a grid of log-odds
ROWS_WORTH = np.array([4.0, 16.0, 64.0])  # how alike tasks are: rows that the rate of all is worth to one


def with_base_rates(others: Sequence[Request], public: PublicInfo, budget: Budget, *, only: bool) -> list[Request]:
    """The releases of another method, and the base rate with its share where it is worth it; `only`: they can tell nothing."""
    if not (LOSSES.get(public.loss).labels and public.fit_intercept) or budget.epsilon is None:
        return list(others)
    total = math.fsum(request.weight**2 for request in others)
    for share in (MOST_SHARE,) if only else SHARES:
        base = Request(BASE, 1, VectorSum((public.n_outputs,), 1.0), weight=math.sqrt(total * share / (1.0 - share)))
        deviation = rate_deviation(make_plan([base, *others], budget), public)
        if deviation <= (MOST_RATE_NOISE if only else LITTLE_NOISE):
            return [base, *others]
    return list(others)


def has_base_rates(plan: Plan) -> bool:
    return any(planned.name == BASE for planned in plan.releases)


def rate_deviation(plan: Plan, public: PublicInfo) -> float:
    """Of the noise of the mean label of all tasks."""
    planned = next(p for p in plan.releases if p.name == BASE)
    return noise_deviation(planned, public.n_tasks, plan.budget.aggregation) * math.sqrt(public.n_outputs) / public.n_tasks


def base_message(block: TaskBlock) -> np.ndarray:
    """(m, r) mean labels, of length at most one; zero where they are not finite."""
    return np.nan_to_num(block.means_by_task(block.y), nan=0.0, posinf=0.0, neginf=0.0) / math.sqrt(block.n_outputs)


def mean_label(total: np.ndarray, deviation: float, public: PublicInfo) -> np.ndarray:
    """(r,) from the noisy sum of messages: the posterior mean under Jeffreys' law of rates, so that noise makes no class rare."""
    farthest = math.log(2.0 * public.n_tasks)  # log-odds: no rarer than one task could tell
    rates = expit(np.linspace(-farthest, farthest, POINTS))
    seen = (1.0 + total[:, None] * math.sqrt(public.n_outputs) / public.n_tasks) / 2.0
    logs = np.log(rates * (1.0 - rates)) / 2.0 - np.square((seen - rates) / max(deviation / 2.0, 1e-6)) / 2.0
    return np.asarray(2.0 * softmax(logs, axis=1) @ rates - 1.0)


def near_base_rates(block: TaskBlock, public: PublicInfo, models: Models, label: np.ndarray, deviation: float) -> Models:
    """Models whose intercepts, where labels tell little, fit a share of hits between their own and the rate of all."""
    rate, n = (1.0 + np.clip(label, -0.999, 0.999)) / 2.0, np.maximum(block.counts, 0.0)[:, None]
    own = np.clip((1.0 + block.means_by_task(block.y)) / 2.0, 0.0, 1.0)
    known = 4.0 * rate * (1.0 - rate) / max(deviation, 1e-12) ** 2  # rows that would tell the rate as well
    least = 0.5 / np.minimum(rate, 1.0 - rate)  # below it a law of shares says that most tasks have one class
    worth = np.maximum(1.0 / (1.0 / ROWS_WORTH + 1.0 / known[:, None]), least[:, None])  # (r, strengths)
    hits, misses = (worth * of[:, None] for of in (rate, 1.0 - rate))
    seen, missed = (n * own)[:, :, None], (n * (1.0 - own))[:, :, None]
    weights = softmax(betaln(hits + seen, misses + missed) - betaln(hits, misses), axis=2)
    near = (weights * (hits + seen) / (worth + n[:, :, None])).sum(axis=2)
    low = 0.5 / (n + 1.0)
    moved = logit(near) - logit(np.clip(own, low, 1.0 - low))  # the latter is what own intercepts fit (losses/logistic.py)
    return replace(models, intercept=models.intercept + np.where(tells_little(block, public.loss) & (known > least), moved, 0.0))


class BaseRateTasks(TaskSide):
    """What the other method's tasks do, with a mean label in the first round and levels near the rate of all in the end."""

    def __init__(self, other: TaskSide, block: TaskBlock, public: PublicInfo, plan: Plan):
        self.other, self.block, self.public = other, block, public
        self.deviation = rate_deviation(plan, public)

    def start(self) -> State:
        return self.other.start()

    def step(self, state: State, view: View) -> tuple[State, Message]:
        state, message = self.other.step(state, view)
        return state, {BASE: base_message(self.block), **message} if view.round == 0 else message

    def finish(self, state: State, view: View) -> Models:
        return near_base_rates(self.block, self.public, self.other.finish(state, view), view[BASE], self.deviation)


class BaseRateServer(ServerSide):
    """What the other method's server does, with the rate beside it."""

    def __init__(self, other: ServerSide, public: PublicInfo, plan: Plan):
        self.other, self.public, self.settled = other, public, other.settled
        self.deviation = rate_deviation(plan, public)

    def start(self) -> tuple[State, Billboard]:
        return self._with(np.zeros(self.public.n_outputs), *self.other.start())

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        others = {name: value for name, value in releases.items() if name != BASE}
        label = mean_label(releases[BASE], self.deviation, self.public) if BASE in releases else state[BASE]
        return self._with(label, *self.other.step(state, others, accepted))

    def _with(self, label: np.ndarray, state: State, board: Billboard) -> tuple[State, Billboard]:
        return {**state, BASE: label}, replace(board, values={**board.values, BASE: label})
