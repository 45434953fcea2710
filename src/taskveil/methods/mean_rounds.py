"""Algorithm 1 of private mean-regularised learning, lambda given, local problems solved exactly (unit: task).

    task      w_k = argmin l_k(w, b) + (lambda/2) |w - wbar|^2,  sends clip((1 + lambda/h)(w_k - wbar))
    server    wbar <- wbar + sum of g_k / (q m)                    q m the expected cohort

Why it converges: with H_k the curvature of l_k, w_k - wbar = (H_k + lambda)^-1 H_k (w*_k - wbar), and wbar
is a fixed point exactly when it is the mean of the w_k, which is the optimum. h is a public upper bound on
the curvature (rows of length one, or entries of size one), so that the scaled step has eigenvalues (1 +
lambda/h) x/(x + lambda) <= 1 for 0 <= x <= h: it contracts, for large lambda like gradient descent with
step 1/h instead of standing still. Without noise the server also extrapolates from earlier rounds (Anderson
1965; for squared loss that is GMRES, exact after as many rounds as there are unknowns).

We differ from the paper where docs/theory/mean-regularised.md#cohorts says why: Poisson cohorts and the expected cohort size, and
the local problem is solved instead of walked, so no private state is carried from round to round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.methods.base import Billboard, Message, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.local import alone_models, best_intercepts
from taskveil.privacy.contributions import Contribution, VectorSum
from taskveil.privacy.plan import Budget, Plan
from taskveil.solvers.newton import minimise_local
from taskveil.tasks.block import TaskBlock

if TYPE_CHECKING:
    from taskveil.methods.mean import Mean

RELEASE = "mean"
PRIVATE_ROUNDS, PLAIN_ROUNDS = 10, 300
MEMORY = 30  # earlier rounds the extrapolation looks at


def contribution(public: PublicInfo, budget: Budget, clip: float | None) -> VectorSum:
    """What is summed: how far a task's model lies from the mean, clipped where there is noise."""
    bound = Contribution.unbounded if budget.epsilon is None else (1.0 if clip is None else clip)
    return VectorSum((public.n_outputs, public.n_features), bound)


def rounds(budget: Budget) -> int:
    """How many rounds a run has where none were asked for."""
    return PLAIN_ROUNDS if budget.epsilon is None else PRIVATE_ROUNDS


class FixedTasks(TaskSide):
    """Exact local solves around wbar; no state."""

    def __init__(self, method: Mean, block: TaskBlock, public: PublicInfo, plan: Plan):
        super().__init__(method, block, public, plan)
        self.strength = float(method.strength or 0.0)
        longest = 1.0 if public.unit_rows else float(public.n_features)
        self.boost = 1.0 + self.strength / (self.loss.smoothness * longest)  # one where there is no bound on the curvature

    def step(self, state: State, view: View) -> tuple[State, Message]:
        W, _ = self._solve(view["mean"])
        return state, {RELEASE: self.boost * (W - view["mean"])}

    def finish(self, state: State, view: View) -> Models:
        everyone = np.ones(self.block.n_tasks, dtype=bool)
        if not self.method.personalise:
            W = np.repeat(view["mean"][None], self.block.n_tasks, axis=0)
            return Models(W, best_intercepts(self.block, W, self.loss, self.public.fit_intercept), everyone)
        if self.strength == 0.0:  # nothing pulls toward the mean: this is `local`
            return alone_models(self.block, self.public)
        W, b = self._solve(view["mean"])
        return Models(W, b, everyone)

    def _solve(self, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        centre = np.broadcast_to(mean, (self.block.n_tasks, *mean.shape))
        return minimise_local(self.block, self.loss, self.strength, centre, self.public.fit_intercept)


class FixedServer(ServerSide):
    """Moves wbar along the mean message; without noise it extrapolates, and stops when nothing moves."""

    def __init__(self, method: Any, public: PublicInfo, plan: Plan):
        super().__init__(method, public, plan)
        self.private = plan.budget.epsilon is not None
        self.shape: tuple[int, ...] = (public.n_outputs, public.n_features)
        self.expected = float(public.n_tasks)  # what the sum of a round with everybody is divided by

    def shown(self, mean: np.ndarray) -> tuple[dict[str, np.ndarray], frozenset[str]]:
        """What the billboard shows, and which of it is a task's own part."""
        return {"mean": mean}, frozenset()

    def moved(self, release: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """The next move, from the mean message and where one stands."""
        return release

    def start(self) -> tuple[State, Billboard]:
        mean = np.zeros(self.shape)
        none = np.zeros((0, mean.size))
        return {"mean": mean, "round": np.array(0), "points": none, "moves": none}, Billboard(0, *self.shown(mean))

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        t = int(state["round"]) + 1
        cohort = self.expected * (self.plan.releases[t - 1].rate or 1.0)
        move, point = self.moved(releases[RELEASE] / cohort, state["mean"]).ravel(), state["mean"].ravel()
        points = np.vstack([state["points"], point])[-MEMORY:]
        moves = np.vstack([state["moves"], move])[-MEMORY:]
        nxt = point + move if self.private else extrapolated(points, moves)
        mean = nxt.reshape(state["mean"].shape)
        still = not self.private and float(np.linalg.norm(move)) <= self.method.tol * (1.0 + float(np.linalg.norm(point)))
        new = {"mean": mean, "round": np.array(t), "points": points, "moves": moves}
        return new, Billboard(t, *self.shown(mean), accepted=accepted, done=bool(still and self.method.tol > 0))


def extrapolated(points: np.ndarray, moves: np.ndarray) -> np.ndarray:
    """The next point of Anderson's scheme from points x_j and moves g_j (k, p): least squares on
    differences of g.
    """
    x, g = points[-1], moves[-1]
    if len(points) < 2:
        return x + g
    dx, dg = np.diff(points, axis=0).T, np.diff(moves, axis=0).T
    mix = np.linalg.lstsq(dg, g, rcond=1e-12)[0]
    return x + g - (dx + dg) @ mix
