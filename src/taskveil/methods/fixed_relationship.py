"""Learning along a fixed, public relationship between tasks (Hu, Wu, Smith 2023, eq. 1 with a given Omega; Evgeniou et al. 2005).

    min over w_k of  sum_k l_k(w_k) + (strength/2) tr(W Omega W')        Omega (tasks x tasks), positive semidefinite, public

Omega is scaled to largest eigenvalue one and the strength takes the factor. Then Omega = I - A with A >= 0, and every task solves

    w_k = argmin l_k(w) + (strength/2) |w - c_k|^2,   c_k = sum_j A_kj w_j        so that the objective never rises

`mean` is A = 11'/m, disjoint clusters are blocks of it. With A = B'B, B = diag(sqrt(s)) U' from its eigenvectors, all tasks
need of each other is Y = sum_k B_k (outer) w_k: one release a round, of as many models as A has eigenvalues above zero. Proof
of convergence, and why this factor: docs/theory/mean-regularised.md#fixed-relationship.

Release     sum_k D B_k (outer) (w_k - c_k), D public and diagonal (it speeds the rounds up, as in mean_rounds.py)
Sensitivity the clip times the largest |B_k| = sqrt(A_kk) (add-remove), twice that (replace-one), whatever a message depends on
Observer    the other tasks, all colluding; an Omega that was learned from data is not public: see `relationship`
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.losses import LOSSES
from taskveil.methods.base import Message, Method, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.mean_rounds import RELEASE, FixedServer, rounds
from taskveil.privacy.contributions import Contribution, VectorSum
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.solvers.newton import minimise_local
from taskveil.solvers.padding import per_task
from taskveil.tasks.block import TaskBlock

NEGLIGIBLE = 1e-9  # eigenvalues of A, of at most one, below which a direction is left out


@dataclass(eq=False, repr=False)
class FixedRelationship(Method):
    """Models along a public relationship between tasks.

    omega       (tasks, tasks) positive semidefinite, in the order of the tasks; None: all alike, I - 11'/m, which is `mean`
    strength    lambda in front of the penalty
    rounds      releases; None: 10 with noise, up to 300 without
    rate        probability that a task takes part in a round; None: always
    clip        norm of a task's move before it is weighed by its relations; None: 1
    tol         without noise: stop when what is shared moves less than this, relative; 0 runs all rounds
    """

    name = "fixed-relationship"
    aggregations = ("curator", "local", "secure")
    weighs_tasks = False
    reference = "Hu, Wu, Smith 2023, Private Multi-Task Learning, eq. 1 and the remark after Corollary 2"

    omega: Any = None
    strength: float = 1.0
    rounds: int | None = None
    rate: float | None = None
    clip: float | None = None
    tol: float = 1e-10

    def check(self, public: PublicInfo, budget: Budget) -> None:
        super().check(public, budget)
        self.factor(public)

    def factor(self, public: PublicInfo) -> tuple[np.ndarray, np.ndarray, float]:
        """B' (tasks, g), the eigenvalues s (g,) of A above zero, and the scale of Omega; all public."""
        m = public.n_tasks
        if self.omega is None:
            return np.full((m, 1), m**-0.5), np.ones(1), 1.0
        try:
            omega = np.asarray(self.omega, dtype=float)
        except (TypeError, ValueError):
            raise OptionError(f"option omega must be a matrix of numbers, got {type(self.omega).__name__}") from None
        if omega.shape != (m, m):
            raise OptionError(f"option omega needs a row and a column for each of the {m} tasks, got shape {omega.shape}")
        if not np.isfinite(omega).all() or not np.allclose(omega, omega.T):
            raise OptionError("option omega must be a symmetric matrix of numbers; make it (omega + omega.T) / 2")
        values, U = np.linalg.eigh((omega + omega.T) / 2)
        scale = float(values[-1])
        if scale <= 0 or values[0] < -1e-8 * scale:
            raise OptionError("option omega must be positive semidefinite and not zero: no negative eigenvalue, one above zero")
        s = 1.0 - np.clip(values / scale, 0.0, 1.0)
        kept = s > NEGLIGIBLE
        if not kept.any():
            raise OptionError("option omega relates no tasks: it is a multiple of the identity; use method 'local'")
        return U[:, kept] * np.sqrt(s[kept]), s[kept], scale

    def speed(self, public: PublicInfo) -> np.ndarray:
        """D (g,): 1/(1 - s lambda/(h + lambda)), h a public bound on the curvature; one where there is no such bound."""
        _, s, scale = self.factor(public)
        strength = self.strength * scale
        h = LOSSES.get(public.loss).smoothness * (1.0 if public.unit_rows else float(public.n_features))
        return 1.0 / (1.0 - s * (strength / (h + strength) if np.isfinite(h) else 0.0))

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        self.check(public, budget)
        weights, _, _ = self.factor(public)
        clip = 1.0 if self.clip is None else self.clip
        bound = Contribution.unbounded if budget.epsilon is None else clip * float(np.linalg.norm(weights, axis=1).max())
        what = VectorSum((weights.shape[1], public.n_outputs, public.n_features), bound)
        return [Request(RELEASE, t + 1, what, rate=self.rate) for t in range(self.rounds or rounds(budget))]

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return RelatedTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return RelationServer(self, public, plan)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return {"weights": (-1.0, 1.0)}  # |B_k|^2 = A_kk, and A has eigenvalues of at most one

    def keeps_history(self, plan: Plan) -> bool:
        return False


class RelatedTasks(TaskSide):
    """Exact local solves around what related tasks have; no state."""

    def __init__(self, method: FixedRelationship, block: TaskBlock, public: PublicInfo, plan: Plan):
        super().__init__(method, block, public, plan)
        self.speed = method.speed(public)
        self.strength = method.strength * method.factor(public)[2]

    def step(self, state: State, view: View) -> tuple[State, Message]:
        W, _ = self._solve(view)
        return state, {RELEASE: per_task("kg,krd->kgrd", view["weights"] * self.speed, W - self._centre(view))}

    def finish(self, state: State, view: View) -> Models:
        return Models(*self._solve(view))

    def _solve(self, view: View) -> tuple[np.ndarray, np.ndarray]:
        return minimise_local(self.block, self.loss, self.strength, self._centre(view), self.public.fit_intercept)

    def _centre(self, view: View) -> np.ndarray:
        """c_k (tasks, outputs, features)."""
        weights = view["weights"]
        shared = np.broadcast_to(view["shared"], (len(weights), *view["shared"].shape))
        return np.asarray(per_task("kg,kgrd->krd", weights, shared))


class RelationServer(FixedServer):
    """Moves Y along the release: Y + D (B W - Y), of which the tasks sent D (B W - s Y)."""

    def __init__(self, method: FixedRelationship, public: PublicInfo, plan: Plan):
        super().__init__(method, public, plan)
        self.weights, s, _ = method.factor(public)
        self.pull = (method.speed(public) * (1.0 - s))[:, None, None]
        self.shape = (len(s), *self.shape)
        self.expected = 1.0

    def shown(self, shared: np.ndarray) -> tuple[dict[str, np.ndarray], frozenset[str]]:
        return {"shared": shared, "weights": self.weights}, frozenset({"weights"})

    def moved(self, release: np.ndarray, shared: np.ndarray) -> np.ndarray:
        return release - self.pull * shared
