"""Private subspace: what tasks have in common, as a mean and a few directions, from few noisy releases. Ours.

It is Algorithm 1 of model-protected MTL (local step, noisy second moment, map) with another estimator inside
(docs/theory/model-protected.md#subspace), and a private mean beside it:

    task      fits itself; M_i, |M_i|_F = 1, is the direction of what is left around the public centre, q_i its log length
    release   "moments"   sums of (M_i, q_i, M_i'M_i) in one release            MomentSum (privacy/moments.py)
    server    posterior means under the known law of the noise (spikes.py): shares and basis, and the centre within them; the
              diagonal of the second moment also tells whether few features matter, where they explain as much
    task      averages over a few priors built from them, alone included, by the evidence of its rows

Both sums come from the same M_i, so under replace-one they cost less than two releases: with a quarter of the budget for
the mean its noise variance is 42.5 % below that of a release of its own. It gets 15 %, because what it shows beyond a sign and
a length the largest eigenvectors show too. Pure noise (delta = 0) has a better law for each
sum: there "mean" (VectorSum) and "second-moment" (OuterSum), bound 1, are released one by one.

Which fit is sent follows from the noise (spectral norm over number of tasks), a public rule, and from a task's own rows: the
average over penalties by the evidence of the rows, whose directions scatter less, where noise is above 40 %, or above 12 % and
the task has fewer than 1.5 rows for each feature; else one weak penalty, whose bias is smaller.

With `rounds` R > 1 the mean is released in every round, each time of what is left around the last centre,
and the second moment of those residuals from round 2 on: worth it where the noise is small. `rounds=None`
takes 3 where the second moment's noise, spectral norm over number of tasks, is below 4 %, or where there is
none, else 1: a public rule.

**Privacy.** Unit: the task, all its rows and whatever it computed from them. M_i and q_i are bounded by 1 by construction and
clipped to 1 by the runtime; how far one task then moves "moments" is proved in privacy/moments.py, "mean" and "second-moment"
in privacy/contributions.py. Messages of later rounds are
functions of the rows and the public billboard: adaptive composition of Gaussian releases, accounted by the
plan. A task that cannot fit (too few rows, one class, a value that is not finite) sends zero. Which priors
a task ends up with, alone or shared, is local and after the last release. Observer: the other tasks
(billboard lemma); the server too where the aggregation hides messages from it.

Not proved: that it helps. What may be noise goes up with its odds (spikes.py); where a wrong prior gets there, the evidence of a
task's own rows is what protects it, which with very few rows is little.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from taskveil.methods import direction_mean
from taskveil.methods.base import ANY_TARGET, Billboard, Message, Method, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.shared_prior import RANGES, WeighingTasks, common_features, noise_deviation, published_priors, unit_messages
from taskveil.methods.spikes import common_directions, hopeless, mean_within
from taskveil.privacy.contributions import MomentSum, OuterSum
from taskveil.privacy.moments import moment_weights
from taskveil.privacy.plan import Budget, Plan, PlannedRelease, Request, make_plan
from taskveil.privacy.planned import spent_share
from taskveil.solvers.evidence import averaged_models, residual_models, target_scales
from taskveil.tasks.block import TaskBlock

MEAN = "mean"
MOMENT = "second-moment"
BOTH = "moments"
GAUSSIAN = (None, "gaussian", "matrix-gaussian", "shared-gaussian", "shared-skellam")
SIGNAL_TO_NOISE = 10.0  # of the weak penalty
AS_MUCH = 1.0 - 1e-9  # where both explain all there is, rounding must not choose: processors round differently
SOME_NOISE, MUCH_NOISE = 0.12, 0.4  # as below: above them models of few rows, or all, are fitted by evidence
MANY_ROWS = 1.5  # rows for each feature from which on they are many
FEW_ROUNDS, MANY_ROUNDS = 1, 3
SMALL_NOISE = 0.04  # spectral norm of the second moment's noise over the number of tasks


@dataclass(eq=False, repr=False)
class Subspace(Method):
    """A shared centre and shared directions, found privately; each task weighs them against learning alone.

    rounds       releases of the mean; None: 1, or 3 where noise is small (see above)
    mean_share   share of the budget (of rho, in zCDP terms) for the mean; the rest is for directions
    spending     "fixed", or "adaptive": a part first, the rest only where something shows (probing.py)
    """

    name = "subspace"
    kinds, losses = ANY_TARGET
    forms: ClassVar[dict[str, str]] = {"adaptive": ".probing:Probing"}
    chooses_locally = True
    reference = "MP-MTL Algorithm 1 with an estimator of our own; docs/theory/model-protected.md#subspace"

    rounds: int | None = None
    mean_share: float = 0.15
    spending: str = "fixed"

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        self.check(public, budget)
        return self._requests(public, budget, self._rounds(public, budget))

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return SubspaceTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return SubspaceServer(self, public, plan)

    def weighs_prior(self, budget: Budget) -> bool:
        return True

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return RANGES

    def replayed(self, billboards: list[Billboard], plan: Plan) -> list[Billboard]:
        """The last billboard holds all that a new task needs."""
        return billboards[-1:]

    def shared_model(self, public: PublicInfo, plan: Plan, billboard: Billboard) -> Models | None:
        """The centre, for tasks without rows; its scale is that of the scaled target, its intercept zero."""
        centre = billboard.values.get("mean")
        if centre is None or not np.any(centre) or public.number_target:
            return None  # the centre is in units of a task's own target spread; such a task has none
        return Models(centre[None], np.zeros((1, public.n_outputs)))

    def _requests(self, public: PublicInfo, budget: Budget, rounds: int) -> list[Request]:
        """Weights are noise precisions: squares add up to the shares of the budget."""
        if joint(budget):
            return self._joint_requests(public, budget, rounds)
        mean = direction_mean.contribution(public.n_outputs, public.n_features)
        moment = OuterSum(public.n_features, 1.0, public.n_outputs)
        with_moment = range(2, rounds + 1) if rounds > 1 else range(1, 2)
        mean_weight = math.sqrt(self.mean_share / rounds)
        moment_weight = math.sqrt((1.0 - self.mean_share) / len(with_moment))
        requests = []
        for t in range(1, rounds + 1):
            requests.append(Request(MEAN, t, mean, weight=mean_weight))
            if t in with_moment:
                requests.append(Request(MOMENT, t, moment, weight=moment_weight))
        return requests

    def _joint_requests(self, public: PublicInfo, budget: Budget, rounds: int) -> list[Request]:
        """Round 1 of several has no residuals yet: its mean comes alone, with its part of the mean's share."""
        early = 0.0 if rounds == 1 else self.mean_share / rounds
        requests = []
        if early:
            mean = direction_mean.contribution(public.n_outputs, public.n_features)
            requests.append(Request(MEAN, 1, mean, weight=math.sqrt(early)))
        weights = moment_weights((self.mean_share - early) / (1.0 - early), direction_mean.LENGTH_PART, budget.neighbours)
        both = MomentSum(public.n_features, *weights, public.n_outputs)
        with_both = range(2, rounds + 1) if rounds > 1 else range(1, 2)
        return requests + [Request(BOTH, t, both, weight=math.sqrt((1.0 - early) / len(with_both))) for t in with_both]

    def _rounds(self, public: PublicInfo, budget: Budget) -> int:
        if self.rounds is not None:
            return int(self.rounds)
        if budget.epsilon is None:
            return MANY_ROUNDS
        level = moment_noise(make_plan(self._requests(public, budget, FEW_ROUNDS), budget), public.n_tasks)
        return MANY_ROUNDS if level < SMALL_NOISE else FEW_ROUNDS


def joint(budget: Budget) -> bool:
    """Whether both sums come in one release: where noise is Gaussian, or none."""
    return budget.delta > 0.0 and budget.mechanism in GAUSSIAN and budget.aggregation != "local-model"


def moment_noise(plan: Plan, n_tasks: int) -> float:
    """Spectral norm of the noise in the second moment, over the number of tasks: public, known before any row is read.

    Where a part of the budget is spent first: that of the whole budget.
    """
    planned = next(p for p in plan.releases if p.name in (MOMENT, BOTH))
    deviation, side = noise_deviation(planned, n_tasks, plan.budget.aggregation), planned.contribution.total_shape[0]
    deviation *= 1.0 if plan.total is None else math.sqrt(spent_share(plan, [planned]))
    if isinstance(planned.contribution.plain, MomentSum):
        deviation, side = deviation / planned.contribution.plain.moment_weight, planned.contribution.plain.n_features
    return deviation * math.sqrt(2 * side) / n_tasks


class SubspaceTasks(WeighingTasks):
    """Send what is left around the public centre."""

    def __init__(self, method: Any, block: TaskBlock, public: PublicInfo, plan: Plan):
        super().__init__(method, block, public, plan)
        noise = moment_noise(plan, public.n_tasks) if plan.releases else 0.0
        self.few_rows = 0.0 if noise <= SOME_NOISE else MANY_ROWS * public.n_features if noise <= MUCH_NOISE else math.inf

    def step(self, state: State, view: View) -> tuple[State, Message]:
        left = self._left(view)
        messages = {MEAN: direction_mean.messages, MOMENT: unit_messages, BOTH: direction_mean.directions_and_lengths}
        return state, {name: of(left) for name, of in messages.items() if (view.round + 1, name) in self.asked}

    def _left(self, view: View) -> np.ndarray:
        """(m, r, d) what is left around the public centre, in units of a task's own target: one fit for all that is sent."""
        centre, loss, intercept = view["mean"], self.public.loss, self.public.fit_intercept
        few = self.block.counts < self.few_rows
        weak = residual_models(self.block, centre, SIGNAL_TO_NOISE, loss, intercept) if not few.all() else 0.0
        if not few.any():
            return np.asarray(weak)
        W, _ = averaged_models(self.block, published_priors(view, self.public), loss, intercept)
        scale = target_scales(self.block, loss, intercept)[:, None, None]
        return np.where(few[:, None, None], W / scale - centre, weak)


class SubspaceServer(ServerSide):
    """Centre, shares and basis from noisy sums."""

    published = ("mean", "mean_doubt", "share", "basis", "share_doubt", "features", "features_doubt")

    def first(self) -> State:
        d, r = self.public.n_features, self.public.n_outputs
        return {
            "mean": np.zeros((r, d)), "mean_doubt": np.array(0.0), "share": np.zeros(d), "basis": np.eye(d),
            "share_doubt": np.array(0.0), "features": np.zeros(d), "features_doubt": np.array(0.0),
        }  # fmt: skip

    def changes(self, state: State, releases: Mapping[str, np.ndarray], t: int) -> State:
        new: State = {}
        m = self.public.n_tasks
        if MEAN in releases:
            deviation = self._deviation(self.planned[t, MEAN])
            shape = (self.public.n_outputs, self.public.n_features)
            estimate = direction_mean.estimate(releases[MEAN], deviation, m, shape)
            new["mean"], new["mean_doubt"] = direction_mean.accumulated(state, *estimate)
        if MOMENT in releases:
            deviation = self._deviation(self.planned[t, MOMENT])
            new.update(self._structure(releases[MOMENT], deviation))
        if BOTH in releases:
            planned = self.planned[t, BOTH]
            new.update(self._both(state, planned, releases[BOTH], self._deviation(planned)))
        return new

    def _both(self, before: State, planned: PlannedRelease, total: np.ndarray, deviation: float) -> State:
        """Shares, basis and centre from both sums in one, with this deviation of the noise."""
        what, m = planned.contribution.plain, self.public.n_tasks
        assert isinstance(what, MomentSum)
        directions, logs, S = what.parts(total)
        found = self._structure(S, deviation / what.moment_weight)
        deviation /= what.mean_weight
        direction, doubt = mean_within(directions, deviation, m, found["share"], found["basis"])
        mean, mean_doubt = direction_mean.accumulated(before, direction * direction_mean.length(logs, deviation, m), doubt)
        return {**found, "mean": mean, "mean_doubt": mean_doubt}

    def _structure(self, S: np.ndarray, deviation: float) -> State:
        """Common directions, and common features where they explain as much: the diagonal comes with the matrix."""
        m, r = self.public.n_tasks, self.public.n_outputs
        share, basis, doubt = common_directions(S, deviation, m, r)
        features, unsure = common_features(np.diagonal(S), deviation, m, r)
        if features.sum() < AS_MUCH * share.sum() or hopeless(deviation, m, len(S)):
            features, unsure = np.zeros_like(features), 0.0
        return {
            "share": share, "basis": basis, "share_doubt": np.array(doubt),
            "features": features, "features_doubt": np.array(unsure),
        }  # fmt: skip

    def _deviation(self, planned: PlannedRelease) -> float:
        return noise_deviation(planned, self.public.n_tasks, self.plan.budget.aggregation)
