"""Posterior means and evidence of every task under one public Gaussian prior, for all strengths at once.

    w ~ N(c, t s^2 (floor I + B B')),    B (d, q) thin

One reduction X'X = Q T Q' per task to a tridiagonal T (of XX' where rows are fewer: solvers/tridiagonal.py) serves every
such prior: A = I + t floor XX' is a tridiagonal system in it, and the q directions are added by Woodbury's formula,

    S = B'X' A^-1 X B,  M = I + t S,  u = B'X' A^-1 y,    log|I + t X C X'| = log|A| + log|M|
    y'(I + t X C X')^-1 y = y' A^-1 y - t u' M^-1 u

with C = floor I + B B'; the mean is t C X'(I + t X C X')^-1 y. Strengths are given as signal-to-noise
ratios: the mean prior variance of a row's score, t trace(X C X') / rows, in units of the noise variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from taskveil.solvers.per_task import per_task
from taskveil.solvers.ridge import CentredRows
from taskveil.solvers.tridiagonal import Reduced

Array = NDArray[np.floating]
LARGEST_SCORE = 1e120


@dataclass(frozen=True)
class Prior:
    """A public belief about a task's model: N(centre, t (floor I + directions directions'))."""

    floor: float = 1.0
    directions: Array | None = None  # (d, q)
    centre: Array | None = None  # (r, d) in units of the task's own target scale, or (m, r, d), one for each; None is zero
    log_weight: float = 0.0

    def of(self, tasks: NDArray[np.int64]) -> Prior:
        """For some of the tasks."""
        return self if self.centre is None or self.centre.ndim == 2 else replace(self, centre=self.centre[tasks])

    def centre_of(self, output: int, scale: Array) -> Array | None:
        """(k, d) for tasks with target scales (k,)."""
        if self.centre is None:
            return None
        return scale[:, None] * (self.centre[output] if self.centre.ndim == 2 else self.centre[:, output])


@dataclass(frozen=True)
class Posterior:
    """What the rows of k tasks say about one prior at g strengths."""

    determinant: Array  # (k, g) half the log determinant of I + t X C X'
    residual: Array  # (k, g) squared target in the metric of its inverse
    total: Array  # (k,) squared target around the centre
    steps: Array  # (k, p, g) t times the solution, along the basis
    found: Reduced
    prior: Prior
    centre: Array | None

    def scores(self) -> Array:
        """(k, n, g) what the posterior mean of every strength says of the rows."""
        v, B = self.found.models(self.steps), self.prior.directions
        w = self.prior.floor * v if B is None else self.prior.floor * v + B @ (B.T @ v)
        return self.found.rows.X @ (w if self.centre is None else w + self.centre[:, :, None])

    def mean(self, weights: Array) -> Array:
        """(k, d) sum over strengths of weight times posterior mean, for weights (k, g)."""
        v = self.found.models(per_task("kg,kpg->kp", weights, self.steps)[:, :, None])[:, :, 0]
        w, B = self.prior.floor * v, self.prior.directions
        if B is not None:
            w += np.einsum("kq,dq->kd", np.einsum("kd,dq->kq", v, B), B)  # task by task: how many stand here must not show
        return w if self.centre is None else w + weights.sum(axis=1)[:, None] * self.centre


def posterior(found: Reduced, prior: Prior, centre: Array | None, signal_to_noise: Array) -> Posterior:
    """`centre` is (k, d) or None."""
    from taskveil.solvers import kernels_tridiagonal

    centre, along, total = found.once(centre, lambda: _targets(found, centre))
    onto, spread = np.empty((*along.shape, 0)), prior.floor * found.spread
    if (directions := prior.directions) is not None:
        onto, added = found.once(directions, lambda: _onto(found, directions))
        spread = spread + added
    per_row = spread / np.maximum(found.rows.free, 1.0)
    t = signal_to_noise[None] / np.where(per_row > 0.0, per_row, 1.0)[:, None]
    determinant, residual = np.zeros_like(t), np.zeros_like(t)
    steps = np.empty((*along.shape, t.shape[1]))
    if along.shape[1]:
        kernels_tridiagonal.posterior(
            found.diagonal, found.beside, along, onto, total, t, float(prior.floor), found.dual,
            determinant, residual, steps,
        )  # fmt: skip
    return Posterior(determinant, np.maximum(residual, 0.0), total, steps, found, prior, centre)


def _targets(found: Reduced, centre: Array | None) -> tuple[Array | None, Array, Array]:
    """The centre, targets around it along the basis (k, p), and the squares of these targets (k,)."""
    left, centre = _around(found.rows, centre)
    return centre, found.along(left), per_task("kn,kn->k", left, left)


def _onto(found: Reduced, directions: Array) -> tuple[Array, Array]:
    """Directions along the basis (k, p, q), and what they add to the spread of rows (k,)."""
    scores = found.scores(directions)
    columns = scores if found.dual else np.broadcast_to(directions, (len(scores), *directions.shape))
    return np.ascontiguousarray(found.turned(columns)), np.square(scores).sum(axis=(1, 2))


def posterior_mean(rows: CentredRows, centre: Array | None, signal_to_noise: float) -> Array:
    """(k, d) the mean under N(centre, t s^2 I) at one strength: one linear system per task, where a grid needs a spectrum."""
    X = rows.X
    per_row = per_task("knd,knd->k", X, X) / np.maximum(rows.free, 1.0)
    t = (signal_to_noise / np.where(per_row > 0.0, per_row, 1.0))[:, None, None]
    around, centre = _around(rows, centre)
    turned, left = X.transpose(0, 2, 1), around[:, :, None]
    n, d = X.shape[1:]
    if n < d:
        w: Array = t * (turned @ np.linalg.solve(np.eye(n) + t * (X @ turned), left))
    else:
        w = np.linalg.solve(np.eye(d) + t * (turned @ X), t * (turned @ left))
    return w[:, :, 0] if centre is None else w[:, :, 0] + centre


def _around(rows: CentredRows, centre: Array | None) -> tuple[Array, Array | None]:
    """Targets (k, n) once the centre's scores are taken off; and the centre."""
    if centre is None:
        return rows.y, None
    scores, centre = _of_ordinary_size(per_task("knd,kd->kn", rows.X, centre), centre)
    return rows.y - scores, centre


def _of_ordinary_size(scores: Array, centre: Array) -> tuple[Array, Array]:
    """Both, shortened where the scores cannot be squared: rows prefer neither, and what is left is a number."""
    largest = np.abs(scores).max(axis=1, initial=0.0)[:, None]
    if (largest <= LARGEST_SCORE).all():
        return scores, centre
    shorter = LARGEST_SCORE / np.maximum(largest, LARGEST_SCORE)
    return scores * shorter, centre * shorter
