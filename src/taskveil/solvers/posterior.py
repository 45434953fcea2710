"""Posterior means and evidence of every task under one public Gaussian prior, for all strengths at once.

    w ~ N(c, t s^2 (floor I + B B')),    B (d, q) thin

One reduction X'X = Q T Q' per task to a tridiagonal T (of XX' where rows are fewer) serves every
such prior: A = I + t floor XX' is a tridiagonal system in it, and the q directions are added by Woodbury's formula,

    S = B'X' A^-1 X B,  M = I + t S,  u = B'X' A^-1 y,    log|I + t X C X'| = log|A| + log|M|
    y'(I + t X C X')^-1 y = y' A^-1 y - t u' M^-1 u

with C = floor I + B B'; the mean is t C X'(I + t X C X')^-1 y. Strengths are given as signal-to-noise
ratios: the mean prior variance of a row's score, t trace(X C X') / rows, in units of the noise variance.

`Reduced` is the smaller Gram matrix as Q T Q': all that any prior and strength needs, without eigenvalues. With T a system I + t
T takes as many operations as it has rows, so that a grid of twenty strengths is nothing beside the reduction, which takes a fifth
of the time of an eigendecomposition. Rows are divided by `unit`, so that squares of squares stay numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.solvers.padding import CentredRows, per_task


@dataclass(frozen=True)
class Reduced:
    """Rows of k tasks: X'X / unit^2, or XX' / unit^2 where rows are fewer (`dual`), as Q T Q'."""

    rows: CentredRows
    dual: bool
    unit: Array  # (k,) root of the mean square of a row's length
    spread: Array  # (k,) trace of the matrix
    diagonal: Array  # (k, p) of T
    beside: Array  # (k, p) beside the diagonal
    turns: Array  # (k, p, p) right of the diagonal the reflectors that Q is the product of; else still the matrix itself
    products: dict[int, tuple[Any, Any]] = field(default_factory=dict, repr=False)

    def once(self, what: Any, make: Callable[[], Any]) -> Any:
        """make(), once for each array `what`: priors share centres and directions."""
        if id(what) not in self.products:
            self.products[id(what)] = what, make()  # with the array, so that no other takes its place in memory
        return self.products[id(what)][1]

    def scores(self, directions: Array) -> Array:
        """(k, n, q) rows times directions (d, q)."""
        return (self.rows.X @ directions) / self.unit[:, None, None]

    def along(self, left: Array) -> Array:
        """(k, p) targets `left` (k, n) in the basis."""
        if self.dual:
            return self.turned(left[:, :, None])[:, :, 0]
        return self.turned((self.rows.X.transpose(0, 2, 1) @ left[:, :, None]) / self.unit[:, None, None])[:, :, 0]

    def turned(self, columns: Array, back: bool = False) -> Array:
        """Q' columns (k, p, q), or Q columns where `back`."""
        from taskveil.solvers import kernels_tridiagonal

        out = np.array(columns.transpose(0, 2, 1), order="C")
        kernels_tridiagonal.turn(self.turns, out, back)
        return out.transpose(0, 2, 1)

    def times_T(self, steps: Array) -> Array:
        """T steps (k, p, g)."""
        out, beside = self.diagonal[:, :, None] * steps, self.beside[:, :-1, None]
        out[:, :-1] += beside * steps[:, 1:]
        out[:, 1:] += beside * steps[:, :-1]
        return out

    def models(self, steps: Array) -> Array:
        """(k, d, g) the models that steps (k, p, g) along the basis add up to."""
        v = self.turned(steps, back=True)
        v = self.rows.X.transpose(0, 2, 1) @ v / self.unit[:, None, None] if self.dual else v
        return v / self.unit[:, None, None]


def second_moment(rows: CentredRows) -> tuple[Array, Array]:
    """X'X / unit^2 (k, d, d), and unit (k,), the root of the mean square of a row's length."""
    unit = _unit(rows)
    return rows.X.transpose(0, 2, 1) @ rows.X / np.square(unit)[:, None, None], unit


def _products_of_rows(rows: CentredRows) -> tuple[Array, Array]:
    """XX' / unit^2 (k, n, n), and unit."""
    unit = _unit(rows)
    return rows.X @ rows.X.transpose(0, 2, 1) / np.square(unit)[:, None, None], unit


def _unit(rows: CentredRows) -> Array:
    per_row = per_task("knd,knd->k", rows.X, rows.X) / np.maximum(rows.free, 1.0)
    return np.sqrt(np.where(per_row > 0.0, per_row, 1.0))


def reduced(rows: CentredRows) -> Reduced:
    dual = rows.X.shape[1] < rows.X.shape[2]
    G, unit = _products_of_rows(rows) if dual else second_moment(rows)
    spread = np.einsum("kpp->k", G)
    diagonal, beside = np.zeros(G.shape[:2]), np.zeros(G.shape[:2])
    if G.shape[1]:
        from taskveil.solvers import kernels_tridiagonal

        kernels_tridiagonal.tridiagonalise(G, diagonal, beside)
    return Reduced(rows, dual, unit, spread, diagonal, beside, G)


def largest_eigenvalue(of: Reduced) -> Array:
    """(k,) of X'X, rounded up by a thousandth at most."""
    from taskveil.solvers import kernels_tridiagonal

    found = np.zeros(len(of.diagonal))
    if of.diagonal.shape[1]:
        kernels_tridiagonal.largest_eigenvalue(of.diagonal, of.beside, found)
    return np.asarray(found * np.square(of.unit))


Array = NDArray[np.floating]
LARGEST_SCORE = 1e120


@dataclass(frozen=True)
class Prior:
    """A public belief about a task's model: N(centre, t (floor I + directions directions'))."""

    floor: float = 1.0
    directions: Array | None = None  # (d, q)
    centre: Array | None = None  # (r, d) in units of the task's own target scale, or (m, r, d), one for each; None is zero
    log_weight: float | Array = 0.0  # or (m,), one for each task

    def of(self, tasks: NDArray[np.int64]) -> Prior:
        """For some of the tasks."""
        centre = self.centre if self.centre is None or self.centre.ndim == 2 else self.centre[tasks]
        log_weight = self.log_weight if np.ndim(self.log_weight) == 0 else np.asarray(self.log_weight)[tasks]
        return replace(self, centre=centre, log_weight=log_weight)

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
    reduced: Reduced
    prior: Prior
    centre: Array | None

    def scores(self) -> Array:
        """(k, n, g) what the posterior mean of every strength says of the rows.

        Along the basis of XX' scores are T steps, and directions are there already: rows need not be read again.
        """
        B = self.prior.directions
        if self.reduced.dual:
            along = self.prior.floor * self.reduced.times_T(self.steps)
            if B is not None:
                onto, _ = self.reduced.once(B, lambda: _onto(self.reduced, B))
                along += onto @ (onto.transpose(0, 2, 1) @ self.steps)
            scores = self.reduced.turned(along, back=True)
            return (
                scores if self.centre is None else scores + per_task("knd,kd->kn", self.reduced.rows.X, self.centre)[:, :, None]
            )
        v = self.reduced.models(self.steps)
        w = self.prior.floor * v if B is None else self.prior.floor * v + B @ (B.T @ v)
        return self.reduced.rows.X @ (w if self.centre is None else w + self.centre[:, :, None])

    def mean(self, weights: Array) -> Array:
        """(k, d) sum over strengths of weight times posterior mean, for weights (k, g)."""
        v = self.reduced.models(per_task("kg,kpg->kp", weights, self.steps)[:, :, None])[:, :, 0]
        w, B = self.prior.floor * v, self.prior.directions
        if B is not None:
            w += np.einsum("kq,dq->kd", np.einsum("kd,dq->kq", v, B), B)  # task by task: how many stand here must not show
        return w if self.centre is None else w + weights.sum(axis=1)[:, None] * self.centre


def posterior(reduced_rows: Reduced, prior: Prior, centre: Array | None, signal_to_noise: Array) -> Posterior:
    """`centre` is (k, d) or None."""
    from taskveil.solvers import kernels_tridiagonal

    centre, along, total = reduced_rows.once(centre, lambda: _targets(reduced_rows, centre))
    onto, spread = np.empty((*along.shape, 0)), prior.floor * reduced_rows.spread
    if (directions := prior.directions) is not None:
        onto, added = reduced_rows.once(directions, lambda: _onto(reduced_rows, directions))
        spread = spread + added
    per_row = spread / np.maximum(reduced_rows.rows.free, 1.0)
    t = signal_to_noise[None] / np.where(per_row > 0.0, per_row, 1.0)[:, None]
    determinant, residual = np.zeros_like(t), np.zeros_like(t)
    steps = np.empty((*along.shape, t.shape[1]))
    if along.shape[1]:
        kernels_tridiagonal.posterior(
            reduced_rows.diagonal, reduced_rows.beside, along, onto, total, t, float(prior.floor), reduced_rows.dual,
            determinant, residual, steps,
        )  # fmt: skip
    return Posterior(determinant, np.maximum(residual, 0.0), total, steps, reduced_rows, prior, centre)


def _targets(reduced_rows: Reduced, centre: Array | None) -> tuple[Array | None, Array, Array]:
    """The centre, targets around it along the basis (k, p), and the squares of these targets (k,)."""
    left, centre = _around(reduced_rows.rows, centre)
    return centre, reduced_rows.along(left), per_task("kn,kn->k", left, left)


def _onto(reduced_rows: Reduced, directions: Array) -> tuple[Array, Array]:
    """Directions along the basis (k, p, q), and what they add to the spread of rows (k,)."""
    scores = reduced_rows.scores(directions)
    columns = scores if reduced_rows.dual else np.broadcast_to(directions, (len(scores), *directions.shape))
    return np.ascontiguousarray(reduced_rows.turned(columns)), np.square(scores).sum(axis=(1, 2))


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
