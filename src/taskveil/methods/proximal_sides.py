"""Both sides of the proximal loop (proximal.py): what tasks do with a map, and how the server makes one from a noisy sum.

Without noise a model is sent in public units, to PRECISE bits: powers of two, one for each feature, that the last sum shows to be
no smaller than any coefficient then. The exact sum of squares (privacy/partial_sums.py) multiplies the digits of one model with
one another; so there are two of twenty bits, where a coefficient as it stands needs four and three times the products.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from taskveil.losses import LOSSES
from taskveil.methods.base import Billboard, Message, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.local import alone_models, best_intercepts
from taskveil.methods.local_gradients import gradient_variance, local_curvature, profiled_gradient
from taskveil.privacy.plan import Plan
from taskveil.solvers.centred import SmoothPart
from taskveil.solvers.moves import counted, extrapolated, stepped
from taskveil.tasks.block import TaskBlock
from taskveil.threads import times

if TYPE_CHECKING:
    from taskveil.methods.proximal import ProximalMethod
    from taskveil.solvers.evidence import Moments

RELEASE = "second-moment"
SETUP = "setup"
PRECISE = 40  # bits
FINEST = -20  # the unit of a feature of which nothing was seen is two to this


def first_models(
    start: str, block: TaskBlock, public: PublicInfo, moments: Moments | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Models and intercepts of tasks that have heard of nobody; `moments`: see solvers/evidence.py."""
    b, r, d = block.n_tasks, block.n_outputs, block.n_features
    if start == "zero":
        return np.zeros((b, r, d)), np.zeros((b, r))
    alone = alone_models(block, public, moments=moments)
    return alone.coef.copy(), alone.intercept.copy()


def units(S: np.ndarray) -> np.ndarray:
    """(features,) the units of the messages that follow a public sum of squares S: its diagonal's roots, rounded up, and doubled.

    By exponents alone: on whatever processor, both sides find the same.
    """
    squares = S if S.ndim == 1 else np.diagonal(S)
    _, exponents = np.frexp(squares)
    return np.ldexp(1.0, np.where(squares > 0.0, (exponents + 1) // 2 + 1, FINEST))


class ProximalTasks(TaskSide):
    """Steps 3 and 9-11 for a block of tasks."""

    free_steps = 10  # per release: local work costs nothing where there is noise
    from_rows = False  # True: also without noise gradients come from rows, not from sums over them

    def __init__(self, method: ProximalMethod, block: TaskBlock, public: PublicInfo, plan: Plan):
        self.method, self.block, self.public, self.plan = method, block, public, plan
        self.loss = LOSSES.get(public.loss)
        self.private = plan.budget.epsilon is not None
        # A private run has few steps, and a site restarted in between must not send other numbers.
        exact = self.private or self.from_rows
        smooth = SmoothPart(block, self.loss, method.strong_convexity, public.fit_intercept, from_rows=exact)
        self.means = smooth.mean_x
        self.centred = (smooth, smooth.mean_y) if public.loss == "squared" else None
        self.moments = smooth.curvature.take if smooth.curvature.missing.any() else None
        self.local_steps = method.local_steps or (self.free_steps if self.private else 1)
        self._curvature: np.ndarray | None = None

    @property
    def curvature(self) -> np.ndarray:
        """L_i of every task's mean loss, strong convexity included (m,)."""
        if self._curvature is None:
            self._curvature = local_curvature(self.block, self.public) + self.method.strong_convexity
        return self._curvature

    def start(self) -> State:
        W, c = first_models(self.method.start, self.block, self.public, self.moments)
        return {"w": W, "previous": self.kept(W), "intercept": c}

    def kept(self, W: np.ndarray) -> np.ndarray:
        """What a task goes on with: its model as it is, for only what is sent has to be bounded."""
        return W

    def step(self, state: State, view: View) -> tuple[State, Message]:
        if "map" in view:
            state = self._advance(state, view)
        message: Message = {RELEASE: state["w"]}
        if not self.private and "map" in view:
            message[RELEASE] = counted(state["w"], units(view["second-moment"]), PRECISE)
        if not self.private and view.round == 0:
            message[SETUP] = self._setup(state)
        return state, message

    def finish(self, state: State, view: View) -> Models:
        W = self.apply_map(view["map"], self.kept(state["w"]))
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
            W_hat = self.apply_map(M, self.kept(W))
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
        """eta per task: one public number, or (where there is noise) each task's own 1/L_i."""
        if self.private and self.method.step is None:
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
        if not self.private and "last" in state:
            one = units(state["last"])
            S = S * (np.square(one) if S.ndim == 1 else np.outer(one, one))
        M = self.make_map(S, float(state["threshold"]), self.lift(t))
        values = {"map": M, "step": state["step"], "curvature": state["curvature"], "second-moment": S}
        done = not self.private and self.method.tol > 0 and "last" in state and self._still(S, state["last"])
        state = {**state, "round": np.array(t), "last": S}
        return state, Billboard(t, values, accepted=accepted, done=bool(done))

    def make_map(self, S: np.ndarray, threshold: float, lift: float) -> np.ndarray:
        """The linear map (features, features) that stands for the penalty's proximal step, from the noisy covariance S."""
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
        """Soft threshold on sqrt(eigenvalue): a share of the largest value possible."""
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
        """1.5 noise levels (docs/theory/model-protected.md#noise-lift); zero without noise."""
        if not self.private:
            return 0.0
        planned = next(p for p in self.plan.releases if p.round == t and p.name == RELEASE)
        return 1.5 * planned.mechanism.typical_norm(planned.contribution)
