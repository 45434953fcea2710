"""Asynchronous private multi-task learning: Xie, Lin, Baytas & Zhou 2017, corrected (docs/theory/asynchronous.md).

    min_{P,Q} sum_t L_t(p_t + q_t) + lambda r(P) + tau g(Q),      r, g from a preset (presets.py)

Server      applies one task's noisy gradient and the proximal map the moment it arrives (server.py).
Release     one per message: the sum of row gradients at p_t + q_t, each row clipped to C, over a Poisson sample of the
            task's rows at rate q, plus Gaussian noise: one sampled-Gaussian event.
Unit        record (one row of one task; a person with rows in several tasks has them composed), or task with
            `unit="task"`: the whole message is clipped and q_t may then be solved exactly ("semi-exact").
Neighbours  add-remove: a row replaced by a null row; replace-one by PLD's replace-one curve. n_t fixed and public.
Observer    everybody, the server included: noise is on each message before it is used for anything.
Why it holds  q_t moves by the same noisy gradient (the gradients in p and q are the same vector), so p_t, q_t and every
            point at which a gradient is taken are post-processing of releases, or come from the server; adaptive
            composition covers any p_t, a malicious one too. The coins are fresh, and nothing sent depends on how many
            rows were drawn. Rows of different tasks are different records: the tasks compose in parallel, and a node's
            guarantee depends on its own number of messages only, not on arrival order.
Refinement  at the end the owner may refit q_t on its rows without noise. That model is protected only while its owner
            keeps it; p_t + q_t before refinement stays protected even if published. A refined q_t never enters a message.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from taskveil.errors import OptionError
from taskveil.losses import LOSSES
from taskveil.methods.async_mtl.presets import PRESETS, Penalties
from taskveil.methods.async_mtl.server import AsyncServer
from taskveil.methods.async_mtl.tasks import AsyncTasks
from taskveil.methods.base import Asynchronous, Billboard, Disclosure, Models, PublicInfo
from taskveil.privacy.contributions import Contribution, RowSum, VectorSum
from taskveil.privacy.plan import Budget, Plan, Request

STEP_SAFETY = 0.95
OPTIMISM = 4.0  # the trace bounds the curvature, but features are rarely all parallel; a step too long is noticed


@dataclass(frozen=True)
class Form:
    """Which of the forms above a plan asks for."""

    rows: bool  # unit record: row gradients
    private: bool
    noises: int
    semi_exact: bool

    @property
    def own_at_task(self) -> bool:
        """Whether each task takes the step of its own part itself."""
        return self.semi_exact

    @property
    def own_at_server(self) -> bool:
        """Whether the server takes that step, from the one noisy message."""
        return not self.own_at_task and self.noises == 1

    def due(self, number: int) -> tuple[str, ...]:
        """Names of the releases in a node's message number `number` (from 0)."""
        if self.noises == 2 and number % 2 == 0:
            return ("own-gradient",)
        if number == 0 and not self.private:
            return ("curvature", "gradient")
        return ("gradient",)


@dataclass(eq=False, repr=False)
class AsyncMTL(Asynchronous):
    """Learn shared and own parts of models from noisy gradients, in any order of arrival.

    Parameters
    ----------
    preset : dirty, aso, robust or robust-feature; which penalties are used.
    shared_penalty, own_penalty : lambda and tau.
    rounds : messages of each node; None means 30 with privacy and 400 without (where it stops when nothing moves).
    row_rate : probability of each row to be in a message (unit record with privacy).
    clip : norm to which each row gradient (unit record) or each message (unit task) is clipped; None: from public sizes.
    step : step length alpha; None: from public sizes, or from the tasks' curvatures without privacy.
    relaxation : "safeguarded", "delays" (the proved rule) or a number in (0, 1]; see server.py.
    noises : 1, or 2 for the two-noise form (one noisy gradient moves q, a second one moves p).
    first_share : two noises only: share of a message's epsilon that goes to the first noise.
    semi_exact : solve q_t exactly at the task; None: where the unit is the task.
    refine : refit q_t at the end, for the owner's eyes only.
    budgets : epsilon of each node where they differ (a sequence in task order); a node stops at its own.
    delays : (kind, scale in seconds) of the virtual clock, or None: uniform on 0-15 ms as in the paper.
    row_bound, model_bound : as printed only (papers/xie_2017.py): C1 and C3 = C4 of Lemma 1 and Theorem 3.6.
    tol : without privacy, stop when no message moves its column by more than this, relative to the models.
    """

    name: ClassVar[str] = "async"
    forms: ClassVar[dict[str, str]] = {"paper": ".papers.xie_2017:AsyncMTL"}
    units: ClassVar[tuple[str, ...]] = ("record", "task")
    aggregations: ClassVar[tuple[str, ...]] = ("curator", "local")
    reference: ClassVar[str] = "Xie, Lin, Baytas & Zhou 2017, Algorithm 1"
    tasks, server = AsyncTasks, AsyncServer

    preset: str = "aso"
    shared_penalty: float = 0.05
    own_penalty: float = 0.1
    rounds: int | None = None
    row_rate: float = 0.5
    clip: float | None = None
    step: float | None = None
    relaxation: str | float = "safeguarded"
    noises: int = 1
    first_share: float = 0.5
    semi_exact: bool | None = None
    refine: bool = True
    budgets: Sequence[float] | None = None
    delays: tuple[str, float] | None = None
    row_bound: float = 1.0
    model_bound: float = 1.0
    tol: float = 1e-5

    def penalties(self) -> Penalties:
        """The penalties on the shared and on the own part that the preset stands for."""
        return PRESETS.get(self.preset)

    def form(self, budget: Budget) -> Form:
        """How messages are made in a run with this budget."""
        rows = str(budget.unit) == "record"
        return Form(rows, budget.epsilon is not None, self.noises, not rows if self.semi_exact is None else bool(self.semi_exact))

    def adjust(self, budget: Budget) -> Budget:
        """Noise is put on every message by its own node."""
        return replace(budget, aggregation="local")

    def check(self, public: PublicInfo, budget: Budget) -> None:
        super().check(public, budget)
        self.penalties()
        form = self.form(budget)
        if form.rows and form.semi_exact and form.private:
            raise OptionError(
                "semi_exact keeps un-noised private state in every message, which clipping row by row does not bound. "
                "Use unit='task', or semi_exact=None."
            )
        if self.budgets is not None and len(self.budgets) != public.n_tasks:
            raise OptionError(f"budgets must have one entry per task ({public.n_tasks}), got {len(self.budgets)}")

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        """One node's messages. The other nodes' rows are other records, so they compose in parallel."""
        form = self.form(budget)
        total = self.messages(budget) * form.noises
        return [
            Request(name, number + 1, self._contribution(name, form, public), self._weight(name, form), self._rate(form))
            for number in range(total)
            for name in form.due(number)
        ]

    def _rate(self, form: Form) -> float | None:
        return self.row_rate if form.rows and form.private else None

    def _weight(self, name: str, form: Form) -> float:
        """Relative share of the budget: all messages alike, the two noises of one as `first_share` says."""
        if form.noises == 1:
            return 1.0
        return 1.0 - self.first_share if name == "gradient" else self.first_share

    def messages(self, budget: Budget) -> int:
        """How many messages each task sends."""
        if self.rounds is not None:
            return int(self.rounds)
        return 30 if budget.epsilon is not None else 400

    def initial_step(self, public: PublicInfo, form: Form) -> float:
        """alpha from public sizes; without privacy a long one, which the tasks' curvatures then shorten."""
        if self.step is not None:
            return float(self.step)
        return OPTIMISM * self.step_for(typical_curvature(public)) if form.private else 1e6

    def guesses_step(self, form: Form) -> bool:
        """Whether alpha is a guess from public sizes, which the server shortens if gradients start to turn."""
        return self.step is None and form.private

    def step_for(self, curvature: float) -> float:
        """The step length: as given, else what a loss of this curvature allows."""
        return float(self.step) if self.step is not None else STEP_SAFETY / max(curvature, 1e-12)

    def shared_model(self, public: PublicInfo, plan: Plan, billboard: Billboard) -> Models | None:
        """The average of the shared parts."""
        return Models(billboard.values["shared"].mean(axis=0)[None], billboard.values["intercept"].mean(axis=0)[None])

    def disclosure(self, public: PublicInfo, plan: Plan) -> Disclosure:
        """Un-refined models are post-processing of releases, so the public may see them."""
        form = self.form(plan.budget)
        if not form.private:
            return Disclosure()
        notes = ["a node's events are its own messages only: tasks hold different units and compose in parallel"]
        if form.rows:
            notes.append("which rows are drawn for a message is secret")
        if not self.refine:
            return Disclosure(tuple(notes), observers=() if form.own_at_task else ("public",))
        if not form.own_at_task:
            notes.append(
                "before the final local refinement a task's model is computed from releases alone: it stays protected "
                "by the statements above even if it is published"
            )
        refitted = "the refined models, which were refitted on a task's rows without noise: only while their owner keeps them"
        return Disclosure(tuple(notes), (refitted,))

    def _contribution(self, name: str, form: Form, public: PublicInfo) -> Contribution:
        shape = (public.n_outputs, public.n_features + int(public.fit_intercept))
        if name == "curvature":
            return VectorSum((1,), Contribution.unbounded)
        return (RowSum if form.rows else VectorSum)(shape, self._bound(form, public))

    def _bound(self, form: Form, public: PublicInfo) -> float:
        if not form.private:
            return Contribution.unbounded
        if self.clip is not None:
            return float(self.clip)
        return 0.5 * math.sqrt(typical_square(public)) if form.rows else 1.0

    def row_weights(self, form: Form, public: PublicInfo) -> np.ndarray | None:
        """(n_tasks,) 1 / (rate n_t), which turns a sum of rows into a mean; None: it is one already."""
        if not form.rows:
            return None
        sizes: Any = getattr(public, "task_rows", None)
        if sizes is None:
            raise OptionError("async with unit='record' needs the public number of rows of every task (task_rows)")
        return 1.0 / ((self._rate(form) or 1.0) * np.maximum(np.asarray(sizes, dtype=float), 1.0))


def typical_square(public: PublicInfo) -> float:
    """|x|^2 + 1 of an average row: 1 for unit rows, a third of the features for ranges scaled to [-1, 1], else one each."""
    per_row = 1.0 if public.unit_rows else public.n_features / (3.0 if public.declared_bounds else 1.0)
    return per_row + float(public.fit_intercept)


def typical_curvature(public: PublicInfo) -> float:
    """An upper bound on the curvature of an average task: smoothness times the trace of the mean xx'."""
    return LOSSES.get(public.loss).smoothness * typical_square(public)
