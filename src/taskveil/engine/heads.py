"""A linear head on frozen features, solved to the end: few numbers, one factorisation, batched over clients by vmap.

    min over H of  sum_i weight_i l(c_i H, y_i) + (ridge/2) |H|^2,      c_i = (features / their spread, 10)

The spread is the root of the mean squared distance of the client's features from their mean, so that a ridge means the same
whatever their units; the constant column makes an intercept with a hundredth of the ridge. With fewer rows than columns the same
problem is solved in the space of rows.

Squared loss takes one step. For logistic and cross-entropy loss the curvature is at most 1/4 and 1/2 (Boehning & Lindsay 1988;
Boehning 1992), so that every step solves with one factor and never overshoots; steps are accelerated (Nesterov 1983) and start
over when they would go uphill (O'Donoghue & Candes 2015).

What a head without row i would have said about row i follows from the same factor (Allen 1974): its residual is that of the head
of all rows over 1 - h_ii, h the matrix that turns targets into fitted values.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve

CURVATURE = {"squared": 1.0, "logistic": 0.25, "softmax": 0.5}  # largest second derivative of a row's loss in its scores
STEPS = 40
CONSTANT = 10.0
SMALL = 1e-12
CONSTANT_FEATURES = 1e-4  # of their mean square: features of a single row, or that do not vary, are not blown up
LEAST_RIDGE = 1e-6  # of the trace: below it float32 has no Cholesky factor


def solve_head(groups: tuple[Any, ...], targets: Any, weights: Any, ridge: Any, loss: str, n_outputs: int) -> tuple[Any, ...]:
    """Coefficients (width, outputs) for each group of features (n, width), then the intercept (outputs,)."""
    spreads = [_spread(g, weights) for g in groups]
    columns = _columns([g / s for g, s in zip(groups, spreads)])
    H = _solve(columns, targets, weights, ridge, loss, n_outputs)
    heads, first = [], 0
    for g, spread in zip(groups, spreads):
        heads.append(H[first : first + g.shape[1]] / spread)
        first += g.shape[1]
    return (*heads, CONSTANT * H[-1])


def left_out_residuals(groups: tuple[Any, ...], targets: Any, weights: Any, ridge: Any) -> Any:
    """y_i minus what the head of all other rows says about row i, for targets (n, outputs), squared loss; 0 for padding."""
    columns, root = _columns([g / _spread(g, weights) for g in groups]), jnp.sqrt(weights)[:, None]
    scaled, goals = root * columns, root * targets
    if _by_rows(columns):
        inverse = _inverse(_times(scaled, scaled.T), ridge)
        left = _times(inverse, goals) / jnp.diagonal(inverse)[:, None]
    else:
        hat = _times(scaled, _inverse(_times(scaled.T, scaled), ridge))
        share = jnp.sum(hat * scaled, axis=1, keepdims=True)
        left = (goals - _times(hat, _times(scaled.T, goals))) / jnp.maximum(1 - share, 1e-6)
    return jnp.where(root > 0, left / jnp.where(root > 0, root, 1.0), 0.0)


def left_out_error(features: Any, targets: Any, weights: Any, ridge: Any) -> Any:
    """sum_i weight_i |left-out residual of row i|^2 / 2."""
    return 0.5 * jnp.sum(weights[:, None] * left_out_residuals((features,), targets, weights, ridge) ** 2)


def slopes(loss: str, scores: Any, targets: Any) -> Any:
    """Derivative of every row's loss in its scores, (n, outputs)."""
    if loss == "squared":
        return scores - targets
    if loss == "logistic":
        return -targets * jax.nn.sigmoid(-targets * scores)
    return jax.nn.softmax(scores) - jax.nn.one_hot(targets, scores.shape[1])


def _spread(features: Any, weights: Any) -> Any:
    mass = jnp.maximum(jnp.sum(weights), SMALL)
    centred = features - weights @ features / mass
    size = jnp.sum(weights[:, None] * features**2) / mass
    return jnp.sqrt(jnp.sum(weights[:, None] * centred**2) / mass + CONSTANT_FEATURES * size + SMALL)


def _columns(parts: list[Any]) -> Any:
    return jnp.concatenate([*parts, jnp.full((parts[0].shape[0], 1), CONSTANT)], axis=1)


def _by_rows(columns: Any) -> bool:
    return bool(columns.shape[0] < columns.shape[1])


def _inverse(product: Any, ridge: Any) -> Any:
    return _inverted(_ridged(product, ridge))


@jax.custom_vjp
def _inverted(matrix: Any) -> Any:
    """Of a positive matrix; its gradient takes two products, where one through factor and solutions takes as long as these."""
    return cho_solve(cho_factor(matrix), jnp.eye(matrix.shape[0]))


def _inverted_forward(matrix: Any) -> tuple[Any, Any]:
    inverse = _inverted(matrix)
    return inverse, inverse


def _inverted_backward(inverse: Any, gradient: Any) -> tuple[Any]:
    return (-_times(inverse.T, _times(gradient, inverse.T)),)


_inverted.defvjp(_inverted_forward, _inverted_backward)


def _ridged(product: Any, ridge: Any) -> Any:
    return product + jnp.maximum(ridge, LEAST_RIDGE * jnp.trace(product)) * jnp.eye(product.shape[0])


def _solve(columns: Any, targets: Any, weights: Any, ridge: Any, loss: str, n_outputs: int) -> Any:
    """Steps on the coefficients, or on those of rows, H = scaled' a: then scores are cross a."""
    root, by_rows = jnp.sqrt(weights)[:, None], _by_rows(columns)
    scaled = root * columns
    cross = _times(columns, scaled.T) if by_rows else columns
    product = root * cross if by_rows else _times(scaled.T, scaled)
    factor = cho_factor(_ridged(CURVATURE[loss] * product, ridge))

    def step(at: Any) -> Any:
        """Minus the step of a solve with the bound on the curvature."""
        slope = root * slopes(loss, _times(cross, at), targets)
        return cho_solve(factor, (slope if by_rows else _times(scaled.T, slope)) + ridge * at)

    def accelerated(_: int, state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        last, ahead, t = state
        move = step(ahead)
        new = ahead - move
        uphill = jnp.sum(move * (new - last)) > 0
        t_next = jnp.where(uphill, 1.0, (1 + jnp.sqrt(1 + 4 * t * t)) / 2)
        return new, new + jnp.where(uphill, 0.0, (t - 1) / t_next) * (new - last), t_next

    zero = jnp.zeros((product.shape[0], n_outputs), jnp.float32)
    head = zero - step(zero) if loss == "squared" else jax.lax.fori_loop(0, STEPS, accelerated, (zero, zero, jnp.float32(1)))[0]
    return _times(scaled.T, head) if by_rows else head


def _times(a: Any, b: Any) -> Any:
    return jnp.matmul(a, b, precision="highest")
