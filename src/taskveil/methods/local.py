"""Every task alone: the baseline, and the perfect privacy of sharing nothing (MP-MTL Claim 1: (0, 0) against others).

It is what every task can do without anybody, and what sharing has to beat. Each task weighs the strengths of its ridge penalty by
their evidence on its own rows (solvers/evidence.py), or picks its l1 penalty by cross-validation. Tasks whose rows tell little
keep a constant, their own mean or smoothed class shares: a slope from two rows, in units of their own spread, is no knowledge.
Nothing here is ever sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from taskveil.checks import Choice, Rule
from taskveil.losses import LOSSES
from taskveil.losses.base import Loss
from taskveil.methods.base import ANY_TARGET, Billboard, Message, Method, Models, PublicInfo, ServerSide, State, TaskSide, View
from taskveil.privacy.plan import Budget, Plan, Request
from taskveil.solvers.block_gradient import mean_gradients
from taskveil.tasks.block import TaskBlock

if TYPE_CHECKING:
    from taskveil.solvers.evidence import Moments

L1_STRENGTHS = np.geomspace(1.0, 1e-2, 9)  # share of the strength at which all weights vanish
FOLDS = 5
FEW_ROWS = {"squared": 5.0, "logistic": 8.0}  # worth fewer rows than this, a task keeps a constant; other losses keep slopes


def alone_models(
    block: TaskBlock, public: PublicInfo, penalty: str = "l2", strength: float | None = None, moments: Moments | None = None
) -> Models:
    """Every task's own model, with a penalty strength of its own; `moments`: see solvers/evidence.py."""
    loss = LOSSES.get(public.loss)
    solve = partial(_ridge, moments=moments) if penalty == "l2" else _lasso
    W, b = solve(block, loss, public.fit_intercept, strength)
    return Models(W, b, np.zeros(block.n_tasks, dtype=bool))


def _ridge(
    block: TaskBlock, loss: Loss, fit_intercept: bool, strength: float | None, moments: Moments | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """A given strength, or an average over strengths weighted by the evidence of the task's own rows."""
    from taskveil.solvers.evidence import Prior, averaged_models
    from taskveil.solvers.newton import minimise_local

    if strength is not None:
        return minimise_local(block, loss, strength, fit_intercept=fit_intercept)
    few = tells_little(block, loss.name) & fit_intercept
    W, _ = averaged_models(block, [Prior()], loss.name, fit_intercept, constant=few, moments=moments)
    return W, best_intercepts(block, W, loss, fit_intercept)


def tells_little(block: TaskBlock, loss: str) -> np.ndarray:
    """(m, r) whether a task has too few rows for a slope of its own; labels count by their variance, 4 n p (1 - p) rows."""
    rows = np.repeat(block.counts[:, None], block.n_outputs, axis=1).astype(float)
    if LOSSES.get(loss).labels:
        rows = rows * (1.0 - np.square(block.means_by_task(block.y)))
    return rows < FEW_ROWS.get(loss, 0.0)


def _lasso(block: TaskBlock, loss: Loss, fit_intercept: bool, strength: float | None) -> tuple[np.ndarray, np.ndarray]:
    from taskveil.solvers.lasso import cross_validated_l1, largest_useful_strength, minimise_l1

    if strength is not None:
        return minimise_l1(block, loss, strength, fit_intercept)
    grid = L1_STRENGTHS[:, None] * largest_useful_strength(block, loss, fit_intercept)[None]
    best = np.argmin(cross_validated_l1(block, loss, grid, FOLDS, fit_intercept), axis=0)  # the strongest among equals
    return minimise_l1(block, loss, np.take_along_axis(grid, best[None], axis=0)[0], fit_intercept)


def best_intercepts(block: TaskBlock, W: np.ndarray, loss: Loss, fit_intercept: bool = True) -> np.ndarray:
    """The unpenalised intercepts (m, r) that go with models W; finite for every task."""
    b = np.zeros(W.shape[:2])
    if not fit_intercept:
        return b
    return -mean_gradients(block, W, b, loss)[1] if loss.quadratic else loss.intercepts(block.scores(W), block)


@dataclass(eq=False, repr=False)
class Local(Method):
    """Each task learns alone. `penalty` is "l2" or "l1". `strength` fixes it; with None each task chooses it by its own rows."""

    name = "local"
    kinds, losses = ANY_TARGET
    rules: ClassVar[dict[str, Rule]] = {"penalty": Choice("l1", "l2")}
    units = ("task", "record")
    shares_nothing = True

    penalty: str = "l2"
    strength: float | None = None

    def requests(self, public: PublicInfo, budget: Budget) -> Sequence[Request]:
        return []

    def task_side(self, block: TaskBlock, public: PublicInfo, plan: Plan) -> TaskSide:
        return LocalTasks(self, block, public)

    def server_side(self, public: PublicInfo, plan: Plan) -> ServerSide:
        return SilentServer(self, public, plan)


class LocalTasks(TaskSide):
    """Learn alone and send nothing."""

    def __init__(self, method: Local, block: TaskBlock, public: PublicInfo):
        self.method, self.block, self.public = method, block, public

    def step(self, state: State, view: View) -> tuple[State, Message]:
        return state, {}

    def finish(self, state: State, view: View) -> Models:
        return alone_models(self.block, self.public, self.method.penalty, self.method.strength)


class SilentServer(ServerSide):
    """Publishes an empty billboard and is never called again."""

    def step(self, state: State, releases: Mapping[str, np.ndarray], accepted: np.ndarray) -> tuple[State, Billboard]:
        raise AssertionError("a plan without releases has no rounds")
