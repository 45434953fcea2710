"""Section 6.1: can a curious server solve for a participant's rows? What the un-masked updates of Algorithm 1 determine, and what not.

With y^2 = 1 the update of eq. 30 is linear in u = w + v, which the server knows (dv = dw / C2):

    dw = sum_i (y_i - u'x_i) x_i / |x_i|^2 = b - A u        A = sum x x'/|x|^2,   b = sum y x/|x|^2

So d + 1 epochs give A and b exactly, instead of the (d + 1) n_k epochs the paper counts, and no number of epochs gives more: rows with the
same A and b send the same updates for ever. Let U have the n_k directions x/|x| as columns. A = UU' fixes U up to a rotation R of n_k
dimensions whose UR again has unit columns, and b = Uc with c = y/|x| is met by R'c whatever R: at least (n_k - 1)(n_k - 2)/2 directions
stay free. One or two rows can be solved for, more cannot. (In the corrected algorithm duals hit their box, and a row can be read
whose neighbours stand still; a reader who knows the other rows needs no system of equations.)
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import least_squares

Array = np.ndarray


def updates(X: Array, y: Array, points: Array) -> Array:
    """What eq. 30 sends at each point u = w + v."""
    squares = np.einsum("nd,nd->n", X, X)
    return np.stack([((y * (1.0 - y * (X @ u))) / squares) @ X for u in points])


def moments(points: Array, sent: Array) -> tuple[Array, Array]:
    """(A, b) from d + 1 or more updates by least squares."""
    d = points.shape[1]
    design = np.concatenate([-points, np.ones((len(points), 1))], axis=1)
    solved = np.linalg.lstsq(design, sent, rcond=None)[0]
    return (solved[:d] + solved[:d].T) / 2, solved[d]


def solve_rows(A: Array, b: Array, n: int, rng: np.random.Generator, starts: int = 30) -> tuple[Array, float]:
    """Signed rows y x that explain (A, b), from the best of several starts, and what is left unexplained."""
    d = len(b)
    upper = np.triu_indices(d)
    scale = np.linalg.norm(b) + np.linalg.norm(A)

    def residual(flat: Array) -> Array:
        Z = flat.reshape(n, d)
        squares = np.maximum(np.einsum("nd,nd->n", Z, Z), 1e-12)
        return np.append(((Z / squares[:, None]).T @ Z - A)[upper], (Z / squares[:, None]).sum(axis=0) - b)

    best, left = np.zeros((n, d)), np.inf
    for _ in range(starts):
        found = least_squares(residual, rng.standard_normal(n * d), max_nfev=300)
        if np.sqrt(2 * found.cost) / scale < left:
            best, left = found.x.reshape(n, d), float(np.sqrt(2 * found.cost) / scale)
        if left < 1e-9:
            break
    return best, left


def recovered(guess: Array, truth: Array) -> float:
    """Share of the true signed rows that some guessed row equals to 1e-3 of its length."""
    far = np.linalg.norm(truth[:, None] - guess[None], axis=2).min(axis=1) / np.linalg.norm(truth, axis=1)
    return float(np.mean(far < 1e-3))


def table(quick: bool, features: int = 5) -> list[dict[str, Any]]:
    """Rows of one participant -> share recovered, over draws; the server may send what it likes, its best case."""
    out = []
    for n in (1, 2, 3) if quick else (1, 2, 3, 4, 5):
        shares, errors = [], []
        for seed in range(2 if quick else 6):
            rng = np.random.default_rng([seed, n])
            X, y = rng.standard_normal((n, features)), np.where(rng.random(n) < 0.5, -1.0, 1.0)
            points = rng.standard_normal((features + 1, features))
            A, b = moments(points, updates(X, y, points))
            unseen = rng.standard_normal((3, features))
            errors.append(float(np.abs(b - unseen @ A - updates(X, y, unseen)).max()))
            shares.append(recovered(solve_rows(A, b, n, rng, 5 if quick else 30)[0], y[:, None] * X))
        out.append({"rows": n, "features": features, "directions left free": (n - 1) * (n - 2) // 2,
                    "epochs": features + 1, "epochs in the paper": (features + 1) * n, "recovered": shares, "error of the next update": max(errors)})  # fmt: skip
    return out
