"""The loop that Algorithms 2 and 3 of model-protected MTL share (journal version, section 4.2).

    W-tilde    clip what is sent                                          step 3
    S          sum_i w~_i w~_i' + noise                                   steps 4-5   (the release)
    M          map built from S: the proximal operator                    steps 6-8   (the billboard)
    w-hat      M w                                                        step 9
    z          w-hat + beta_t (w-hat - previous w-hat)                    step 10
    w          z - eta grad L_i(z)                                        step 11

It differs from what is printed (papers/liang_2020.py) where docs/theory/model-protected.md says why: the noise is
valid, only the message is bounded (a task's own model is not), every task uses its own step size and several local steps per
release (local work is free), and eigenvalues are lifted by the noise level so that much noise means learning alone
(Prop. 1). Without noise (`epsilon=None`) all tasks use one step and the loop is the accelerated proximal gradient
method on  sum_i L_i(w_i) + penalty g(W).

Rounds split the budget, and the map of one round aligns the models whose alignment the next one would measure: with noise
one release (one_release.py) is better, and the default where one release says all that is shared.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.losses import LOSSES
from taskveil.methods.base import LARGEST, Billboard, Method, PublicInfo
from taskveil.methods.proximal_sides import RELEASE, SETUP, ProximalServer, ProximalTasks
from taskveil.privacy.calibrate import geometric, power, uniform
from taskveil.privacy.contributions import Contribution, OuterSum, TaskStack
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.structures.base import Structure


@dataclass(eq=False, repr=False)
class ProximalMethod(Method):
    """Options of the proximal family.

    rounds          releases; None: 1 with noise (5 for low-rank-sparse, 20 as printed), up to 1000 without
    penalty         lambda (without noise, as printed) or the public threshold in units of the clip; None picks it
    clip            K, the norm to which a task's message is clipped; None: 1, and directions where there is one release
    step            eta; None: 1/L
    local_steps     gradient-and-map steps per release; None: 10 with noise, 1 without or as printed
    momentum        "accelerated" (t-1)/(t+2), "strong" (needs strong_convexity), or "none"
    strong_convexity  mu added to every L_i as mu/2 |w|^2 (the paper's 1e-3)
    allocation      "uniform", "power" (eps_t ~ t^exponent) or "geometric" (eps_t ~ exponent^-t)
    tol             without noise: stop when the second moment moves less than this, relative; 0 runs all rounds
    """

    tasks, server = ProximalTasks, ProximalServer
    usual_rounds: ClassVar[int] = 5  # with noise
    structure: ClassVar[Structure]

    rounds: int | None = None
    penalty: float | None = None
    clip: float | None = None
    step: float | None = None
    local_steps: int | None = None
    momentum: str = "accelerated"
    strong_convexity: float = 0.0
    allocation: str = "uniform"
    exponent: float = 0.0
    start: str = "alone"
    tol: float = 1e-10

    @property
    def bound(self) -> float:
        """K."""
        return 1.0 if self.clip is None else float(self.clip)

    def contribution(self, public: PublicInfo, bound: float) -> Contribution:
        """What is summed: outer products of models, (features, features)."""
        return OuterSum(public.n_features, bound, public.n_outputs)

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        rounds = self.n_rounds(budget)
        private = budget.epsilon is not None
        what = self.contribution(public, self.bound if private else Contribution.unbounded)
        weights = self.round_weights(rounds)
        requests = [Request(RELEASE, t + 1, what, weight=float(w)) for t, w in enumerate(weights)]
        if not private:
            requests.insert(0, Request(SETUP, 1, TaskStack(public.n_tasks, (3,), Contribution.unbounded)))
        return requests

    def round_weights(self, rounds: int) -> np.ndarray:
        """Shares of the budget over rounds (journal version, section 4.5)."""
        if self.allocation == "uniform":
            return uniform(rounds)
        if self.allocation == "power":
            return power(rounds, self.exponent)
        return geometric(rounds, self.exponent)

    def n_rounds(self, budget: Budget) -> int:
        """How many rounds there are."""
        if self.rounds is not None:
            return int(self.rounds)
        return 1000 if budget.epsilon is None else self.usual_rounds

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return {"map": (-1.0, 1.0), "step": (0.0, LARGEST), "curvature": (0.0, LARGEST)}

    def keeps_history(self, plan: Plan) -> bool:
        return plan.budget.epsilon is not None

    def replayed(self, billboards: list[Billboard], plan: Plan) -> list[Billboard]:
        """Without noise the map has settled: walking with the last one leads to the same fixed point."""
        if plan.budget.epsilon is not None:
            return billboards
        return [billboards[0], *[billboards[-1]] * 200]

    def momentum_at(self, t: int, curvature: float) -> float:
        """beta_t of step 10."""
        if self.momentum == "none":
            return 0.0
        if self.momentum == "accelerated":
            return (t - 1.0) / (t + 2.0)
        root = np.sqrt(self.strong_convexity / max(curvature, self.strong_convexity))
        return float((1 - root) / (1 + root))

    def public_step(self, public: PublicInfo) -> float:
        """eta where it must be public: the given one, or 1/L from declared sizes (|x| <= 1, or entries in [-1, 1])."""
        if self.step is not None:
            return self.step
        smooth = LOSSES.get(public.loss).smoothness
        longest = 1.0 if public.unit_rows else float(public.n_features)
        return 1.0 / (smooth * longest + self.strong_convexity)
