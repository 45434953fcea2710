"""Cox's partial likelihood of one task with its exact curvature, and its minimiser under a quadratic penalty.

    L(w) = (1/n) sum over events of [log sum over rows at risk of exp(x'w) - x'w],     ties as in Breslow 1974

Gradient X'(E - d)/n, curvature (X' diag(E) X - sum over events of m m')/n: E the expected events (losses/cox.py), m the mean row
at risk. Newton with halved steps; tasks one by one, because their risk sets have nothing in common.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from taskveil.losses.cox import Cox, expected_events
from taskveil.tasks.block import TaskBlock

Array = NDArray[np.floating]
MOST_STEPS = 60
TINY = 1e-9  # ridge relative to the mean curvature


def partial_likelihood(X: Array, y: Array, weights: Array, w: Array) -> tuple[float, Array, Array]:
    """Value, gradient (d,) and curvature (d, d), summed over events."""
    order = np.argsort(np.abs(y), kind="stable")
    X, y, weights = X[order], y[order], weights[order]
    scores, t = X @ w, np.abs(y)
    top = np.max(scores, initial=-np.inf, where=weights > 0.0) if len(y) else 0.0
    part = weights * np.exp(np.clip(scores - top, -700.0, 0.0))
    first = np.searchsorted(t, t, side="left")
    at_risk = np.cumsum(part[::-1])[::-1][first]
    events = weights * (y > 0.0)
    counted = events > 0.0
    means = np.cumsum((part[:, None] * X)[::-1], axis=0)[::-1][first][counted] / at_risk[counted, None]
    expected = weights * expected_events(scores, y, weights)
    value = float(events[counted] @ (np.log(at_risk[counted]) + top - scores[counted]))
    H = (X * expected[:, None]).T @ X - (means * events[counted, None]).T @ means
    return value, X.T @ (expected - events), H


def minimise_cox(block: TaskBlock, strengths: Array, centre: Array | None = None) -> tuple[Array, Array]:
    """(W (m, 1, d), intercepts (m, 1)): mean loss plus (mu/2) |w - c|^2 for strengths (m, 1); no event: w = c."""
    m, d = block.n_tasks, block.n_features
    centres = np.zeros((m, 1, d)) if centre is None else np.broadcast_to(centre, (m, 1, d))
    W = np.array(centres, dtype=float)
    weights = np.ones(block.n_rows) if block.weights is None else block.weights
    for i in range(m):
        rows = block.rows(i)
        if (weights[rows] * (block.y[rows, 0] > 0.0)).sum() > 0.0:
            W[i, 0] = _newton(block.X[rows], block.y[rows, 0], weights[rows], strengths[i, 0] * np.eye(d), centres[i, 0])
    return W, Cox().intercepts(block.scores(W), block)


def _newton(X: Array, y: Array, weights: Array, P: Array, centre: Array) -> Array:
    X, total = np.asarray(X, dtype=float), float(weights.sum())
    X = X - weights @ X / total  # a constant drops out; products stay small
    w = np.array(centre, dtype=float)

    def at(w: Array) -> tuple[float, Array, Array]:
        value, gradient, H = partial_likelihood(X, y, weights, w)
        pull = P @ (w - centre)
        return value / total + 0.5 * float((w - centre) @ pull), gradient / total + pull, H / total + P

    value, gradient, H = at(w)
    ridge = TINY * max(float(np.trace(H)) / len(w), 1e-300) * np.eye(len(w))
    for _ in range(MOST_STEPS):
        move = -np.linalg.solve(H + ridge, gradient)
        decrement, length = -float(gradient @ move), 1.0
        if decrement <= 1e-14 * (1e-3 + abs(value)):
            break
        while length > 1e-9:
            there = at(w + length * move)
            if there[0] <= value - 0.1 * length * decrement + 1e-15 * abs(value):
                break
            length *= 0.5
        else:
            break
        w, (value, gradient, H) = w + length * move, there
    return w
