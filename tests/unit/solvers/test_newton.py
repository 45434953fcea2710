import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression, Ridge
from tests.support.blocks import make_block

from taskveil.losses import LOSSES
from taskveil.solvers.newton import minimise_local

LOGISTIC, SQUARED = LOSSES.get("logistic"), LOSSES.get("squared")


def gradient(block, i, loss, W, b, mu, centre):
    """Of the local objective of task i, one output, in (w, b)."""
    rows = block.rows(i)
    keep = slice(None) if block.weights is None else block.weights[rows] > 0
    X, y = block.X[rows][keep], block.y[rows][keep, 0]
    u = loss.derivative(X @ W[i, 0] + b[i, 0], y) / len(y)
    return np.append(X.T @ u + mu * (W[i, 0] - centre), u.sum())


def both_classes(block):
    return [i for i in range(block.n_tasks) if abs(block.y[block.rows(i)].mean()) < 1.0]


@pytest.mark.parametrize("features", [5, 30], ids=["more rows", "more features"])
@pytest.mark.parametrize("loss", [SQUARED, LOGISTIC], ids=["squared", "logistic"])
def test_local_solutions_have_zero_gradient(loss, features):
    rng = np.random.default_rng(0)
    kind = "regression" if loss is SQUARED else "classification"
    block = make_block(kind, n_tasks=10, n_features=features, rows=(8, 20), shift=2.0)
    centre = rng.standard_normal((10, 1, features))
    mu = rng.uniform(0.01, 1.0, 10)
    W, b = minimise_local(block, loss, mu, centre)
    for i in both_classes(block) if loss is LOGISTIC else range(10):
        slope = gradient(block, i, loss, W, b, mu[i], centre[i, 0])
        assert np.abs(slope).max() < 1e-6


def test_squared_agrees_with_ridge_of_scikit_learn():
    block = make_block(n_tasks=5, rows=(3, 12))
    W, b = minimise_local(block, SQUARED, 0.3)
    for i in range(5):
        X, y = block.X[block.rows(i)], block.y[block.rows(i), 0]
        reference = Ridge(alpha=0.3 * len(y)).fit(X, y)
        np.testing.assert_allclose(W[i, 0], reference.coef_, atol=1e-6)
        assert b[i, 0] == pytest.approx(reference.intercept_, abs=1e-6)


def test_logistic_agrees_with_scikit_learn():
    block = make_block("classification", n_tasks=6, rows=(8, 25))
    W, _b = minimise_local(block, LOGISTIC, 0.05)
    for i in both_classes(block):
        X, y = block.X[block.rows(i)], block.y[block.rows(i), 0]
        reference = LogisticRegression(C=1.0 / (0.05 * len(y)), tol=1e-10, max_iter=10_000).fit(X, y)
        np.testing.assert_allclose(W[i, 0], reference.coef_[0], atol=1e-4)


def test_held_out_rows_do_not_count():
    block = make_block("classification", n_tasks=6, rows=(15, 25), held_out=0.3)
    W, b = minimise_local(block, LOGISTIC, 0.1)
    kept = block.weights > 0
    offsets = np.concatenate([[0], np.cumsum(block.counts)]).astype(int)
    small = type(block)(block.X[kept], block.y[kept], offsets)
    for got, want in zip((W, b), minimise_local(small, LOGISTIC, 0.1)):
        np.testing.assert_allclose(got, want, atol=1e-6)


def test_tasks_alone_and_together_agree():
    block = make_block("classification", n_tasks=8, rows=(5, 30))
    W, _b = minimise_local(block, LOGISTIC, 0.1)
    for i in range(8):
        alone = minimise_local(block.take([i]), LOGISTIC, 0.1)
        np.testing.assert_allclose(alone[0][0], W[i], atol=1e-6)


def test_separable_one_class_and_empty_tasks_stay_finite():
    block = make_block("classification", n_tasks=5, rows=(10, 10))
    block.y[block.rows(0)] = np.where(block.X[block.rows(0), :1] > np.median(block.X[block.rows(0), 0]), 1.0, -1.0)
    block.y[block.rows(1)] = -1.0
    block = block.with_mask(block.task_of_row != 2)
    centre = np.full((5, 1, block.n_features), 0.5)
    W, b = minimise_local(block, LOGISTIC, 0.0, centre)
    assert np.all(np.isfinite(W)) and np.all(np.isfinite(b))
    assert np.abs(W[0] - 0.5).max() > 1.0
    np.testing.assert_array_equal(W[1:3], centre[1:3])
    mean_score = (block.X[block.rows(1)] @ centre[1, 0]).mean()
    assert b[1, 0] + mean_score == pytest.approx(-np.log(10.5 / 0.5))


def test_a_strong_penalty_returns_the_centre():
    block = make_block(n_tasks=4)
    centre = np.random.default_rng(0).standard_normal((4, 1, block.n_features))
    W, _ = minimise_local(block, SQUARED, 1e9, centre)
    np.testing.assert_allclose(W, centre, atol=1e-6)


def test_several_outputs_are_solved_one_by_one():
    block = make_block("classification", n_tasks=4, n_outputs=3, rows=(20, 30))
    W, b = minimise_local(block, LOGISTIC, 0.1)
    for o in range(3):
        one, c = minimise_local(block.with_targets(block.y[:, [o]]), LOGISTIC, 0.1)
        np.testing.assert_allclose(W[:, o], one[:, 0], atol=1e-8)
        np.testing.assert_allclose(b[:, o], c[:, 0], atol=1e-8)
