"""Task relationship learning (Zhang & Yeung 2010) over the billboard; the W'W form of MP-MTL Algorithm 1.

    min_{W, Omega >= 0, tr Omega = 1}  sum_i L_i(w_i) + (penalty/2) tr(W Omega^-1 W')

`covariance="gram"`   releases the tasks x tasks matrix W'W. One task moves a whole row and column, so the sensitivity grows
                      with sqrt(tasks): sqrt(8(m-1)+1) K^2 (replace-one), sqrt(2m-1) K^2 (add-remove). The papers miss
                      this; `taskveil plan` says when it is hopeless. A task can use its own entry of Omega^-1 only
                      (the others' models are not on the billboard): a ridge strength.
`covariance="models"` (default) releases every task's clipped model with noise: sensitivity 2K whatever the number of
                      tasks. Omega follows by post-processing, and so does the best guess of each model from all noisy
                      ones (a Wiener filter over tasks), a centre the task weighs against learning alone.

Without noise the loop is the accelerated proximal gradient method on sum_i L_i + (penalty/2)|W|_*^2, the same problem
with Omega minimised out (structures/relationship.py), and reaches its optimum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from taskveil.methods.base import LARGEST, Billboard, Message, Method, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.methods.local import alone_models, best_intercepts
from taskveil.methods.local_gradients import gradient_variance, local_curvature, profiled_gradient
from taskveil.methods.proximal_sides import SETUP
from taskveil.methods.shared_prior import weighed_models
from taskveil.privacy.contributions import Contribution, TaskGram, TaskStack
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.solvers.newton import minimise_local
from taskveil.solvers.posterior import Prior
from taskveil.structures.relationship import Relationship as Structure
from taskveil.tasks.block import TaskBlock

MODELS, GRAM = "models", "gram"


@dataclass(eq=False, repr=False)
class Relationship(Method):
    """Learn how tasks relate and borrow strength accordingly.

    rounds      releases; None: 1 with noise, up to 1000 without
    penalty     lambda; None takes it from the size of the gradient noise (only without privacy) or 1
    clip        K, the norm a task's message is clipped to
    covariance  "models" or "gram": what is released, see above
    tol         without noise: stop when the models move less than this, relative; 0 runs all rounds
    """

    name = "relationship"
    forms: ClassVar[dict[str, str]] = dict.fromkeys(("paper", "preprint"), ".papers.liang_2020:Relationship")
    aggregations = ("curator", "local")
    reference = "Zhang & Yeung 2010; Liang et al., Model-Protected Multi-Task Learning, Algorithm 1 (W'W)"

    rounds: int | None = None
    penalty: float | None = None
    clip: float = 1.0
    covariance: str = "models"
    tol: float = 1e-9

    def released(self, budget: Budget) -> str:
        """Without noise the models themselves."""
        return MODELS if budget.epsilon is None else self.covariance

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        m, d, r = public.n_tasks, public.n_features, public.n_outputs
        private = budget.epsilon is not None
        rounds = self.rounds or (1 if private else 1000)
        bound = self.clip if private else Contribution.unbounded
        what = TaskGram(m, d, bound, r) if self.released(budget) == GRAM else TaskStack(m, (r, d), bound)
        requests = [Request(self.released(budget), t + 1, what) for t in range(rounds)]
        if not private:
            requests.insert(0, Request(SETUP, 1, TaskStack(m, (3,), Contribution.unbounded)))
        return requests

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        kind = RelatedTasks if plan.budget.epsilon is not None else PlainRelatedTasks
        return kind(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        kind = RelationshipServer if plan.budget.epsilon is not None else PlainServer
        return kind(self, public, plan)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return {"strength": (0.0, LARGEST)}

    def keeps_history(self, plan: Plan) -> bool:
        return plan.budget.epsilon is not None

    def chooses(self, budget: Budget) -> bool:
        return budget.epsilon is not None and self.released(budget) == MODELS


class RelatedTasks(TaskSide):
    """Private: solve locally to the end around the centre the billboard gives, send the model."""

    def start(self) -> State:
        alone = alone_models(self.block, self.public)
        return {"w": alone.coef, "intercept": alone.intercept}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        if view.round > 0:
            models = self.finish(state, view)
            state = {"w": models.coef, "intercept": models.intercept}
        return state, {self.method.released(self.plan.budget): state["w"]}

    def finish(self, state: State, view: View) -> Models:
        if "centre" in view:  # zero where the others' models do not stand clear of the noise
            options = [Prior()] + ([Prior(centre=view["centre"])] if np.any(view["centre"]) else [])
            return weighed_models(self.block, self.public, options, own_scale=False)
        # Only Omega is known: its diagonal sets each task's ridge strength.
        return Models(*minimise_local(self.block, self.loss, view["strength"], fit_intercept=self.public.fit_intercept))


class RelationshipServer(ServerSide):
    """From noisy models or a noisy Gram matrix to Omega and what each task needs of it."""

    published, per_task = ("centre", "strength", "omega", "noisy_models"), frozenset({"centre", "strength"})

    def changes(self, state: State, releases: Mapping[str, np.ndarray], t: int) -> State:
        return self._from_models(releases[MODELS], t) if MODELS in releases else self._from_gram(releases[GRAM])

    def _from_gram(self, gram: np.ndarray) -> dict[str, np.ndarray]:
        omega = Structure().covariance(gram, ridge=0.1)
        strength = (self.method.penalty or 1.0) * np.diag(np.linalg.inv(omega)) / self.public.n_tasks**2
        return {"omega": omega, "strength": strength}

    def _from_models(self, noisy: np.ndarray, t: int) -> dict[str, np.ndarray]:
        """Wiener filter over tasks: E[w | all noisy models] for models with task covariance C and noise s^2."""
        m = self.public.n_tasks
        flat = noisy.reshape(m, -1)
        planned = self.planned[t, MODELS]
        variance = planned.mechanism.coordinate_deviation(planned.contribution) ** 2
        gram = flat @ flat.T / flat.shape[1] - variance * np.eye(m)
        L, U = np.linalg.eigh((gram + gram.T) / 2.0)
        edge = variance * (2 * np.sqrt(m / flat.shape[1]) + m / flat.shape[1])  # where pure noise ends
        L = np.where(L > edge, L, 0.0)
        centre = ((U * (L / (L + variance + 1e-300))) @ U.T @ flat).reshape(noisy.shape)
        omega = Structure().covariance((U * L) @ U.T)
        return {"centre": centre, "omega": omega, "noisy_models": noisy}


class PlainRelatedTasks(TaskSide):
    """Without noise: gradient steps, the proximal map is the server's."""

    def __init__(self, method: Relationship, block: TaskBlock, public: PublicInfo, plan: Plan):
        super().__init__(method, block, public, plan)
        self.means = block.means_by_task(block.X)

    def start(self) -> State:
        alone = alone_models(self.block, self.public)
        return {"w": alone.coef, "previous": alone.coef.copy(), "intercept": alone.intercept}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        if view.round == 0:
            noise = gradient_variance(self.block, self.loss, state["w"], state["intercept"])
            rows = np.stack([noise, self.block.counts, local_curvature(self.block, self.public)], axis=1)
            return state, {SETUP: rows, MODELS: state["w"]}
        W_hat, eta = view["models"], float(view["step"])
        t = view.round
        Z = W_hat + (t - 1.0) / (t + 2.0) * (W_hat - state["previous"])
        gradient, b = profiled_gradient(self.block, self.public, Z, state["intercept"], self.means, eta)
        W = Z - eta * gradient
        return {"w": W, "previous": W_hat, "intercept": b}, {MODELS: W}

    def finish(self, state: State, view: View) -> Models:
        W = view["models"]
        return Models(W, best_intercepts(self.block, W, self.loss, self.public.fit_intercept))


class PlainServer(ServerSide):
    """Proximal map of half the squared trace norm."""

    def start(self) -> tuple[State, Billboard]:
        return {"round": np.array(0)}, Billboard(0, {})

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        t = int(state["round"]) + 1
        if t == 1:
            noise, rows, _ = releases[SETUP].mean(axis=0)
            eta = 1.0 / float(releases[SETUP][:, 2].max())
            state = {"step": np.array(eta), "penalty": np.array(self._penalty(noise, rows, releases[MODELS]))}
        structure, Z = Structure(), releases[MODELS]
        matrix = structure.matrix(Z)
        W = structure.models(structure.prox(matrix, float(state["step"] * state["penalty"])), Z.shape)
        still = "last" in state and np.linalg.norm(W - state["last"]) <= self.method.tol * np.linalg.norm(W)
        omega = structure.covariance(W.reshape(len(W), -1) @ W.reshape(len(W), -1).T)
        values = {"models": W, "step": state["step"], "omega": omega, "penalty": state["penalty"]}
        state = {**state, "round": np.array(t), "last": W}
        return state, Billboard(t, values, frozenset({"models"}), accepted, done=bool(still and self.method.tol > 0))

    def _penalty(self, noise: float, rows: float, models: np.ndarray) -> float:
        """lambda |W|_* must match the spectral norm of the gradient noise, so divide by a guess of |W|_*."""
        if self.method.penalty is not None:
            return self.method.penalty
        m, columns = self.public.n_tasks, self.public.n_tasks * self.public.n_outputs
        size = (np.sqrt(columns) + np.sqrt(self.public.n_features)) * np.sqrt(noise / max(rows, 1.0))
        return float(size / max(np.linalg.norm(models.reshape(m, -1), "nuc"), 1e-12))
