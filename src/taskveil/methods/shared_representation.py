"""A representation learned together, privately, below a head of each task's own (Shen et al. 2023; Collins et al. 2021).

    scores of task k = phi(x) H_k + b_k;   phi public, on the billboard;   H_k, b_k never leave

    round    a task solves heads to the end on the public phi and walks down the error they make on rows they did not see
             (docs/theory/shared-representation.md#rounds); it sends the direction of the change of phi
    release  "update": sum over a Poisson cohort, noised: see neural.py; the server adds its mean to phi. A linear phi (d x width)
             is then turned into the nearest matrix with orthonormal columns: post-processing
             With a public head (docs/theory/shared-representation.md#public-head) phi stands for both, here and below
    finish   every task solves its head on the last phi, on its rows as they are ("alone"), and on both, each with a ridge from a
             grid, and keeps what predicts its own left-out rows best

**Privacy** (docs/theory/shared-representation.md#privacy). Unit task; only the change of phi is sent, clipped to `clip`, so the
sum has l2 sensitivity clip (add-remove), 2 clip (replace-one), whatever head it was computed with. Heads are solved anew in every
round and at the end, from the task's rows and the billboard; no state is kept. Observer: the other tasks, all colluding; the
server likewise where the aggregation hides messages from it. Not proved: that phi helps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.methods.base import Models, PublicInfo, ServerSide, State, View
from taskveil.methods.neural import MOST_ROUNDS, LocalSteps, NeuralMethod
from taskveil.methods.neural_sides import NeuralServer, NeuralTasks
from taskveil.methods.options import with_groups
from taskveil.methods.shared_prior import MOST, STATED, priors, weighed_models
from taskveil.privacy.plan import Budget, Plan
from taskveil.solvers.posterior import Prior
from taskveil.tasks.block import TaskBlock

SOLVED = ("alone", "shared", "both")
WALKED = ("vanilla", "mean", "symmetrised-kl", "ewc")
ROUNDS = 25
ONE_STEP = LocalSteps(steps=1, batch_size=64)
CLEARLY = 3.0  # deviations of noise
RIDGES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0)


@with_groups
@dataclass(eq=False, repr=False)
class SharedRepresentation(NeuralMethod):
    """A shared representation and a head of each task's own.

    model           the representation: "linear", {"name": "linear", "width": 4}, {"name": "mlp", "hidden": (32,)},
                    {"name": "cnn", "hidden": 0}, an (init, apply) pair that maps rows to features, or a module; "rows": none.
                    With "public_head": True a head for everybody is learned beside it, and own heads correct that
    ridge           of the heads that are solved during the rounds, relative to the mean squared length of the features
    personalise     "choose"; shared ("none" is the same), alone or both, solved with `ridge`; vanilla, mean, symmetrised-kl or
                    ewc: head and representation fine-tuned together, from the solved head
    options         what "choose" chooses among: alone, shared, both or (name, ridge); None: all three, ridges 1e-5 to 1
    server_rate     how far the server goes along the mean of the directions, in units of the length of the first phi
    rounds          None: 25 (50 without noise): signal and noise of all rounds together grow alike, so noise sets no limit
    features, rate, clip, strength, shrink, participations, local, tune
                    as for the other neural methods; all messages have length `clip`
    """

    name = "shared-representation"
    work_start = "shared"
    work_kind = "representation"
    reference = "Shen, Ye, Kang, Hassani, Shokri 2023, Share Your Representation Only (CENTAUR)"

    model: Any = "linear"
    server_rate: float = 0.1
    shrink: bool = False
    local: LocalSteps = ONE_STEP
    ridge: float = 0.01

    def check(self, public: PublicInfo, budget: Budget) -> None:
        super().check(public, budget)
        if self.adaptive_clip is not None:
            raise OptionError("method 'shared-representation' sends directions: adaptive_clip has no norm to adapt; leave it")

    def built(self, public: PublicInfo) -> Any:
        """The model, split into head (own) and representation (shared)."""
        from taskveil.engine.clients import shared_model_of

        return shared_model_of(self.model, self.feature_map(public), public.n_outputs, public.kind)

    def n_rounds(self, public: PublicInfo, budget: Budget) -> int:
        usual = ROUNDS if budget.epsilon is not None else MOST_ROUNDS
        return usual if self.rounds is None else int(self.rounds)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return {**super().ranges(public), **({"mean": (-1.0, 1.0)} if self.orthonormal else {})}

    @property
    def orthonormal(self) -> bool:
        """Whether the representation is linear and kept orthonormal."""
        named = self.model if isinstance(self.model, dict) else {"name": self.model}
        name = named.get("name")
        return isinstance(name, str) and name in ("linear", "softmax") and not named.get("public_head")

    def work(self, plan: Plan, public: PublicInfo) -> Any:
        """What a client does in a round: its head is solved with the ridge penalty."""
        return replace(super().work(plan, public), pull=float(self.ridge))

    def tuning_options(self, public: PublicInfo) -> tuple[Any, ...]:
        """The ways to finish head and representation among which a client chooses."""
        from taskveil.engine.personalise import parse_options

        how = self.tune.personalise or self.default_personalise
        if how in WALKED:
            return parse_options((how,), float(self.strength), WALKED)
        if how != "choose":
            return parse_options(("shared" if how == "none" else how,), float(self.ridge), SOLVED)
        every = [(kind, ridge) for kind in SOLVED for ridge in RIDGES]
        return parse_options(every if self.tune.options is None else self.tune.options, float(self.ridge), SOLVED)

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> NeuralTasks:
        return RepresentationTasks(self, block, public, plan)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return RepresentationServer(self, public, plan)


class RepresentationTasks(NeuralTasks):
    """After the last release the representation is a public map, and what is left to find is linear."""

    method: SharedRepresentation

    def finish(self, state: State, view: View) -> Models:
        shared = self._anchors(view)
        plain = self.method.tune.personalise is None and self.method.tune.options is None and self.method.features is None
        if plain and self.method.orthonormal and self.public.n_outputs == 1:
            return self._weighed(shared)
        options = solved = self.method.tuning_options(self.public)
        if options[0].kind in WALKED:
            solved = (replace(options[0], kind="shared", strength=float(self.method.ridge)),)
        heads, tuner = self.clients.with_heads(shared[0])
        everybody = np.ones((self.block.n_tasks, 1))
        first = heads.model.start(0)
        own, chosen, errors = heads.personalise(tuner, solved, first[None], everybody, first, int(self.method.tune.folds))
        params = np.hstack([own, np.repeat(shared, self.block.n_tasks, axis=0)])
        return self._models(params if solved is options else self._walked(params, options), chosen, errors, options)

    def _walked(self, params: np.ndarray, options: tuple[Any, ...]) -> np.ndarray:
        """Head and representation fine-tuned together, from the solved head."""
        from taskveil.engine.clients import tuner_of

        tuner, each = tuner_of(self.model, self.method.tuning(self.public)), np.eye(self.block.n_tasks)
        return self.clients.personalise(tuner, options, params, each, self.first, int(self.method.tune.folds))[0]

    def _weighed(self, shared: np.ndarray) -> Models:
        """A linear model of one score per row is averaged over priors by evidence, as elsewhere."""
        m, directions = self.block.n_tasks, shared.astype(np.float64).reshape(self.public.n_features, -1)
        heads = weighed_models(self.block, self.public, self._priors(directions))
        head = np.zeros((m, directions.shape[1]))
        params = np.hstack([heads.intercept, heads.coef[:, 0], head, np.repeat(shared, m, axis=0)])
        return Models(np.zeros((m, 1, 0)), np.zeros((m, 1)), heads.kept, {"params": params.astype(np.float32)})

    def _priors(self, directions: np.ndarray) -> list[Prior]:
        """Alone, and along the directions (d, width), which nobody has tested."""
        d, width = directions.shape
        share, basis = np.zeros(d), np.zeros((d, d))
        share[:width], basis[:, :width] = MOST / width, directions
        return priors(np.zeros((self.public.n_outputs, d)), share, basis, (0.0, STATED))


class RepresentationServer(NeuralServer):
    """Moves the representation, in units of the length of its start; a linear one keeps orthonormal columns.

    Messages have one length however near the goal is, so steps of one size would end in going back and forth around it: a step
    that clearly turns around halves all that follow. Clearly: what noise does to the angle is public and is allowed for.
    """

    method: SharedRepresentation

    def moved(self, state: State, update: np.ndarray, t: int) -> State:
        """The representation after a step, made orthonormal again where it is linear."""
        before, pace = state.get("before", np.zeros_like(update)), float(state.get("pace", 1.0))
        pace /= 2 if self.turned(before, update, t) else 1
        length = float(np.linalg.norm(self.model.start(self.public.seed or 0)[self.model.n_own :])) or 1.0
        mean = super().moved(state, update * (pace * length / self.method.clip), t)["mean"]
        if self.method.orthonormal:
            left, _, right = np.linalg.svd(mean.reshape(self.model.n_features, -1), full_matrices=False)
            mean = (left @ right).reshape(mean.shape)
        return {"mean": mean, "before": update, "pace": np.array(pace)}

    def turned(self, before: np.ndarray, update: np.ndarray, t: int) -> bool:
        """Whether an update points back, by more than noise of both would show once in a thousand times."""
        noise = self.noise(t) / float(self.expected(t).min())
        lengths = float(np.linalg.norm(before)), float(np.linalg.norm(update))
        doubt = CLEARLY * noise * (math.hypot(*lengths) + noise * math.sqrt(update.size))
        return float(np.vdot(before, update)) < -doubt
