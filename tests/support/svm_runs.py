"""SVM runs on small blocks, with or without late participants; for tests only."""

from __future__ import annotations

import numpy as np
from experiments.ponomarenko_2023.compute_times import ComputeTimes
from experiments.ponomarenko_2023.waiting_rounds import StragglerRecord, run_with_stragglers

from taskveil.methods.base import Method, PublicInfo
from taskveil.methods.svm.method import Svm
from taskveil.methods.svm.tasks import make_problems
from taskveil.privacy.plan import Budget, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime.run import Run
from taskveil.solvers.sequential_svm import solve_sequential
from taskveil.tasks.block import TaskBlock

NO_PRIVACY = Budget(epsilon=None, delta=1e-5)


def related_block(seed: int = 0, n_tasks: int = 8, rows: int = 25, features: int = 6, classification: bool = True) -> TaskBlock:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal(features) + 0.4 * rng.standard_normal((n_tasks, features))
    X = rng.standard_normal((n_tasks * rows, features))
    z = np.einsum("nd,nd->n", X, np.repeat(W, rows, axis=0)) + 0.5 * rng.standard_normal(n_tasks * rows)
    y = np.where(z > 0, 1.0, -1.0) if classification else z
    kind = "classification" if classification else "regression"
    return TaskBlock(X, y[:, None], np.arange(n_tasks + 1, dtype=np.int64) * rows, None, kind)


def public_of(block: TaskBlock, fit_intercept: bool = True) -> PublicInfo:
    return PublicInfo(block.n_tasks, block.n_features, block.n_outputs, block.kind, fit_intercept=fit_intercept)


class SomeAnswer(ComputeTimes):
    """A random share of the participants is on time in every round, whatever they compute."""

    share: float

    def __init__(self, share: float, seed: int = 0):
        super().__init__(seed=seed)
        object.__setattr__(self, "share", share)

    def draw(self, round: int, rows: np.ndarray, n_features: int) -> np.ndarray:
        return np.where(np.random.default_rng([self.seed, round]).random(rows.size) < self.share, 0.5, 2.0)


def run(method: Method, block: TaskBlock, share: float = 1.0, budget: Budget = NO_PRIVACY, **options) -> StragglerRecord:
    public = public_of(block)
    plan = make_plan(method.requests(public, budget), budget)
    return run_with_stragglers(
        Run(method, public, plan, source=insecure_seeded_noise(1)), block, SomeAnswer(share), wait=1.0, **options
    )


def excess(method: Svm, block: TaskBlock, record: StragglerRecord) -> float:
    """Relative distance of the joint objective from its optimum, at w of the last billboard and the finished models."""
    total = 0.0
    best = 0.0
    for o, problem in enumerate(make_problems(method, block, public_of(block))):
        best += solve_sequential(problem, tol=1e-9).primal
        w = record.billboards[-1].values["shared"][o]
        points = np.concatenate([record.models.coef[:, o], record.models.intercept[:, o : o + 1]], axis=1)
        total += problem.primal(w, points - w)
    return total / best - 1.0
