"""One model for all rows of all tasks, with a level of its own for each task: what sharing everything would give.

Without privacy this is a ridge or logistic regression on all rows in common units: exact sums of curvature and gradient, Newton
steps at the server (one is enough for squared loss), and a penalty on the slopes by their evidence (MacKay 1992), as tuned as a
cross-validated one. Tasks differ by a level around the common intercept, shrunk by how much levels really differ:

    "statistics"  curvature H, gradient g, sum of squared slopes, number of rows, at the public model       VectorSum, no bound
    "levels"      sums of U^2, V, V^2 over tasks, U and V the slope and curvature of a task's loss in its     VectorSum, no bound
                  level (last round): E U^2 = s^2 V + t^2 V^2 for levels of variance t^2, s^2 = 1 for classes

Counts, times and wild numbers keep an intercept or baseline of every task's own: see own_intercepts.py.

In a private run the shared weights are learnt by noisy rounds, see methods/mean.py, and used as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from taskveil.losses.base import Loss
from taskveil.methods.base import ANY_TARGET, Billboard, Message, Method, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.exact_sums import CHUNK, summed
from taskveil.methods.own_intercepts import STATISTICS, OwnInterceptServer, OwnInterceptTasks, own_intercept_requests
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.contributions import Contribution, VectorSum
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.solvers.padding import Stack, stacks
from taskveil.tasks.block import TaskBlock

LEVELS = "levels"
RIDGE = 1e-7  # relative to the mean curvature; decides constant columns
ROUNDS = 12  # but for squared loss
LONGEST_STEP = 10.0  # of a Newton step for classes, whose curvature may vanish


@dataclass(eq=False, repr=False)
class Pooled(Method):
    """One common weight vector for all tasks, and an intercept of its own for each.

    rounds    Newton rounds without privacy (1 suffices for squared loss); noisy gradient rounds with it
    """

    name = "pooled"
    kinds, losses = ANY_TARGET
    units = ("task", "record")
    common_units = True
    reference = "the pooled baseline of the reproduced papers"

    rounds: int | None = None

    def gains_by_common_units(self, public: PublicInfo, budget: Budget) -> bool:
        """Without noise they cost nothing; with it directions are sent, which need none."""
        return budget.epsilon is None and common_level(public)

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        if budget.epsilon is not None:
            return self._noisy().requests(public, budget)
        rounds = newton_rounds(public, self.rounds)
        if not common_level(public):
            return own_intercept_requests(public, rounds)
        levels = Request(LEVELS, rounds + 1, VectorSum((public.n_outputs, 3), Contribution.unbounded))
        return [*(statistics_request(public, t + 1) for t in range(rounds)), *([levels] if public.fit_intercept else [])]

    def _noisy(self) -> Method:
        from taskveil.methods.mean import Mean

        return Mean(rounds=self.rounds, personalise=False)

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        if plan.budget.epsilon is not None:
            return self._noisy().task_side(block, public, plan)
        return (PooledTasks if common_level(public) else OwnInterceptTasks)(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        if plan.budget.epsilon is not None:
            return self._noisy().server_side(public, plan)
        return (PooledServer if common_level(public) else OwnInterceptServer)(self, public, plan)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return self._noisy().ranges(public)

    def chooses(self, budget: Budget) -> bool:
        """Without noise it is what it says, one model for all rows: a baseline."""
        return budget.epsilon is None

    def sends_sums(self, n_tasks: int, public: PublicInfo, plan: Plan) -> bool:
        return plan.budget.epsilon is None

    def keeps_history(self, plan: Plan) -> bool:
        return False

    def shared_model(self, public: PublicInfo, plan: Plan, billboard: Billboard) -> Models | None:
        intercept = billboard.values.get("intercept", np.zeros(public.n_outputs))
        return Models(billboard.values["mean"][None], np.asarray(intercept)[None])


def common_level(public: PublicInfo) -> bool:
    """Whether one intercept serves all tasks, around which each has a level."""
    return public.loss in ("squared", "logistic")


def newton_rounds(public: PublicInfo, rounds: int | None) -> int:
    """How many Newton steps a loss needs without noise: one where it is quadratic."""
    return 1 if public.loss == "squared" else int(rounds or ROUNDS)


def statistics_request(public: PublicInfo, round: int) -> Request:
    """The sums of one Newton step over all rows, without noise."""
    width = public.n_features + int(public.fit_intercept)
    return Request(STATISTICS, round, VectorSum(_shape(public.n_outputs, width), Contribution.unbounded))


def _shape(outputs: int, width: int) -> tuple[int, int]:
    """Upper triangle of H, g, squared slopes and rows."""
    return outputs, width * (width + 1) // 2 + width + 2


def statistics(block: TaskBlock, model: np.ndarray, loss: Loss) -> Bounded:
    """H (its upper triangle), g, squared slopes and rows of all tasks together, at the model (r, w)."""
    r, width = model.shape
    some = stacks(block, max(1, CHUNK // (r * (width + 1))))
    own = partial(_statistics, model=model, loss=loss, upper=np.flatnonzero(np.triu(np.ones((width, width)))))
    return summed(some, own, _shape(r, width), block.n_tasks)


def _statistics(stack: Stack, model: np.ndarray, loss: Loss, upper: np.ndarray) -> np.ndarray:
    """The same of every task in a stack (k, r, ...)."""
    X, weights, half = stack.X, stack.weights, len(upper)
    out = np.empty((len(X), len(model), half + model.shape[1] + 2))
    for k, w in enumerate(model):
        scores, y = X @ w, stack.y[:, :, k]
        slopes, bends = loss.derivative(scores, y), loss.second_derivative(scores, y)
        slope, bent = weights * slopes, X * np.sqrt(weights * bends)[:, :, None]
        for i, rows in enumerate(bent):
            out[i, k, :half] = (rows.T @ rows).ravel()[upper]  # one triangle is computed and mirrored
        out[:, k, half:-2] = (slope[:, None] @ X)[:, 0]
        out[:, k, -2], out[:, k, -1] = (slope * slopes).sum(axis=1), weights.sum(axis=1)
    return out


def newton_step(
    total: np.ndarray, model: np.ndarray, strength: np.ndarray, loss: str, free: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The next model (r, w), its penalty and the noise variance (r,); the last `free` columns are not penalised.

    The penalty is s^2 g / |w|^2, with g = tr (H + penalty)^-1 H the parameters that the rows determine: the evidence is largest
    there. With one quadratic for all strengths (squared loss) it is iterated, else it moves with the steps.
    """
    steps = [_step_of(*_unpacked(total[k], model.shape[1]), model[k], float(strength[k]), loss, free) for k in range(len(model))]
    return np.stack([f[0] for f in steps]), np.array([f[1] for f in steps]), np.array([f[2] for f in steps])


def determined(model: np.ndarray, strength: np.ndarray, variance: np.ndarray, free: int) -> float:
    """How many coefficients of an output the rows determine: g of the fixed point above, those without a penalty included."""
    r, width = model.shape
    squares = np.square(model[:, : width - free]).sum(axis=1)
    return float(np.clip((strength * squares / np.maximum(variance, 1e-300)).sum() / r + free, free, width))


def _unpacked(total: np.ndarray, width: int) -> tuple[np.ndarray, np.ndarray, float, float]:
    half, H = len(total) - width - 2, np.zeros((width, width))
    H[np.triu_indices(width)] = total[:half]
    return H + np.triu(H, 1).T, total[half:-2], float(total[-2]), float(total[-1])


def _step_of(
    H: np.ndarray, g: np.ndarray, squares: float, rows: float, model: np.ndarray, strength: float, loss: str, free: int
) -> tuple[np.ndarray, float, float]:
    width = len(model)
    size = max(float(np.trace(H)) / width, 1e-300)
    penalised = np.ones(width)
    penalised[width - free :] = 0.0
    move, variance = np.zeros(width), 1.0
    for _ in range(20 if loss == "squared" else 1):
        regular = H + np.diag(strength * penalised + RIDGE * size)
        solved = np.linalg.solve(regular, np.column_stack([-g - strength * penalised * model, H]))
        move, determined = solved[:, 0], float(np.trace(solved[:, 1:]))
        if loss == "squared":
            left = squares + 2.0 * g @ move + move @ H @ move
            variance = max(left, 1e-12 * squares) / max(rows - determined, 1.0)
        long = float(np.square((model + move) * penalised).sum())
        strength = float(np.clip(variance * max(determined - free, 0.0) / max(long, 1e-300), 0.0, 1e3 * size))
    if loss != "squared":
        move = move * min(1.0, LONGEST_STEP / max(float(np.linalg.norm(move)), 1e-300))
    return model + move, strength, variance


class PooledTasks(TaskSide):
    """Sums of exact statistics; in the end the common model with a level of its own."""

    def step(self, state: State, view: View) -> tuple[State, Message]:
        if (view.round + 1, STATISTICS) in self.asked:
            wide, model = replace(self.block, constant=self.public.fit_intercept), view["mean"]
            if self.public.fit_intercept:
                model = np.column_stack([model, view["intercept"]])
            return state, {STATISTICS: statistics(wide, model, self.loss)}
        slope, bend = self._at_level(view, np.zeros((self.block.n_tasks, self.block.n_outputs)))
        own = np.stack([np.square(slope), bend, np.square(bend)], axis=2)
        return state, {LEVELS: summed([own], lambda every: every, own.shape[1:], self.block.n_tasks)}

    def _at_level(self, view: View, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(m, r) slope and curvature of every task's summed loss in its level."""
        block = self.block
        scores = block.scores(view["mean"][None], view["intercept"] + level)
        counts = block.counts[:, None]
        slope = counts * block.means_by_task(self.loss.derivative(scores, block.y))
        return slope, counts * block.means_by_task(self.loss.second_derivative(scores, block.y))

    def finish(self, state: State, view: View) -> Models:
        if "level_spread" not in view:  # written by an earlier version, in units of every task's own
            return OwnInterceptTasks(self.method, self.block, self.public, self.plan).finish(state, view)
        W = np.repeat(view["mean"][None], self.block.n_tasks, axis=0)
        level = np.zeros(W.shape[:2])
        spread = view["level_spread"]
        if self.public.fit_intercept and np.any(spread > 0.0):
            pull = 1.0 / np.maximum(spread, 1e-9)
            for _ in range(1 if self.public.loss == "squared" else 20):
                slope, bend = self._at_level(view, level)
                level = level - np.clip((slope + pull * level) / (bend + pull), -2.0, 2.0)
        return Models(W, view["intercept"] + level)


class PooledServer(ServerSide):
    """One model for all: a Newton step from each round's sums."""

    published = ("mean", "intercept", "level_spread")

    def first(self) -> State:
        r, d = self.public.n_outputs, self.public.n_features
        return {
            "mean": np.zeros((r, d)), "intercept": np.zeros(r), "level_spread": np.zeros(r), "strength": np.zeros(r),
            "variance": np.ones(r),
        }  # fmt: skip

    def changes(self, state: State, releases: Mapping[str, np.ndarray], t: int) -> State:
        new: State = {}
        d, free = self.public.n_features, int(self.public.fit_intercept)
        if STATISTICS in releases:
            model = np.column_stack([state["mean"], state["intercept"]]) if free else state["mean"]
            model, new["strength"], new["variance"] = newton_step(
                releases[STATISTICS], model, state["strength"], self.public.loss, free
            )
            new["mean"] = model[:, :d]
            new["intercept"] = model[:, d] if free else state["intercept"]
        if LEVELS in releases:
            slopes, bends, squared = releases[LEVELS].T
            variance = state["variance"]
            new["level_spread"] = np.maximum(slopes - variance * bends, 0.0) / np.maximum(squared, 1e-300) / variance
        return new
