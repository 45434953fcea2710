"""A representation learned together, privately, below a head of each task's own (CENTAUR, Shen et al. 2023; FedRep, Collins et al. 2021).

    scores of task k = phi(x) H_k + b_k;   phi public, on the billboard;   H_k, b_k never leave

    round    a task solves its heads to the end on the public phi, then walks a few steps on phi below them (engine/representation.py)
    release  "update": sum over a Poisson cohort of the clipped changes of phi, noised: see neural.py; the server adds its mean to
             phi. A linear phi (d x width) is then turned into the nearest matrix with orthonormal columns: post-processing
    finish   every task solves its head on the last phi, on its rows as they are ("alone"), and on both, each with a ridge from a
             grid, and keeps what predicts its own held-out rows best; what uses phi must beat "alone" by a margin

**Privacy** (docs/theory/shared-representation.md#privacy). Unit task; only the change of phi is sent, clipped to `clip`, so the sum
has l2 sensitivity clip (add-remove), 2 clip (replace-one), whatever head it was computed with. Heads are solved anew in every round
and at the end, from the task's rows and the billboard; no state is kept. Observer: the other tasks, all colluding; the server
likewise where the aggregation hides messages from it. Not proved: that phi helps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from taskveil.methods.base import Models, PublicInfo, ServerSide, State, View
from taskveil.methods.neural import NeuralMethod
from taskveil.methods.neural_sides import NeuralServer, NeuralTasks
from taskveil.methods.shared_prior import MOST, STATED, priors, weighed_models
from taskveil.privacy.plan import Plan
from taskveil.solvers.posterior import Prior
from taskveil.tasks.block import TaskBlock

RIDGES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)


class SharedRepresentation(NeuralMethod):
    """A shared representation and a head of each task's own.

    model           the representation: "linear", {"name": "linear", "width": 4}, {"name": "mlp", "hidden": (32,)}, {"name": "cnn",
                    "hidden": 0}, an (init, apply) pair that maps rows to features, or a module
    ridge           of the heads that are solved during the rounds, relative to the mean squared length of the features
    personalise     "choose", or one of shared ("none" is the same), alone, both, vanilla, mean, symmetrised-kl, ewc
    options         what "choose" chooses among: names or (name, number), a ridge for shared, alone and both, else a strength;
                    None: shared, alone and both with ridges 1e-4 to 1
    features, rounds, rate, clip, local_steps, batch_size, learning_rate, server_rate, shrink, tune_steps, tune_rate, folds,
    adaptive_clip, participations   as for the other neural methods
    """

    name = "shared-representation"
    variants = ("sound",)
    work_start = "shared"
    work_kind = "representation"
    reference = "Shen, Ye, Kang, Hassani, Shokri 2023, Share Your Representation Only: Guaranteed Improvement of the Privacy-Utility Tradeoff"
    ways: ClassVar[tuple[str, ...]] = ("shared", "alone", "both", "vanilla", "mean", "symmetrised-kl", "ewc")

    def __init__(
        self,
        model: Any = "linear",
        features: Any = None,
        rounds: int | None = None,
        rate: float | None = None,
        clip: float = 1.0,
        ridge: float = 0.01,
        local_steps: int = 5,
        batch_size: int | None = 16,
        learning_rate: float = 0.1,
        server_rate: float = 1.0,
        shrink: bool = True,
        personalise: str | None = None,
        options: Any = None,
        tune_steps: int = 50,
        tune_rate: float | None = None,
        folds: int = 3,
        adaptive_clip: float | None = None,
        participations: int | None = None,
    ):
        super().__init__(
            model, features, rounds, rate, clip, local_steps=local_steps, batch_size=batch_size, learning_rate=learning_rate,
            server_rate=server_rate, shrink=shrink, personalise=personalise, options=options, tune_steps=tune_steps,
            tune_rate=tune_rate, folds=folds, adaptive_clip=adaptive_clip, participations=participations,
        )  # fmt: skip
        self.ridge = ridge

    def built(self, public: PublicInfo) -> Any:
        from taskveil.engine.clients import shared_model_of

        return shared_model_of(self.model, self.feature_map(public), public.n_outputs, public.kind)

    @property
    def orthonormal(self) -> bool:
        name = self.model.get("name") if isinstance(self.model, dict) else self.model
        return isinstance(name, str) and name in ("linear", "softmax")

    def work(self, plan: Plan, public: PublicInfo) -> Any:
        return replace(super().work(plan, public), pull=float(self.ridge))

    def tuning(self, public: PublicInfo) -> Any:
        return replace(super().tuning(public), batch_size=None, ridge=float(self.ridge))

    def tuning_options(self, public: PublicInfo) -> tuple[Any, ...]:
        from taskveil.engine.personalise import parse_options

        how = self.personalise or self.default_personalise
        if how == "choose":
            every = [(kind, ridge) for kind in ("alone", "shared", "both") for ridge in RIDGES]
            return parse_options(every if self.options is None else self.options, float(self.ridge), self.ways)
        return parse_options(("shared" if how == "none" else how,), float(self.ridge), self.ways)

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> NeuralTasks:
        return RepresentationTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return RepresentationServer(self, public, plan)


class RepresentationTasks(NeuralTasks):
    def finish(self, state: State, view: View) -> Models:
        """A linear model of one score per row is averaged over priors by evidence, as elsewhere; other heads are chosen."""
        method, r = self.method, self.public.n_outputs
        if not getattr(method, "orthonormal", False) or r > 1 or method.personalise or method.options or method.features:
            return super().finish(state, view)
        shared = np.asarray(self._anchors(view), dtype=np.float64)
        found = weighed_models(self.block, self.public, self._priors(shared.reshape(self.public.n_features, -1)))
        m, head = self.block.n_tasks, self.model.n_own - r - found.coef[0].size
        inputs = found.coef.transpose(0, 2, 1).reshape(m, -1)
        params = np.hstack([found.intercept, inputs, np.zeros((m, head)), np.repeat(shared, m, axis=0)])
        return Models(np.zeros((m, r, 0)), np.zeros((m, r)), found.kept, {"params": params.astype(np.float32)})

    def _priors(self, directions: np.ndarray) -> list[Prior]:
        """Alone, and along the directions (d, width), which nobody has tested."""
        d, width = directions.shape
        share, basis = np.zeros(d), np.zeros((d, d))
        share[:width], basis[:, :width] = MOST / width, directions
        return priors(np.zeros((self.public.n_outputs, d)), share, basis, (0.0, STATED))


class RepresentationServer(NeuralServer):
    """Moves the representation, in units of the length of its start; a linear one keeps orthonormal columns."""

    def move(self, mean: np.ndarray, update: np.ndarray) -> np.ndarray:
        start = self.model.start(self.public.seed or 0)[self.model.n_own :]
        moved = super().move(mean, update * (float(np.linalg.norm(start)) / self.method.clip))
        if not self.method.orthonormal:
            return moved
        left, _, right = np.linalg.svd(moved.reshape(self.model.n_features, -1), full_matrices=False)
        return (left @ right).reshape(moved.shape)
