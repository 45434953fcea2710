"""The server of asynchronous multi-task learning: applies one task's noisy gradient the moment it arrives.

Keeps Z and P = prox_{alpha lambda r}(Z). On arrival of g_t, taken at the p_t that task t was sent (backward-forward splitting
under ARock, Peng et al. 2016; docs/theory/asynchronous.md#server):

    z_t <- z_t + eta (p_t - alpha g_t - z_t)                      shared part
    u_t <- u_t + eta (q_t - alpha g_t - u_t),  q_t = prox_{alpha tau g}(u_t)   own part, with the same noisy gradient
    b_t <- b_t - 2 eta alpha (g_t)_intercept

p and q share a gradient, so the joint step is below 2/L when alpha < 1/L (alpha_1 + alpha_2 < 2/L). All of it is computed from
releases: post-processing. In the semi-exact form q_t and b_t stay at the task and only z_t moves here.

How far one arrival moves its column: the relaxation eta of z_t <- z_t + eta (p_t - alpha g_t - z_t).

ARock (Peng, Xu, Yan & Yin 2016, Thm. 3) converges for eta <= c / (1 + 2 tau / sqrt(T)), c < 1, tau the largest number of
other updates between reading p_t and writing z_t, T the number of columns. Taking the delay of the message at hand
instead of the largest one keeps convergence without a bound on the delays (Hannah & Yin 2018, delay-dependent
steps), and a slow node no longer slows the others down.

The bound is a worst case. In all our runs eta = c converges too, five to ten times sooner, because tasks meet only in
the proximal map. So "safeguarded" (the default) starts with eta = c and watches the fixed-point residual
sum_t |p_t - alpha g_t - z_t|^2, which the server can compute from what it was sent: as long as it keeps falling by a
fixed factor per window the iteration converges, because a residual of zero is a solution; once it stops falling (the
delays hurt, or noise dominates) the proved rule takes over for good. Under noise that is also the right moment to
average more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from taskveil.errors import DataError
from taskveil.methods.base import ArrivalServer, Billboard, PublicInfo, State
from taskveil.privacy.plan import Plan

if TYPE_CHECKING:
    from taskveil.methods.async_mtl.method import AsyncMTL

SAFETY = 0.9  # c < 1
WINDOW = 100  # sweeps over all tasks without progress before the proved rule takes over
PROGRESS = 0.98  # the residual must fall below this share of its best value within the window


class AsyncServer(ArrivalServer):
    """Arrivals in any order; `accepted` says whose messages the releases hold (axis 0 runs over those tasks)."""

    shown: ClassVar[tuple[str, ...]] = ("shared", "own", "intercept")

    def __init__(self, method: AsyncMTL, public: PublicInfo, plan: Plan) -> None:
        super().__init__(method, public, plan)
        self.form, self.penalties = method.form(plan.budget), method.penalties()
        self.row_weights = method.row_weights(self.form, public)
        self.relaxation = Relaxation(method.relaxation, public.n_tasks)
        self._prox: Any = None
        self._prox_of: np.ndarray | None = None

    def start(self) -> tuple[State, Billboard]:
        state = self.first()
        return state, self._billboard(state)

    def first(self) -> State:
        """The state before the first message: all parts zero."""
        m, r, d = self.public.n_tasks, self.public.n_outputs, self.public.n_features
        return {
            "Z": np.zeros((m * r, d)),
            "shared": np.zeros((m, r, d)),  # p_t as it was last sent to task t
            "own": np.zeros((m, r, d)),
            "own_before_prox": np.zeros((m, r, d)),
            "intercept": np.zeros((m, r)),
            "table": np.zeros((m * r, d)),  # last gradient of every task
            "version": np.zeros(1, dtype=np.int64),
            "read_at": np.zeros(m, dtype=np.int64),
            "delay_sum": np.zeros(2, dtype=np.int64),  # sum and largest of the delays seen
            "step": np.array([self.method.initial_step(self.public, self.form)]),
            "turns": np.zeros(2),  # sum and sum of squares of <g_t, last g_t> since the step was set
            "watch": self.relaxation.start(),
        }

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        tasks = np.flatnonzero(accepted)
        if "curvature" in releases:
            self._shorten_step(state, releases["curvature"])
        if "own-gradient" in releases:
            self._move_own(state, tasks, self._means(releases["own-gradient"], tasks), np.ones(len(tasks)))
        else:
            self._arrive(state, tasks, self._means(releases["gradient"], tasks))
        return state, self._billboard(state, accepted)

    def final(self, state: State) -> Billboard:
        """The last billboard: every column fresh, not as it was last sent."""
        m, r, d = state["shared"].shape
        state["shared"] = self._prox_for(state).all().reshape(m, r, d)
        return self._billboard(state)

    def statistics(self, state: State) -> dict[str, float]:
        """Delays, in updates by others between reading and writing; and whether the proved relaxation took over."""
        arrivals = int(state["version"][0])
        return {
            "arrivals": arrivals,
            "mean_delay": float(state["delay_sum"][0]) / max(arrivals, 1),
            "largest_delay": int(state["delay_sum"][1]),
            "proved_relaxation": bool(state["watch"][0, 0]) or self.method.relaxation == "delays",
        }

    def residual(self, state: State) -> float:
        """sum_t |p_t - alpha g_t - z_t|^2 over the last message of every task, relative to alpha^2; nan before all were heard."""
        return float(state["watch"][0, 1:].sum() / state["step"][0] ** 2)

    def _arrive(self, state: State, tasks: np.ndarray, gradient: np.ndarray) -> None:
        d = self.public.n_features
        delays = state["version"][0] - state["read_at"][tasks]
        eta = self.relaxation.eta(delays, state["watch"])
        self._move_shared(state, tasks, gradient[..., :d], eta)
        if self.form.own_at_server:
            self._move_own(state, tasks, gradient, eta)
        state["version"] += len(tasks)
        state["delay_sum"][0] += delays.sum()
        state["delay_sum"][1] = max(state["delay_sum"][1], delays.max(initial=0))
        rows = self._columns(tasks)
        state["shared"][tasks] = self._prox_for(state).rows(rows).reshape(len(tasks), -1, d)
        state["read_at"][tasks] = state["version"][0]

    def _move_shared(self, state: State, tasks: np.ndarray, g: np.ndarray, eta: np.ndarray) -> None:
        alpha = float(state["step"][0])
        prox, rows = self._prox_for(state), self._columns(tasks)
        z = state["Z"][rows].reshape(g.shape)
        move = state["shared"][tasks] - alpha * g - z
        z = (z + eta[:, None, None] * move).reshape(len(rows), -1)
        state["Z"][rows] = z
        prox.replace(rows, z)
        self.relaxation.observe(tasks, np.square(move).sum(axis=(1, 2)), state["watch"])
        self._watch_turns(state, tasks, g)

    def _move_own(self, state: State, tasks: np.ndarray, gradient: np.ndarray, eta: np.ndarray) -> None:
        d, alpha = self.public.n_features, float(state["step"][0])
        weight = eta[:, None, None]
        u = state["own_before_prox"][tasks]
        u = u + weight * (state["own"][tasks] - alpha * gradient[..., :d] - u)
        state["own_before_prox"][tasks] = u
        state["own"][tasks] = self.penalties.shrink_own(u, alpha * self.method.own_penalty)
        if self.public.fit_intercept:
            state["intercept"][tasks] -= 2.0 * eta[:, None] * alpha * gradient[..., d]

    def _shorten_step(self, state: State, curvature: np.ndarray) -> None:
        """Without privacy tasks may say how curved their loss is; alpha follows the largest value heard."""
        new = self.method.step_for(float(np.max(curvature)))
        if new < float(state["step"][0]):
            self._set_step(state, new)

    def _watch_turns(self, state: State, tasks: np.ndarray, g: np.ndarray) -> None:
        """Halve a step that was only guessed (privacy, step=None) when successive gradients point against each other.

        A step beyond 1/L overshoots and turns the gradient round. The noises of two messages are independent, so
        <g_t, last g_t> shows the turn without bias; it counts once its sum is two standard errors below zero.
        """
        rows = self._columns(tasks)
        inner = (state["table"][rows].reshape(g.shape) * g).sum(axis=(1, 2))
        state["table"][rows] = g.reshape(len(rows), -1)
        if not self.method.guesses_step(self.form):
            return
        state["turns"] += [inner.sum(), np.square(inner).sum()]
        if state["turns"][0] < -2.0 * np.sqrt(state["turns"][1]):
            self._set_step(state, 0.5 * float(state["step"][0]))
            state["turns"][:] = 0.0
            state["table"][:] = 0.0

    def _set_step(self, state: State, new: float) -> None:
        """At a fixed point Z - P = -alpha g, so Z moves along when alpha changes and P stays where it is."""
        old = float(state["step"][0])
        P = self._prox_for(state).all()
        state["Z"] = P + (new / old) * (state["Z"] - P)
        Q = state["own"]
        state["own_before_prox"] = Q + (new / old) * (state["own_before_prox"] - Q)
        state["step"] = np.array([new])
        self._prox_of = None

    def _means(self, release: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        expected = (len(tasks), self.public.n_outputs, self.public.n_features + int(self.public.fit_intercept))
        if release.shape != expected:
            raise DataError(f"async server: expected releases of shape {expected}, got {release.shape}")
        return release if self.row_weights is None else release * self.row_weights[tasks, None, None]

    def _columns(self, tasks: np.ndarray) -> np.ndarray:
        r = self.public.n_outputs
        return (tasks[:, None] * r + np.arange(r)).ravel()

    def _prox_for(self, state: State) -> Any:
        """The incremental prox of this state's Z; rebuilt when Z was replaced as a whole (start, resume, new step)."""
        if self._prox is None or self._prox_of is not state["Z"]:
            self._prox = self.penalties.incremental(state["Z"], float(state["step"][0]) * self.method.shared_penalty)
            self._prox_of = state["Z"]
        return self._prox

    def _billboard(self, state: State, accepted: np.ndarray | None = None) -> Billboard:
        """Arrays are those of the live state: a view copies the columns it needs."""
        return Billboard(int(state["version"][0]), {name: state[name] for name in self.shown}, frozenset(self.shown), accepted)


def arock(delays: np.ndarray, n_tasks: int) -> np.ndarray:
    """c / (1 + 2 delay / sqrt(T)) for each message."""
    return SAFETY / (1.0 + 2.0 * delays / math.sqrt(n_tasks))


class Relaxation:
    """Chooses eta; its memory is the small array `watch`, part of the server state, so that runs can be resumed.

    watch (2, n_tasks + 1): column 0 holds [1 once the proved rule has taken over, best residual]; the other columns hold
    each task's last residual and how often it was heard since the best residual was set.
    """

    def __init__(self, rule: str | float, n_tasks: int) -> None:
        self.rule, self.n_tasks = rule, n_tasks

    def start(self) -> np.ndarray:
        """(2, tasks + 1): what the rule remembers, before the first message."""
        watch = np.zeros((2, self.n_tasks + 1))
        watch[0, 1:], watch[1, 0] = np.nan, np.inf
        return watch

    def eta(self, delays: np.ndarray, watch: np.ndarray) -> np.ndarray:
        """(messages,): how far the server goes for messages that are so many updates late."""
        if isinstance(self.rule, (int, float)):
            return np.full(len(delays), float(self.rule))
        if self.rule == "safeguarded" and not watch[0, 0]:
            return np.full(len(delays), SAFETY)
        return arock(delays, self.n_tasks)

    def observe(self, tasks: np.ndarray, residuals: np.ndarray, watch: np.ndarray) -> None:
        """Record |p_t - alpha g_t - z_t|^2 of the tasks that just arrived.

        A window counts only when *every* task was heard: a node that is away must not look like lack of progress.
        """
        watch[0, 1 + tasks] = residuals
        watch[1, 1 + tasks] += 1
        total = watch[0, 1:].sum()  # nan until every task has been heard once
        if total < PROGRESS * watch[1, 0]:
            watch[1, 0], watch[1, 1:] = total, 0.0
        elif watch[1, 1:].min() > WINDOW:
            watch[0, 0] = 1.0
