"""Optimality certificates that share no code with the solvers: explicit dual points, one row at a time.

For  min sum_i mean_rows loss(x'w_i + b_i, y) + sum_k penalty_k norm_k(W_k),  W = sum_k W_k,  every choice of
     row slopes u with

    sum over the rows of a task of u = 0 (free intercept),   dualnorm_k(columns (1/n_i) X_i'u_i) <= penalty_k
                                                             for every k

gives the lower bound  - sum_i mean_rows loss*(u, y)  on the optimum. We take the slopes of the loss at the
                       solver's
point, move them into the constraints, and return (objective, lower bound).
"""

from __future__ import annotations

import numpy as np

DUAL_NORMS = {
    "trace_norm": lambda G: np.linalg.norm(G, 2),
    "group_sparse": lambda G: np.linalg.norm(G, axis=1).max(),
    "l1": lambda G: np.abs(G).max(),
    "l12": lambda G: np.linalg.norm(G, axis=0).max(),
}
NORMS = {
    "trace_norm": lambda W: np.linalg.norm(W, "nuc"),
    "group_sparse": lambda W: np.linalg.norm(W, axis=1).sum(),
    "l1": lambda W: np.abs(W).sum(),
    "l12": lambda W: np.linalg.norm(W, axis=0).sum(),
}


def bounds(block, loss: str, parts, b, norms: list[tuple[str, float]]) -> tuple[float, float]:
    """(objective, lower bound) for one output; parts is a list of (features, tasks) matrices."""
    fit, slopes, G = _fit_and_slopes(block, loss, sum(parts), b)
    objective = fit + sum(penalty * NORMS[name](part) for (name, penalty), part in zip(norms, parts))
    scale = min([1.0] + [penalty / DUAL_NORMS[name](G) for name, penalty in norms])
    return float(objective), -_mean_conjugates(block, loss, slopes, scale)


def relationship_bounds(block, loss: str, W, b, penalty: float) -> tuple[float, float]:
    """The same for (penalty/2)|W|_*^2, whose conjugate is |G|_2^2 / (2 penalty)."""
    fit, slopes, G = _fit_and_slopes(block, loss, W, b)
    objective = fit + 0.5 * penalty * np.linalg.norm(W, "nuc") ** 2
    return float(objective), -_mean_conjugates(block, loss, slopes, 1.0) - np.linalg.norm(G, 2) ** 2 / (2 * penalty)


def _fit_and_slopes(block, loss, W, b):
    """Sum of mean losses, row slopes that sum to zero per task, and the matrix of their gradients."""
    fit, slopes, columns = 0.0, [], []
    for i in range(block.n_tasks):
        X, y = block.X[block.rows(i)], block.y[block.rows(i), 0]
        s = X @ W[:, i] + b[i]
        if loss == "squared":
            fit += np.mean((s - y) ** 2) / 2
            u = (s - y) - np.mean(s - y)
        else:
            fit += np.mean(np.logaddexp(0.0, -y * s))
            u = _balanced(-y / (1.0 + np.exp(y * s)), y)
        slopes.append(u)
        columns.append(X.T @ u / len(y))
    return fit, slopes, np.array(columns).T


def _mean_conjugates(block, loss, slopes, scale) -> float:
    return float(sum(np.mean(_conjugate(loss, scale * u, block.y[block.rows(i), 0])) for i, u in enumerate(slopes)))


def _balanced(u, y):
    """Logistic slopes scaled down on one class so that they sum to zero and stay in their domain."""
    up, down = u[y < 0].sum(), -u[y > 0].sum()
    out = u.copy()
    if up > down:
        out[y < 0] *= down / up
    elif down > 0:
        out[y > 0] *= up / down
    return out


def _conjugate(loss, u, y):
    if loss == "squared":
        return u**2 / 2 + u * y
    p = np.clip(-y * u, 1e-300, 1.0)
    q = np.clip(1.0 - p, 1e-300, 1.0)
    return p * np.log(p) + q * np.log(q)
