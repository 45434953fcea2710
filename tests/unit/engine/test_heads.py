"""Heads solved to the end: against normal equations, a general optimiser, and refits without each row."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

from taskveil.engine import heads
from taskveil.engine.heads import CONSTANT

solve_head = jax.jit(heads.solve_head, static_argnames=("loss", "n_outputs"))  # as in a round, and compiled once per shape
left_out_error = jax.jit(heads.left_out_error)

SHAPES = {"more rows than columns": (14, 4), "fewer": (7, 12)}
RIDGE = 0.05


def problem(shape: str, outputs: int = 2):
    n, width = SHAPES[shape]
    rng = np.random.default_rng(n)
    weights = np.append(np.full(n - 1, 1 / (n - 1)), 0.0)  # the last row is padding
    return rng.standard_normal((n, width)) * 3 + 1, rng.standard_normal((n, outputs)), weights


def columns_of(features, weights):
    """As in the module's docstring, written a second time."""
    spread = np.sqrt((weights[:, None] * (features - weights @ features) ** 2).sum())
    return np.hstack([features / spread, np.full((len(features), 1), CONSTANT)]), spread


def ridge_head(columns, y, weights):
    product = (columns.T * weights) @ columns + RIDGE * np.eye(columns.shape[1])
    return np.linalg.solve(product, (columns.T * weights) @ y)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_head_for_squared_loss_solves_the_normal_equations(shape):
    features, y, weights = problem(shape)
    columns, spread = columns_of(features, weights)
    expected = ridge_head(columns, y, weights)
    H, bias = solve_head((features,), y, weights, RIDGE, "squared", 2)
    np.testing.assert_allclose(H, expected[:-1] / spread, atol=2e-4)
    np.testing.assert_allclose(bias, expected[-1] * CONSTANT, atol=2e-3)


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_head_for_classes_is_the_optimum_a_general_optimiser_finds(shape, loss):
    features, y, weights = problem(shape, 3)
    columns, spread = columns_of(features, weights)
    signs, labels = np.where(y > 0, 1.0, -1.0), y.argmax(axis=1)

    def objective(flat):
        H = flat.reshape(-1, 3)
        scores = columns @ H
        if loss == "logistic":
            each = np.logaddexp(0, -signs * scores).sum(axis=1)
        else:
            each = np.logaddexp.reduce(scores, axis=1) - scores[np.arange(len(labels)), labels]
        return weights @ each + RIDGE / 2 * (H**2).sum()

    best = minimize(objective, np.zeros(columns.shape[1] * 3), method="BFGS", options={"gtol": 1e-7})
    H, bias = solve_head((features,), signs if loss == "logistic" else labels, weights, RIDGE, loss, 3)
    found = np.vstack([np.asarray(H) * spread, np.asarray(bias) / CONSTANT])
    assert objective(found.ravel()) <= best.fun + 1e-5
    np.testing.assert_allclose(found, best.x.reshape(-1, 3), atol=5e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_the_error_on_left_out_rows_is_that_of_refits_without_them(shape):
    """The twin: the error of the head that saw the row is smaller, so the closed form is not simply the residual."""
    features, y, weights = problem(shape)
    total, seen = refitted_errors(features, y, weights)
    assert float(left_out_error(features, y, weights, RIDGE)) == pytest.approx(total, rel=1e-3)
    assert seen < 0.9 * total


@pytest.mark.parametrize("shape", SHAPES)
def test_the_slope_of_the_left_out_error_is_that_of_refits(shape):
    """By differences of float64 refits; the gradient of an inverse is written out by hand in the engine."""
    features, y, weights = problem(shape)
    expected, small = np.zeros_like(features), 1e-5
    for place in np.ndindex(features.shape):
        way = np.zeros_like(features)
        way[place] = small
        ahead, back = (refitted_errors(features + side * way, y, weights)[0] for side in (1, -1))
        expected[place] = (ahead - back) / (2 * small)
    found = jax.jit(jax.grad(heads.left_out_error))(*(jnp.asarray(a, jnp.float32) for a in (features, y, weights)), RIDGE)
    assert np.linalg.norm(found - expected) < 2e-3 * np.linalg.norm(expected)


def refitted_errors(features, y, weights):
    """Half the weighted squared errors on every row: of a head that was refitted without it, and of that of all rows."""
    columns, _ = columns_of(features, weights)
    left = seen = 0.0
    for i in np.flatnonzero(weights):
        without = np.where(np.arange(len(weights)) == i, 0.0, weights)
        left += weights[i] * ((y[i] - columns[i] @ ridge_head(columns, y, without)) ** 2).sum() / 2
        seen += weights[i] * ((y[i] - columns[i] @ ridge_head(columns, y, weights)) ** 2).sum() / 2
    return left, seen


def test_the_length_of_features_does_not_count():
    features, y, weights = problem("fewer")
    assert float(left_out_error(1e3 * features, y, weights, RIDGE)) == pytest.approx(
        float(left_out_error(features, y, weights, RIDGE)), rel=1e-3
    )


@pytest.mark.parametrize("loss", ["squared", "logistic", "softmax"])
@pytest.mark.parametrize("features", [np.full((1, 5), 3.0), np.full((9, 5), 1e4), np.zeros((9, 5))])
def test_a_head_on_a_single_row_or_on_features_that_do_not_vary_is_finite(loss, features):
    n, outputs = len(features), 3 if loss == "softmax" else 1
    targets = np.zeros(n, dtype=int) if loss == "softmax" else np.ones((n, 1))
    rows = (jnp.asarray(features, jnp.float32),)
    found = solve_head(rows, jnp.asarray(targets), jnp.full(n, 1.0 / n), 1e-6, loss, outputs)
    assert all(bool(jnp.isfinite(part).all()) for part in found)
