"""The smaller Gram matrix of every task as Q T Q', T tridiagonal: all that any prior and strength needs, without eigenvalues.

With T a system I + t T takes as many operations as it has rows, so that a grid of twenty strengths is nothing beside the
reduction, which takes a fifth of the time of an eigendecomposition. Large matrices are decomposed after all (T diagonal): there
LAPACK's blocks win. Rows are divided by `unit`, so that squares of squares stay numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.solvers.per_task import per_task
from taskveil.solvers.ridge import CentredRows

Array = NDArray[np.floating]
LARGE = 150  # rows of a matrix


@dataclass(frozen=True)
class Reduced:
    """Rows of k tasks: X'X / unit^2, or XX' / unit^2 where rows are fewer (`dual`), as Q T Q'."""

    rows: CentredRows
    dual: bool
    unit: Array  # (k,) root of the mean square of a row's length
    spread: Array  # (k,) trace of the matrix
    diagonal: Array  # (k, p) of T
    beside: Array  # (k, p) beside the diagonal
    turns: Array  # (k, p, p) Q, or the reflectors it is the product of
    known: dict[int, tuple[Any, Any]] = field(default_factory=dict, repr=False)

    @property
    def whole(self) -> bool:
        """Whether `turns` is Q itself."""
        return self.turns.shape[1] > LARGE

    def once(self, what: Any, make: Callable[[], Any]) -> Any:
        """make(), once for each array `what`: priors share centres and directions."""
        if id(what) not in self.known:
            self.known[id(what)] = what, make()  # with the array, so that no other takes its place in memory
        return self.known[id(what)][1]

    def scores(self, directions: Array) -> Array:
        """(k, n, q) rows times directions (d, q)."""
        return (self.rows.X @ directions) / self.unit[:, None, None]

    def along(self, left: Array) -> Array:
        """(k, p) targets `left` (k, n) in the basis."""
        if self.dual:
            return self.turned(left[:, :, None])[:, :, 0]
        return self.turned((self.rows.X.transpose(0, 2, 1) @ left[:, :, None]) / self.unit[:, None, None])[:, :, 0]

    def turned(self, columns: Array) -> Array:
        """Q' columns (k, p, q)."""
        return self.turns.transpose(0, 2, 1) @ columns if self.whole else self._turned(columns, back=False)

    def models(self, steps: Array) -> Array:
        """(k, d, g) the models that steps (k, p, g) along the basis add up to."""
        v = self.turns @ steps if self.whole else self._turned(steps, back=True)
        v = self.rows.X.transpose(0, 2, 1) @ v / self.unit[:, None, None] if self.dual else v
        return v / self.unit[:, None, None]

    def _turned(self, columns: Array, back: bool) -> Array:
        from taskveil.solvers import kernels_tridiagonal

        out = np.array(columns, order="C")
        kernels_tridiagonal.turn(self.turns, out, back)
        return out


def reduced(rows: CentredRows) -> Reduced:
    X, turned = rows.X, rows.X.transpose(0, 2, 1)
    per_row = per_task("knd,knd->k", X, X) / np.maximum(rows.free, 1.0)
    unit = np.sqrt(np.where(per_row > 0.0, per_row, 1.0))
    dual = X.shape[1] < X.shape[2]
    G = X @ turned if dual else turned @ X
    G /= np.square(unit)[:, None, None]
    spread = np.einsum("kpp->k", G)
    if G.shape[1] > LARGE:
        diagonal, turns = np.linalg.eigh(G)
        return Reduced(rows, dual, unit, spread, np.maximum(diagonal, 0.0), np.zeros_like(diagonal), turns)
    from taskveil.solvers import kernels_tridiagonal

    diagonal, beside = np.zeros(G.shape[:2]), np.zeros(G.shape[:2])
    if G.shape[1]:
        kernels_tridiagonal.tridiagonalise(G, diagonal, beside)
    return Reduced(rows, dual, unit, spread, diagonal, beside, G)
