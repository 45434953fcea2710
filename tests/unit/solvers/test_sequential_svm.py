"""The SVM solver against liblinear, its special cases and its inputs."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.svm_reference import INSENSITIVITY, Problem, liblinear, objective, optimum, random_problem

from taskveil.errors import DataError
from taskveil.losses.epsilon_insensitive import EpsilonInsensitive
from taskveil.losses.hinge import Hinge
from taskveil.methods.svm.central import solve_scope
from taskveil.solvers.sequential_svm import solve_sequential
from taskveil.solvers.svm_problem import balanced_factors, make_problem

COST = 0.05  # larger costs at C2 = 0.01 need more iterations than liblinear can be given here
COUPLINGS = (0.01, 0.5, 1.0, 10.0, 1e6)


def made(problem: Problem, C1: float, C2: float, X=None, **options):
    loss = Hinge() if problem.classification else EpsilonInsensitive(INSENSITIVITY)
    X = problem.X if X is None else X
    return make_problem(X, problem.y, problem.offsets, loss, C1, C2, **{"fit_intercept": False, **options})


@pytest.mark.parametrize("classification", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_the_objective_is_that_of_liblinear_on_the_stacked_features(seed, classification):
    """20 random problems, both losses, five couplings, to 1e-6 relative."""
    problem = random_problem(seed, classification)
    for C2 in COUPLINGS:
        solution = solve_sequential(made(problem, COST, C2), tol=1e-7)
        reached = objective(problem, solution.shared[:-1], solution.own[:, :-1], COST, C2)
        assert reached == pytest.approx(solution.primal, rel=1e-12)
        assert reached == pytest.approx(optimum(problem, COST, C2), rel=1e-6)


@pytest.mark.parametrize("classification", [True, False])
def test_a_wrong_optimum_would_be_noticed(classification):
    """The check above rejects a model that is 1 % off, and one trained with another coupling."""
    problem = random_problem(0, classification)
    right = solve_sequential(made(problem, 0.5, 1.0), tol=1e-7)
    best = optimum(problem, 0.5, 1.0)
    other = solve_sequential(made(problem, 0.5, 2.0), tol=1e-7)
    for shared, own in ((1.01 * right.shared, right.own), (other.shared, other.own)):
        assert objective(problem, shared[:-1], own[:, :-1], 0.5, 1.0) > best * (1 + 1e-6)


@pytest.mark.parametrize("classification", [True, False])
def test_a_huge_coupling_is_the_pooled_svm(classification):
    problem = random_problem(3, classification)
    joint = solve_sequential(made(problem, 0.5, 1e6), tol=1e-8)
    pooled = solve_scope(made(problem, 0.5, 1.0), "pooled", 1e-8)
    reference = liblinear(problem.X, problem.y, classification, 0.5)
    assert joint.primal == pytest.approx(pooled.primal, rel=1e-5)
    np.testing.assert_allclose(pooled.shared[:-1], reference, atol=1e-3)
    np.testing.assert_allclose(joint.shared + joint.own, np.tile(pooled.shared, (joint.own.shape[0], 1)), atol=2e-3)


@pytest.mark.parametrize("classification", [True, False])
def test_w_forced_to_zero_is_one_svm_per_task(classification):
    """Cost C1/C2, because the personal part is weighed by C2."""
    problem, C1, C2 = random_problem(4, classification), 0.6, 2.0
    local = solve_scope(made(problem, C1, C2), "local", 1e-9)
    assert not local.shared.any()
    for k, (a, b) in enumerate(zip(problem.offsets[:-1], problem.offsets[1:])):
        alone = liblinear(problem.X[a:b], problem.y[a:b], classification, C1 / C2)
        np.testing.assert_allclose(local.own[k, :-1], alone, atol=2e-3)


def test_the_intercept_is_a_constant_feature():
    problem = random_problem(6, True)
    X = np.column_stack([problem.X, np.ones(len(problem.X))])
    with_option = solve_sequential(made(problem, 0.5, 1.0, fit_intercept=True), tol=1e-9)
    by_hand = solve_sequential(made(problem, 0.5, 1.0, X), tol=1e-9)
    np.testing.assert_allclose(with_option.shared, by_hand.shared[:-1], atol=1e-6)


def test_single_precision_rows_reach_the_same_objective():
    problem = random_problem(7, False)
    single = solve_sequential(made(problem, 0.5, 1.0, problem.X.astype(np.float32)), tol=1e-6)
    assert single.primal == pytest.approx(optimum(problem, 0.5, 1.0), rel=1e-5)


def test_class_weights_multiply_the_cost_of_a_row():
    problem = random_problem(9, True)
    factors = balanced_factors(problem.y, problem.offsets)
    for a, b in zip(problem.offsets[:-1], problem.offsets[1:]):
        y, f = problem.y[a:b], factors[a:b]
        if np.unique(y).size == 2:
            assert f[y > 0].sum() == pytest.approx(f[y < 0].sum())
    weighted = solve_sequential(made(problem, 0.5, 1.0, cost_factors=factors), tol=1e-9)
    assert np.all(np.abs(weighted.dual) <= 0.5 * factors * (1 + 1e-12))


def test_zero_rows_zero_vectors_and_one_class_tasks_are_normal():
    """An empty task and a task of zero vectors get v = 0; a task of one class is an ordinary problem."""
    X = np.vstack([np.zeros((3, 2)), np.ones((4, 2)), [[1.0, 0.0], [-1.0, 0.5]]])
    y = np.array([1.0, -1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, -1.0])
    offsets = np.array([0, 0, 3, 7, 9])
    solution = solve_sequential(make_problem(X, y, offsets, Hinge(), 1.0, 1.0, fit_intercept=False), tol=1e-8)
    assert np.isfinite(solution.shared).all()
    assert not solution.own[:2].any()
    assert not solution.dual[:3].any()
    assert solution.gap <= 1e-8


def test_labels_of_other_than_two_classes_are_refused():
    problem = random_problem(0, True)
    with pytest.raises(DataError, match="two classes"):
        make_problem(problem.X, problem.y + 1.0, problem.offsets, Hinge())
