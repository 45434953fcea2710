"""Without noise the methods reach the optimum of their objective, checked against a solver with a duality gap
(tests/support/proximal_gradient.py, itself checked against other libraries), which shares neither map nor loop with them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.proximal_gradient import minimise
from tests.support.relationship_solver import relationship_optimum
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.losses import LOSSES
from taskveil.structures import STRUCTURES

TOLERANCE = 1e-6
GAP = 1e-8  # of the reference, relative


def objective(est, parts) -> float:
    """sum of mean losses plus penalties at the estimator's models, from the rows themselves."""
    block = est._training
    loss = LOSSES.get(est.record_.public.loss)
    values = block.means_by_task(loss.value(block.scores(est.models_.coef, est.models_.intercept), block.y))
    return float(values.sum()) + sum(weight * STRUCTURES.get(name).value(matrix) for name, weight, matrix in parts)


def columns(models: np.ndarray) -> np.ndarray:
    return models.reshape(-1, models.shape[-1]).T


@pytest.mark.parametrize("kind", ["regression", "classification"])
@pytest.mark.parametrize("name, structure", [("low-rank", "trace_norm"), ("group-sparse", "group_sparse")])
@pytest.mark.parametrize("penalty", [0.05, 0.3])
def test_low_rank_and_group_sparse_reach_the_optimum_of_equations_2_and_3(kind, name, structure, penalty):
    tasks = related_tasks(kind=kind, n_tasks=8, rows=(15, 25))
    estimator = tv.TaskRegressor if kind == "regression" else tv.TaskClassifier
    est = estimator(tv.methods.get(name, penalty=penalty, rounds=3000, tol=1e-11), epsilon=None).fit(tasks)
    loss = LOSSES.get(est.record_.public.loss)
    best = minimise(est._training, loss, [(STRUCTURES.get(structure), penalty)], rounds=20000, tol=GAP)
    ours = objective(est, [(structure, penalty, columns(est.models_.coef))])
    assert (ours - best.objective) / best.objective < TOLERANCE


def test_the_check_rejects_a_run_that_stops_early():
    tasks = related_tasks(rows=(15, 25))
    est = tv.TaskRegressor(tv.methods.get("low-rank", penalty=0.3, rounds=5, tol=0), epsilon=None).fit(tasks)
    best = minimise(est._training, LOSSES.get("squared"), [(STRUCTURES.get("trace_norm"), 0.3)], rounds=20000, tol=GAP)
    ours = objective(est, [("trace_norm", 0.3, columns(est.models_.coef))])
    assert (ours - best.objective) / best.objective > TOLERANCE


@pytest.mark.parametrize("rounds", [1, 7, 23])
def test_rounds_with_zero_tolerance_runs_exactly_that_many(rounds):
    est = tv.TaskRegressor(tv.methods.get("low-rank", rounds=rounds, tol=0), epsilon=None).fit(related_tasks())
    assert est.n_iter_ == rounds


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_relationship_learning_reaches_the_relationship_optimum(kind):
    tasks = related_tasks(kind=kind, rows=(15, 25))
    estimator = tv.TaskRegressor if kind == "regression" else tv.TaskClassifier
    est = estimator(tv.methods.get("relationship", penalty=0.05, rounds=6000, tol=1e-12), epsilon=None).fit(tasks)
    loss = LOSSES.get(est.record_.public.loss)
    best = relationship_optimum(est._training, loss, 0.05)
    ours = objective(est, [("relationship", 0.05, columns(est.models_.coef))])
    assert (ours - best.objective) / best.objective < TOLERANCE


@pytest.mark.parametrize("shared", ["trace_norm", "group_sparse"])
@pytest.mark.parametrize("own", ["l1", "l12", "squared_frobenius"])
def test_algorithm_four_reaches_its_optimum_for_every_pair_of_structures(shared, own):
    tasks = related_tasks(n_tasks=8, rows=(15, 25))
    method = tv.methods.get("low-rank-sparse", shared=shared, own=own, penalty=0.2, own_penalty=0.05, rounds=1000, tol=1e-12)
    est = tv.TaskRegressor(method, epsilon=None).fit(tasks)
    parts = [(STRUCTURES.get(shared), 0.2), (STRUCTURES.get(own), 0.05)]
    best = minimise(est._training, LOSSES.get("squared"), parts, rounds=30000, tol=GAP)
    P, Q = est.models_.extra["shared"], est.models_.extra["own"]
    ours = objective(est, [(shared, 0.2, columns(P)), (own, 0.05, columns(Q))])
    assert (ours - best.objective) / best.objective < TOLERANCE
