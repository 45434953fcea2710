"""Ridge paths of many tasks at once, against scikit-learn, direct solves and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from taskveil.solvers.newton import Penalty
from taskveil.solvers.ridge import inverse_factor, ridge_path
from taskveil.tasks.block import TaskBlock

STRENGTHS = np.array([3.0, 0.1, 1e-3])


def ragged(sizes=(4, 9, 30, 17, 1), d=6, seed=0, dtype=float) -> TaskBlock:
    """Fewer and more rows than features, means far from zero."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = (rng.standard_normal((offsets[-1], d)) + 3.0).astype(dtype)
    y = X.astype(float) @ rng.standard_normal(d) + rng.standard_normal(offsets[-1]) + 5.0
    return TaskBlock(X, y, offsets)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_a_ridge_path_equals_scikit_learn_task_by_task(fit_intercept):
    block = ragged()
    path = ridge_path(block, STRENGTHS, fit_intercept=fit_intercept)
    for i in range(block.n_tasks):
        X, y = block.X[block.rows(i)], block.y[block.rows(i), 0]
        for g, mu in enumerate(STRENGTHS):
            other = Ridge(alpha=len(y) * mu, fit_intercept=fit_intercept).fit(X, y)
            np.testing.assert_allclose(path.coef[g, i, 0], other.coef_, atol=1e-8)
            np.testing.assert_allclose(path.intercept[g, i, 0], other.intercept_, atol=1e-7)


def test_a_full_penalty_and_a_centre_give_the_solution_of_the_normal_equations():
    block, rng = ragged(), np.random.default_rng(1)
    B = rng.standard_normal((6, 6))
    A, centre = B @ B.T + 0.1 * np.eye(6), rng.standard_normal((block.n_tasks, 1, 6))
    path = ridge_path(block, STRENGTHS, Penalty(A, centre))
    for i in range(block.n_tasks):
        X, y = block.X[block.rows(i)], block.y[block.rows(i), 0]
        X, y, n, c = X - X.mean(0), y - y.mean(), len(y), centre[i, 0]
        for g, mu in enumerate(STRENGTHS):
            w = c + np.linalg.solve(X.T @ X / n + mu * A, X.T @ (y - X @ c) / n)
            np.testing.assert_allclose(path.coef[g, i, 0], w, atol=1e-7)


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_leave_one_out_in_closed_form_equals_refitting_without_the_row(fit_intercept):
    block = ragged(sizes=(4, 9, 12), d=6)
    path = ridge_path(block, STRENGTHS, fit_intercept=fit_intercept)
    for i in range(block.n_tasks):
        X, y = block.X[block.rows(i)], block.y[block.rows(i), 0]
        n = len(y)
        for g, mu in enumerate(STRENGTHS):
            squares = []
            for k in range(n):
                rest = np.arange(n) != k
                other = Ridge(alpha=n * mu, fit_intercept=fit_intercept).fit(X[rest], y[rest])
                squares.append((y[k] - other.predict(X[k : k + 1])[0]) ** 2)
            np.testing.assert_allclose(path.left_out[g, i], np.mean(squares), rtol=1e-6)


def test_rows_of_weight_zero_count_as_if_they_were_not_there():
    block = ragged(sizes=(8, 12), d=5)
    mask = np.ones(20, dtype=bool)
    mask[[0, 3, 10, 19]] = False
    kept = TaskBlock(block.X[mask], block.y[mask], np.array([0, 6, 16]))
    one, two = ridge_path(block.with_mask(mask), STRENGTHS), ridge_path(kept, STRENGTHS)
    np.testing.assert_allclose(one.coef, two.coef, atol=1e-9)
    np.testing.assert_allclose(one.intercept, two.intercept, atol=1e-9)
    np.testing.assert_allclose(one.left_out, two.left_out, rtol=1e-9)


def test_tasks_without_usable_rows_keep_the_centre_and_do_not_touch_their_neighbours():
    block = ragged(sizes=(5, 7, 7), d=4)
    X = block.X.copy()
    X[5] = np.nan
    broken = TaskBlock(X, block.y, block.offsets)
    centre = np.full((3, 1, 4), 2.0)
    path = ridge_path(broken, STRENGTHS, Penalty(centre=centre))
    np.testing.assert_array_equal(path.coef[:, 1], 2.0)
    whole = ridge_path(block, STRENGTHS, Penalty(centre=centre))
    np.testing.assert_array_equal(path.coef[:, [0, 2]], whole.coef[:, [0, 2]])


def test_single_precision_rows_are_solved_in_double_precision():
    wide = ragged(dtype=np.float32)
    narrow = TaskBlock(wide.X.astype(float), wide.y, wide.offsets)
    np.testing.assert_array_equal(ridge_path(wide, STRENGTHS).coef, ridge_path(narrow, STRENGTHS).coef)


def test_the_inverse_factor_of_a_matrix():
    B = np.random.default_rng(0).standard_normal((5, 5))
    A = B @ B.T + np.eye(5)
    M = inverse_factor(A)
    np.testing.assert_allclose(M @ M.T @ A, np.eye(5), atol=1e-10)
