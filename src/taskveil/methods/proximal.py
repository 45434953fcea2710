"""The loop that Algorithms 2 and 3 of model-protected MTL share (journal version, section 4.2).

    W-tilde    clip what is sent                                          step 3
    S          sum_i w~_i w~_i' + noise                                   steps 4-5   (the release)
    M          map built from S: the proximal operator                    steps 6-8   (the billboard)
    w-hat      M w                                                        step 9
    z          w-hat + beta_t (w-hat - previous w-hat)                    step 10
    w          z - eta grad L_i(z)                                        step 11

`variant="paper"` computes exactly that. The sound variant differs where docs/theory/model-protected.md says why: the noise is
valid, only the message is bounded (a task's own model is not), every task uses its own step size and several local steps per
release (local work is free), and eigenvalues are lifted by the noise level so that much noise means learning alone
(Prop. 1). Without noise (`epsilon=None`) all tasks use one step and the loop is the accelerated proximal gradient
method on  sum_i L_i(w_i) + penalty g(W).

One release is the default of the sound variant. Tasks send directions of the models they learnt alone, and each then solves
its own problem to the end under the structure found in S, weighed by the evidence of its rows against learning alone. With
much noise nothing is found, and Prop. 1 holds to the last bit. Rounds do worse: they split the budget, and the map of one
round aligns the models whose alignment the next one would measure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from taskveil.losses import LOSSES
from taskveil.methods import moment_structure
from taskveil.methods.alone import alone_models, best_intercepts
from taskveil.methods.base import (
    LARGEST,
    Billboard,
    Message,
    Method,
    Models,
    PublicInfo,
    ServerSide,
    State,
    TaskSide,
    View,
)
from taskveil.methods.local_gradients import gradient_variance, local_curvature, profiled_gradient
from taskveil.methods.shared_prior import RANGES, published_priors, unit_messages, weighed_models
from taskveil.privacy.bounds import clip_rows
from taskveil.privacy.contributions import Contribution, OuterSum, TaskStack
from taskveil.privacy.plan import Budget, Plan, PlannedRelease, Request
from taskveil.privacy.schedules import geometric, power, uniform
from taskveil.solvers.centred import SmoothPart
from taskveil.solvers.moves import extrapolated, stepped
from taskveil.structures.base import Structure
from taskveil.tasks.block import TaskBlock
from taskveil.threads import times

RELEASE = "second-moment"
SETUP = "setup"


class ProximalMethod(Method):
    """Options of the proximal family.

    rounds          releases; None: 1 with noise (5 for low-rank-sparse, 20 as printed), up to 1000 without
    penalty         lambda (non-private, paper) or the public threshold in units of the clip (sound); None picks it
    clip            K, the norm to which a task's message is clipped; None: 1, and directions where there is one release
    step            eta; None: 1/L
    local_steps     gradient-and-map steps per release; None: 1 in the paper variant and without noise, else 10
    momentum        "accelerated" (t-1)/(t+2), "strong" (needs strong_convexity), or "none"
    strong_convexity  mu added to every L_i as mu/2 |w|^2 (the paper's 1e-3)
    allocation      "uniform", "power" (eps_t ~ t^exponent) or "geometric" (eps_t ~ exponent^-t)
    tol             without noise: stop when the second moment moves less than this, relative; 0 runs all rounds
    """

    variants = ("sound", "paper", "preprint")
    one_release: ClassVar[bool] = False  # one release says all that is shared, if it is valid and tasks solve to the end
    structure: Structure

    def __init__(
        self,
        rounds: int | None = None,
        penalty: float | None = None,
        clip: float | None = None,
        step: float | None = None,
        local_steps: int | None = None,
        momentum: str = "accelerated",
        strong_convexity: float = 0.0,
        allocation: str = "uniform",
        exponent: float = 0.0,
        start: str = "alone",
        tol: float = 1e-10,
    ):
        self.rounds = rounds
        self.penalty = penalty
        self.clip = clip
        self.step = step
        self.local_steps = local_steps
        self.momentum = momentum
        self.strong_convexity = strong_convexity
        self.allocation = allocation
        self.exponent = exponent
        self.start = start
        self.tol = tol

    @property
    def bound(self) -> float:
        """K."""
        return 1.0 if self.clip is None else float(self.clip)

    def weighs(self, budget: Budget) -> bool:
        """Whether tasks average over priors in the end: one valid release, and not of models with noise of their own."""
        sound = budget.epsilon is not None and budget.variant == "sound" and budget.aggregation != "local-model"
        return self.one_release and sound and self.n_rounds(budget) == 1

    def weighs_prior(self, budget: Budget) -> bool:
        return self.weighs(budget)

    def chooses(self, budget: Budget) -> bool:
        return self.weighs(budget)

    def contribution(self, public: PublicInfo, bound: float, paper: bool) -> Contribution:
        return OuterSum(public.n_features, bound, public.n_outputs)

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        rounds = self.n_rounds(budget)
        private = budget.epsilon is not None
        what = self.contribution(public, self.bound if private else Contribution.unbounded, budget.variant != "sound")
        weights = self.round_weights(rounds)
        asked = [Request(RELEASE, t + 1, what, weight=float(w)) for t, w in enumerate(weights)]
        if not private:
            asked.insert(0, Request(SETUP, 1, TaskStack(public.n_tasks, (3,), Contribution.unbounded)))
        return asked

    def round_weights(self, rounds: int) -> np.ndarray:
        """Shares of the budget over rounds (journal version, section 4.5)."""
        if self.allocation == "uniform":
            return uniform(rounds)
        if self.allocation == "power":
            return power(rounds, self.exponent)
        return geometric(rounds, self.exponent)

    def n_rounds(self, budget: Budget) -> int:
        if self.rounds is not None:
            return int(self.rounds)
        if budget.epsilon is None:
            return 1000
        if budget.variant == "sound":
            return 1 if self.one_release else 5
        return 20

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return ProximalTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return ProximalServer(self, public, plan)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return {"map": (-1.0, 1.0), "step": (0.0, LARGEST), "curvature": (0.0, LARGEST), **RANGES}

    def keeps_history(self, plan: Plan) -> bool:
        return plan.budget.epsilon is not None

    def replayed(self, billboards: list[Billboard], plan: Plan) -> list[Billboard]:
        """Without noise the map has settled: walking with the last one leads to the same fixed point."""
        if self.weighs(plan.budget):
            return billboards[-1:]
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


class ProximalTasks(TaskSide):
    """Steps 3 and 9-11 for a block of tasks."""

    def __init__(self, method: ProximalMethod, block: TaskBlock, public: PublicInfo, plan: Plan):
        self.method, self.block, self.public, self.plan = method, block, public, plan
        self.loss = LOSSES.get(public.loss)
        self.paper = plan.budget.variant != "sound"
        self.private = plan.budget.epsilon is not None
        self.weighs = method.weighs(plan.budget)
        # A private run has few steps, and a site restarted in between must not send other numbers; as printed is as printed.
        exact = self.private or self.paper
        smooth = SmoothPart(block, self.loss, method.strong_convexity, public.fit_intercept, from_rows=exact)
        self.means = smooth.mean_x
        self.centred = (smooth, smooth.mean_y) if public.loss == "squared" else None
        self.local_steps = method.local_steps or (10 if self.private and not self.paper else 1)
        self._curvature: np.ndarray | None = None

    @property
    def curvature(self) -> np.ndarray:
        """L_i of every task's mean loss, strong convexity included (m,)."""
        if self._curvature is None:
            self._curvature = local_curvature(self.block, self.public) + self.method.strong_convexity
        return self._curvature

    def start(self) -> State:
        b, r, d = self.block.n_tasks, self.block.n_outputs, self.block.n_features
        if self.method.start == "zero":
            W, c = np.zeros((b, r, d)), np.zeros((b, r))
        else:
            alone = alone_models(self.block, self.public)
            W, c = alone.coef.copy(), alone.intercept.copy()
        return {"w": W, "previous": self.sent(W), "intercept": c}

    def sent(self, W: np.ndarray) -> np.ndarray:
        """What the paper keeps as the task's own model: the clipped one. The sound variant clips only what is sent."""
        if not self.paper:
            return W
        return clip_rows(W.reshape(W.shape[0], -1), self.method.bound).reshape(W.shape)

    def step(self, state: State, view: View) -> tuple[State, Message]:
        if "map" in view:
            state = self._advance(state, view)
        directions = self.weighs and self.method.clip is None
        message: Message = {RELEASE: unit_messages(state["w"]) if directions else state["w"]}
        if not self.private and view.round == 0:
            message[SETUP] = self._setup(state)
        return state, message

    def finish(self, state: State, view: View) -> Models:
        if self.weighs:
            return weighed_models(self.block, self.public, published_priors(view, self.public))
        W = self.apply_map(view["map"], self.sent(state["w"]))
        return Models(W, best_intercepts(self.block, W, self.loss, self.public.fit_intercept))

    def apply_map(self, M: np.ndarray, W: np.ndarray) -> np.ndarray:
        """Step 9: M w for every model; a diagonal map is kept as a vector."""
        if M.ndim == 1:
            return W * M
        return times(W.reshape(-1, len(M)), M.T).reshape(W.shape)

    def _advance(self, state: State, view: View) -> State:
        """Steps 9-11, `local_steps` times with the same map."""
        M, t = view["map"], view.round
        eta = self._steps(view)
        W, previous, b = state["w"], state["previous"], state["intercept"]
        for k in range(self.local_steps):
            W_hat = self.apply_map(M, self.sent(W))
            beta = self.method.momentum_at(t + k, float(view["curvature"]))
            W, b = self._descend(W_hat, previous, beta, b, eta)
            previous = W_hat
        return {"w": W, "previous": previous, "intercept": b}

    def _descend(
        self, W_hat: np.ndarray, previous: np.ndarray, beta: float, b: np.ndarray, eta: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Steps 10-11, and the next intercept.

        With squared loss the gradient at the best intercept is that of centred rows whatever the intercept, so none is
        carried along, and both steps are one pass over rows and models.
        """
        if self.centred is not None:
            smooth, c = self.centred
            return smooth.accelerated_step((W_hat, c), (previous, c), beta, eta)[0], b
        Z = extrapolated(W_hat, previous, beta)
        gradient, b = self._gradient(Z, b, eta)
        return stepped(Z, gradient, eta), b

    def _steps(self, view: View) -> np.ndarray:
        """eta per task: one public number, or (sound and private) each task's own 1/L_i."""
        if self.private and not self.paper and self.method.step is None:
            return 1.0 / self.curvature
        return np.full(self.block.n_tasks, float(view["step"]))

    def _gradient(self, Z: np.ndarray, b: np.ndarray, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Gradient in w; the intercept is unpenalised: solved exactly for squared loss, stepped for logistic loss."""
        gradient, b = profiled_gradient(self.block, self.public, Z, b, self.means, eta[:, None])
        if self.method.strong_convexity:
            gradient += self.method.strong_convexity * Z
        return gradient, b

    def _setup(self, state: State) -> np.ndarray:
        """Without privacy: variance of a row's gradient per coordinate, rows, L_i: the server's step and penalty."""
        noise = gradient_variance(self.block, self.loss, state["w"], state["intercept"])
        return np.stack([noise, self.block.counts, self.curvature], axis=1)


class ProximalServer(ServerSide):
    """Steps 6-8: from the noisy second moment to the map."""

    def __init__(self, method: ProximalMethod, public: PublicInfo, plan: Plan):
        self.method, self.public, self.plan = method, public, plan
        self.private = plan.budget.epsilon is not None

    def start(self) -> tuple[State, Billboard]:
        return {"step": np.array(0.0), "curvature": np.array(0.0), "threshold": np.array(0.0)}, Billboard(0, {})

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        t = int(state.get("round", np.array(0))) + 1
        if t == 1:
            state = self._settings(releases)
        S = releases[RELEASE]
        if self.method.weighs(self.plan.budget):
            values = {"second-moment": S, **self.found(S, t)}
        else:
            M = self.make_map(S, float(state["threshold"]), self.lift(t))
            values = {"map": M, "step": state["step"], "curvature": state["curvature"], "second-moment": S}
        done = not self.private and self.method.tol > 0 and "last" in state and self._still(S, state["last"])
        state = {**state, "round": np.array(t), "last": S}
        return state, Billboard(t, values, accepted=accepted, done=bool(done))

    def make_map(self, S: np.ndarray, threshold: float, lift: float) -> np.ndarray:
        return self.method.structure.map_from_covariance(S, threshold, lift)

    def _still(self, S: np.ndarray, last: np.ndarray) -> bool:
        return bool(np.linalg.norm(S - last) <= self.method.tol * np.linalg.norm(S))

    def _settings(self, releases: Mapping[str, np.ndarray]) -> State:
        if self.private:
            eta = self.method.public_step(self.public)
            curvature, threshold = 1.0 / eta, self.private_threshold(eta)
        else:
            noise, rows, _ = releases[SETUP].mean(axis=0)
            curvature = float(releases[SETUP][:, 2].max())
            eta = self.method.step or 1.0 / curvature
            threshold = eta * self.plain_penalty(float(noise), float(rows))
        return {"step": np.array(eta), "curvature": np.array(curvature), "threshold": np.array(threshold)}

    def private_threshold(self, eta: float) -> float:
        """Soft threshold on sqrt(eigenvalue): eta lambda as printed, or a share of the largest value possible."""
        if self.plan.budget.variant != "sound":
            penalty = self.method.penalty
            return eta * penalty if penalty is not None else 0.02 * self.method.bound * np.sqrt(self.public.n_tasks)
        share = 0.02 if self.method.penalty is None else self.method.penalty
        return share * self.method.bound * float(np.sqrt(self.public.n_tasks * self.public.n_outputs))

    def plain_penalty(self, noise: float, rows: float) -> float:
        """lambda: given, or the size of pure gradient noise in the dual norm (spectral; largest row for l2,1)."""
        if self.method.penalty is not None:
            return self.method.penalty
        columns = self.public.n_tasks * self.public.n_outputs
        return self.noise_norm(columns) * float(np.sqrt(noise / max(rows, 1.0)))

    def noise_norm(self, columns: int) -> float:
        """Dual norm of a features x columns matrix of unit noise."""
        return float(np.sqrt(columns) + np.sqrt(self.public.n_features))

    def lift(self, t: int) -> float:
        """1.5 noise levels in the sound variant (docs/theory/model-protected.md#noise-lift); zero as printed or without noise."""
        if not self.private or self.plan.budget.variant != "sound":
            return 0.0
        planned = self.planned(t)
        return 1.5 * planned.mechanism.typical_norm(planned.contribution)

    def found(self, S: np.ndarray, t: int) -> dict[str, np.ndarray]:
        """What stands out in S."""
        return moment_structure.structure(S, self.planned(t), self.public, self.plan.budget.aggregation, self.method.clip)

    def planned(self, t: int) -> PlannedRelease:
        return next(p for p in self.plan.releases if p.round == t and p.name == RELEASE)
