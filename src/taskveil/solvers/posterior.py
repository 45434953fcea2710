"""Posterior means and evidence of every task under one public Gaussian prior, for all strengths at once.

    w ~ N(c, t s^2 (floor I + B B')),    B (d, q) thin

One eigendecomposition X'X = V diag(e) V' per task (of XX' = U diag(e) U' where rows are fewer) serves every
such prior: A = I + t floor XX' is diagonal in it, and the q directions are added by Woodbury's formula,

    S = B'X' A^-1 X B,  M = I + t S,  u = B'X' A^-1 y,    log|I + t X C X'| = log|A| + log|M|
    y'(I + t X C X')^-1 y = y' A^-1 y - t u' M^-1 u

with C = floor I + B B'; the mean is t C X'(I + t X C X')^-1 y. Strengths are given as signal-to-noise
ratios: the mean prior variance of a row's score, t trace(X C X') / rows, in units of the noise variance.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from taskveil.solvers.ridge import CentredRows, Spectrum

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
    steps: Array  # (k, g, j) t times the solution, along the eigenvectors
    found: Spectrum
    prior: Prior
    centre: Array | None
    onto: Array | None  # (k, j, q)

    def scores(self, X: Array) -> Array:
        """(k, g, n) what the posterior mean of every strength says of rows X (k, n, d)."""
        w = self.prior.floor * np.einsum("kdj,kgj->kgd", self.found.basis, self.steps)
        if self.onto is not None and self.prior.directions is not None:
            w += np.einsum("kgj,kjq->kgq", self.steps, self.onto) @ self.prior.directions.T
        if self.centre is not None:
            w += self.centre[:, None]
        return w @ X.transpose(0, 2, 1)

    def mean(self, weights: Array) -> Array:
        """(k, d) sum over strengths of weight times posterior mean, for weights (k, g)."""
        a = np.einsum("kg,kgj->kj", weights, self.steps)
        w = self.prior.floor * np.einsum("kdj,kj->kd", self.found.basis, a)
        if self.onto is not None and self.prior.directions is not None:
            w += np.einsum("kq,dq->kd", np.einsum("kjq,kj->kq", self.onto, a), self.prior.directions)
        return w if self.centre is None else w + weights.sum(axis=1)[:, None] * self.centre


def posterior(rows: CentredRows, found: Spectrum, prior: Prior, centre: Array | None, signal_to_noise: Array) -> Posterior:
    """`found` is the spectrum of `rows` under the identity; `centre` is (k, d) or None."""
    along, total, centre = _around(rows, found, centre)
    onto = None
    if prior.directions is not None:
        onto = found.basis.transpose(0, 2, 1) @ prior.directions  # task by task: how many stand here must not show
    t = _strengths(rows, found, prior.floor, onto, signal_to_noise)
    shrink = 1.0 / (1.0 + prior.floor * t[:, :, None] * found.values[:, None, :])
    determinant = -0.5 * np.log(shrink).sum(axis=2)
    energy = np.square(along) * (found.values if found.dual else 1.0)
    residual = total[:, None] - prior.floor * t * np.einsum("kj,kgj->kg", energy, shrink)
    steps = shrink * along[:, None, :]
    if onto is not None:
        _add_directions(found, onto, t, shrink, steps, determinant, residual)
    return Posterior(determinant, np.maximum(residual, 0.0), total, t[:, :, None] * steps, found, prior, centre, onto)


def _add_directions(
    found: Spectrum,
    onto: Array,
    t: Array,
    shrink: Array,
    steps: Array,
    determinant: Array,
    residual: Array,
) -> None:
    """Woodbury's correction, one strength at a time (the q x q systems of all tasks at once), in place."""
    weight = np.ones_like(found.values) if found.dual else found.values
    unit = np.eye(onto.shape[2])
    for g in range(t.shape[1]):
        a = weight * shrink[:, g]
        S = onto.transpose(0, 2, 1) @ (a[:, :, None] * onto)
        M = unit + t[:, g, None, None] * S
        u = np.einsum("kjq,kj->kq", onto, steps[:, g])
        solved = np.linalg.solve(M, u[:, :, None])[:, :, 0]
        determinant[:, g] += 0.5 * np.linalg.slogdet(M)[1]
        residual[:, g] -= t[:, g] * np.einsum("kq,kq->k", u, solved)
        steps[:, g] -= t[:, g, None] * a * np.einsum("kjq,kq->kj", onto, solved)


def _around(rows: CentredRows, found: Spectrum, centre: Array | None) -> tuple[Array, Array, Array | None]:
    """Target along the eigenvectors (k, j), and its square (k,), once the centre's scores are taken off; and the centre."""
    if centre is None:
        return found.along, found.total, None
    scores = np.einsum("knd,kd->kn", rows.X, centre)
    scores, centre = _of_ordinary_size(scores, centre)
    there = np.einsum("kdj,kd->kj", found.basis, centre)
    left = rows.y - scores
    along = found.along - (there if found.dual else found.values * there)
    return along, np.einsum("kn,kn->k", left, left), centre


def _of_ordinary_size(scores: Array, centre: Array) -> tuple[Array, Array]:
    """Both, shortened where the scores cannot be squared: rows prefer neither, and what is left is a number."""
    largest = np.abs(scores).max(axis=1, initial=0.0)[:, None]
    if (largest <= LARGEST_SCORE).all():
        return scores, centre
    shorter = LARGEST_SCORE / np.maximum(largest, LARGEST_SCORE)
    return scores * shorter, centre * shorter


def _strengths(rows: CentredRows, found: Spectrum, floor: float, onto: Array | None, signal_to_noise: Array) -> Array:
    """t (k, g) at which the prior variance of a row's score is that many times the noise variance."""
    spread = floor * found.values.sum(axis=1)
    if onto is not None:
        weight = 1.0 if found.dual else found.values[:, :, None]
        spread = spread + (weight * np.square(onto)).sum(axis=(1, 2))
    per_row = spread / np.maximum(rows.free, 1.0)
    return signal_to_noise[None] / np.where(per_row > 0.0, per_row, 1.0)[:, None]
