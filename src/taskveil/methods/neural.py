"""What the methods that train on the neural engine share: options, plan, certificate. Task and server side: neural_sides.py.

    round t   cohort by the runtime (Poisson, rate q), local work and clipping in one jitted call (engine/rounds.py)
    release   "update": sum over the cohort of clipped messages, l2 sensitivity gamma (add-remove), 2 gamma (replace-one);
              charged and noised by the runtime, never here
    server    a <- a + server_rate * sum / (q m): the *expected* cohort, never the realised one; an empty cohort releases
              noise like any other; all tasks weigh the same whatever they hold (docs/theory/mean-regularised.md#cohorts)
    finish    every client fits itself to the last billboard and its own rows and chooses among the options, or "alone"

Why the sampled-Gaussian bound holds although w_k is private state: the round's inclusion bit is fresh, clipping bounds the
message whatever it depends on, and Renyi and hockey-stick divergences are quasi-convex
(docs/theory/mean-regularised.md#private-state). Observer: the other tasks, all colluding. The server sees clipped messages under
`curator` aggregation, and it sees who takes part, so no amplification is claimed against it under any aggregation: with `local`
or `secure` every round is charged in full, or, with `participations=B`, the B rounds that no task exceeds
(docs/theory/mean-regularised.md#cohorts).

`NeuralMean` is Algorithm 1 of Hu, Wu, Smith 2023: task k walks E local steps from its own last w_k and sends g_k = w_k - wbar,

    min sum_k [ l_k(w_k) + (lambda/2) |w_k - wbar|^2 ],   wbar the mean of all w_k          (eq. 2, 3)

lambda = 0 is learning alone, lambda to infinity one model for all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from taskveil.errors import OptionError
from taskveil.methods.base import LARGEST, Disclosure, Method, Models, PublicInfo
from taskveil.methods.neural_sides import BIT_SHARE, RELEASE, NeuralServer, NeuralTasks
from taskveil.methods.options import Group, with_groups
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.events import SampledGaussianEvent
from taskveil.privacy.guarantees import gaussian_mu
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.privacy.units import Neighbours

POISSON = "each round every task takes part independently and in secret from the other tasks (Poisson)"
STRETCHED = ("alone", *(("symmetrised-kl", 0.3, stretch) for stretch in (1.0, 3.0, 10.0, 30.0)))
MOST_ROUNDS = 50
LARGE_COHORT = 512  # above this many tasks the default is to sample about so many per round


@dataclass(frozen=True)
class LocalSteps(Group):
    """Local SGD between two releases; batch_size None uses all rows."""

    steps: int = 5
    batch_size: int | None = 16
    learning_rate: float = 0.1

    flat: ClassVar[dict[str, str]] = {"steps": "local_steps", "batch_size": "batch_size", "learning_rate": "learning_rate"}


@dataclass(frozen=True)
class Personal(Group):
    """Local work after the last release.

    personalise     "choose", one of shared, alone, vanilla, mean, symmetrised-kl, ewc, or "none": the model as the rounds
                    left it; None is the method's own default
    options         what "choose" chooses among: names, (name, strength) or, for linear models, (name, strength, stretch);
                    None: alone, and symmetrised KL divergence with stretches 1, 3, 10, 30 for linear classifiers, else
                    alone, shared, mean and symmetrised-kl
    """

    personalise: str | None = None
    options: Any = None
    steps: int = 50
    rate: float | None = None
    batch: int | None = 16
    alone_steps: int | None = None
    decay: float = 0.0
    folds: int = 2

    flat: ClassVar[dict[str, str]] = {
        "personalise": "personalise", "options": "options", "steps": "tune_steps", "rate": "tune_rate", "batch": "tune_batch",
        "alone_steps": "alone_steps", "decay": "decay", "folds": "folds",
    }  # fmt: skip


@with_groups
@dataclass(eq=False, repr=False)
class NeuralMethod(Method):
    """Options of the neural methods.

    model           "linear", "softmax", "mlp", "cnn", {"name": ..., options}, an (init, apply) pair or a module
    features        public feature map before the model: None, "gradients", {"name": "gradients", "width": 64}
    rounds          releases; None: as many as leave the noise of one about as large as its signal, 1 to 50
    rate            probability with which each task takes part in a round; None: everybody up to 512 tasks, else 512/m
    clip            gamma, the norm to which a task's message is clipped; public
    strength        lambda, how strongly a task is pulled toward what is shared
    server_rate     how far the server goes along the mean of the messages
    shrink          scale each noisy update by an estimate of its signal share (post-processing, free)
    adaptive_clip   None, or the quantile to which the clipping norm adapts (Andrew et al. 2021); one more coordinate is
                    released, and charged, in every round
    participations  most rounds a task takes part in, with aggregation "local" or "secure" and a rate below 1: so many are
                    charged instead of all; None: no cap
    local, tune     local work between releases and after the last one (LocalSteps, Personal)
    """

    linear = False
    chooses_locally = True
    tasks, server = NeuralTasks, NeuralServer
    kinds = ("regression", "classification")
    reference = "Hu, Wu, Smith 2023, Private Multi-Task Learning: Formulation and Applications to Federated Learning"
    work_start: ClassVar[str] = "own"
    work_kind: ClassVar[str] = "steps"
    uses_strength: ClassVar[bool] = True
    default_personalise: ClassVar[str] = "choose"

    model: Any = "softmax"
    features: Any = None
    rounds: int | None = None
    rate: float | None = None
    clip: float = 1.0
    strength: float = 1.0
    server_rate: float = 1.0
    shrink: bool = True
    adaptive_clip: float | None = None
    participations: int | None = None
    local: LocalSteps = LocalSteps()
    tune: Personal = Personal()

    # ------------------------------------------------------------------ plan

    def check(self, public: PublicInfo, budget: Budget) -> None:
        super().check(public, budget)
        from taskveil.engine import require_jax

        require_jax()
        if self.adaptive_clip is not None and (self.n_groups(public) > 1 or budget.aggregation != "curator"):
            raise OptionError("adaptive_clip needs one shared mean and aggregation 'curator'")
        self.tuning_options(public)

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        what = VectorSum(self.total_shape(public), self.bound(budget))
        rate = self.sampling_rate(public, budget)
        sampled = None if rate == 1.0 else rate
        rounds = self.n_rounds(public, budget)
        return [Request(RELEASE, t + 1, what, rate=sampled, most=self.participations) for t in range(rounds)]

    def share_left(self, t: int, rate: float) -> float:
        """Share of the tasks that have taken part less than `participations` times before round t, from 1; expected, public."""
        if self.participations is None:
            return 1.0
        from scipy.stats import binom

        return float(binom.cdf(self.participations - 1, t - 1, rate))

    def n_rounds(self, public: PublicInfo, budget: Budget) -> int:
        """Given, or from public sizes: the noise of T rounds on a mean of m tasks has norm sqrt(p T) / (m mu)."""
        if self.rounds is not None:
            return int(self.rounds)
        if budget.epsilon is None:
            return MOST_ROUNDS
        mu = gaussian_mu(budget.epsilon, budget.delta) * (1 if budget.neighbours is Neighbours.ADD_REMOVE else 0.5)
        ratio = public.n_tasks * mu / math.sqrt(math.prod(self.total_shape(public)))
        return int(np.clip(round(ratio**2), 1, MOST_ROUNDS))

    def n_groups(self, public: PublicInfo) -> int:
        """How many shared models there are."""
        return 1

    def total_shape(self, public: PublicInfo) -> tuple[int, ...]:
        """Shape of the sum of all messages: parameters for each group, and a bit where the clip adapts."""
        groups, p = self.n_groups(public), self.built(public).n_shared
        shape = (p,) if groups == 1 else (groups, p)
        return (p + 1,) if self.adaptive_clip is not None else shape

    def bound(self, budget: Budget) -> float:
        """Norm of one task's contribution.

        Adaptive clipping adds one coordinate, (fits - 1/2) clip / 4, of size clip / 8. Both are one vector and one event:
        two releases of one secret cohort are not two independent sampled releases.
        """
        extra = BIT_SHARE / 2 if self.adaptive_clip is not None else 0.0
        return float(self.clip) * math.hypot(1.0, extra)

    def sampling_rate(self, public: PublicInfo, budget: Budget) -> float:
        """The probability with which a task takes part in a round."""
        if self.rate is not None:
            return float(self.rate)
        return min(1.0, LARGE_COHORT / public.n_tasks)

    def ranges(self, public: PublicInfo) -> Mapping[str, tuple[float, float]]:
        return {"member": (0.0, 1.0), "clip": (1.0 / LARGEST, LARGEST)}

    def keeps_history(self, plan: Plan) -> bool:
        return False

    @property
    def raw_rows(self) -> bool:  # type: ignore[override]
        name = self.model.get("name") if isinstance(self.model, dict) else self.model
        return name == "cnn" or self.features is not None

    # ----------------------------------------------------------------- engine

    def feature_map(self, public: PublicInfo) -> Any:
        """The public map from rows to what the model sees."""
        from taskveil.engine.features import FeatureMap

        return FeatureMap(self.features, public.n_features)

    def built(self, public: PublicInfo) -> Any:
        """The model itself, with its parameters as one flat vector."""
        from taskveil.engine.clients import model_of

        return model_of(self.model, self.feature_map(public), public.n_outputs, public.kind)

    def safe_rate(self, public: PublicInfo, rate: float) -> float:
        """A step size at which local steps on squared loss cannot diverge where a row's entries are of size one.

        Its curvature is at most the squared length of a row; a linear model's steps are at most one over it.
        """
        linear = self.model in ("linear", "softmax") and self.features is None
        return min(float(rate), 1.0 / (public.n_features + 1.0)) if linear and public.kind == "regression" else float(rate)

    def work(self, plan: Plan, public: PublicInfo) -> Any:
        """What a client does in a round: steps, batches, rate and pull."""
        from taskveil.engine.rounds import LocalWork

        return LocalWork(
            steps=int(self.local.steps), batch_size=self.local.batch_size,
            learning_rate=self.safe_rate(public, self.local.learning_rate),
            pull=float(self.strength) if self.uses_strength else 0.0, start=self.work_start, kind=self.work_kind,
            bit=BIT_SHARE if self.adaptive_clip is not None else 0.0,
        )  # fmt: skip

    def tuning(self, public: PublicInfo) -> Any:
        """How a client fine-tunes after the last release."""
        from taskveil.engine.personalise import Tuning

        tune = self.tune
        rate = self.safe_rate(public, self.local.learning_rate if tune.rate is None else tune.rate)
        return Tuning(int(tune.steps), tune.batch, rate, float(tune.decay), tune.alone_steps)

    def tuning_options(self, public: PublicInfo) -> tuple[Any, ...]:
        """The ways of fine-tuning among which a client chooses; none: the shared model is used as it is."""
        from taskveil.engine.personalise import parse_options

        how = self.default_personalise if self.tune.personalise is None else self.tune.personalise
        if how == "none":
            return ()
        if how != "choose":
            return parse_options((how,), float(self.strength))
        stretched = public.kind == "classification" and self.model in ("linear", "softmax")
        default = STRETCHED if stretched else ("alone", "shared", "mean", "symmetrised-kl")
        return parse_options(default if self.tune.options is None else self.tune.options, float(self.strength))

    def membership(self, public: PublicInfo) -> np.ndarray | None:
        """(all tasks, groups) public mixture of the groups' means; None: one mean for everybody."""
        return None

    def sends_sums(self, n_tasks: int, public: PublicInfo, plan: Plan) -> bool:
        return plan.budget.aggregation == "curator" and n_tasks == public.n_tasks

    def predict_scores(self, record: Any, models: Models, X: np.ndarray, position: np.ndarray) -> np.ndarray:
        """Scores (rows, outputs) of every row under its own task's model."""
        from taskveil.engine.clients import predict_scores, tuner_of

        model, features = self.built(record.public), self.feature_map(record.public)
        return predict_scores(model, features, tuner_of(model, self.tuning(record.public)), models.extra["params"], X, position)

    # ------------------------------------------------------------ certificate

    def disclosure(self, public: PublicInfo, plan: Plan) -> Disclosure:
        if plan.budget.epsilon is None:
            return Disclosure()
        assumptions = ["the model's first parameters, its features and all step sizes are independent of the data"]
        if any(isinstance(p.event, SampledGaussianEvent) for p in plan.releases):
            assumptions.append(POISSON)
        if plan.most_participations is not None:
            assumptions.append(
                f"no task takes part in more than {plan.most_participations} of the {len(plan.releases)} rounds; whoever runs "
                "the rounds keeps to that and draws cohorts without looking at rows"
            )
        return Disclosure(tuple(assumptions))


class NeuralMean(NeuralMethod):
    __doc__ = "Mean-regularised personal models. " + (NeuralMethod.__doc__ or "")

    name = "mean"  # of linear models: mean.py
    forms: ClassVar[dict[str, str]] = {"paper": ".papers.hu_2023:Mean"}
