"""Proximal maps of the trace and l2,1 norms, kept up to date while one task's column changes at a time.

An asynchronous server holds Z (one row per model column here, so rows are columns of the papers' d x T matrix) and needs
one row of P = prox_{mu r}(Z) at every arrival (Xie et al. 2017, eq. 7; docs/theory/asynchronous.md#server).  A full SVD each
time costs O(n d min(n, d)).  Here:

* trace norm: with s, u the singular values and right vectors of Z, P = Z U diag(max(0, 1 - mu/s)) U'.  U and s^2 are the
  eigenpairs of the Gram matrix of the *smaller* side, which a changed row alters by a rank-two (d x d) or a
  row-and-column (n x n) update; one symmetric eigenproblem of size min(n, d) and one matrix-vector product remain.
* l2,1 norm (one group per feature): the d group norms are updated from the old and the new row.

Squaring costs accuracy only for singular values far below the largest one (relative error eps (s_max/s)^2 in s^2), and
those under mu are set to zero anyway.  The updated Gram matrix drifts by rounding, so it is recomputed every
``refresh_every`` changes, which adds O(n d^2 / refresh_every) per change.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import eigh

Array = np.ndarray


class IncrementalTraceProx:
    """P = argmin_P 1/2 |P - Z|_F^2 + mu |P|_* , one row at a time."""

    def __init__(self, Z: Array, mu: float, refresh_every: int = 2000) -> None:
        self.Z = np.array(Z, dtype=np.float64)
        self.mu = float(mu)
        self.refresh_every = refresh_every
        self._feature_side = self.Z.shape[1] <= self.Z.shape[0]
        self._rank = min(self.Z.shape)
        self._basis: Array | None = None
        self._refresh()

    def replace(self, rows: Array, values: Array) -> None:
        """Put ``values`` (k, d) into the rows ``rows`` (k,) of Z."""
        rows, values = np.atleast_1d(rows), np.atleast_2d(values)
        self._changes += len(rows)
        self._basis = None
        if self._changes >= self.refresh_every:
            self.Z[rows] = values
            self._refresh()
        elif self._feature_side:
            old = self.Z[rows]
            self._gram += values.T @ values - old.T @ old
            self.Z[rows] = values
        else:
            self.Z[rows] = values
            block = self.Z @ values.T  # (n, k): the changed columns of Z Z'
            self._gram[:, rows] = block
            self._gram[rows, :] = block.T

    def rows(self, rows: Array) -> Array:
        """The rows ``rows`` of the current P."""
        rows = np.atleast_1d(rows)
        basis, weights = self._eigen()
        if self._feature_side:
            return ((self.Z[rows] @ basis) * weights) @ basis.T
        return ((basis[rows] * weights) @ basis.T) @ self.Z

    def all(self) -> Array:
        """P as a whole (n, d)."""
        return self.rows(np.arange(len(self.Z)))

    def _refresh(self) -> None:
        self._gram = self.Z.T @ self.Z if self._feature_side else self.Z @ self.Z.T
        self._changes = 0
        self._basis = None

    def _eigen(self) -> tuple[Array, Array]:
        """Eigenvectors kept by the threshold and their shrinkage factors max(0, 1 - mu/s)."""
        if self._basis is None:
            values, vectors = _kept_eigenpairs(self._gram, self.mu**2, self._rank)
            s = np.sqrt(np.maximum(values, 0.0))
            keep = s > self.mu
            self._basis, self._weights = vectors[:, keep], (s[keep] - self.mu) / s[keep]
            self._rank = int(keep.sum())
        return self._basis, self._weights


class IncrementalGroupProx:
    """P = argmin_P 1/2 |P - Z|_F^2 + mu sum_j |P_:j| (one group per feature j, over all tasks), one row at a time."""

    def __init__(self, Z: Array, mu: float, refresh_every: int = 2000) -> None:
        self.Z = np.array(Z, dtype=np.float64)
        self.mu = float(mu)
        self.refresh_every = refresh_every
        self._refresh()

    def replace(self, rows: Array, values: Array) -> None:
        rows, values = np.atleast_1d(rows), np.atleast_2d(values)
        self._squares += np.square(values).sum(0) - np.square(self.Z[rows]).sum(0)
        self.Z[rows] = values
        self._changes += len(rows)
        if self._changes >= self.refresh_every:
            self._refresh()

    def rows(self, rows: Array) -> Array:
        return self.Z[np.atleast_1d(rows)] * self._weights()

    def all(self) -> Array:
        return self.Z * self._weights()

    def _refresh(self) -> None:
        self._squares = np.square(self.Z).sum(0)
        self._changes = 0

    def _weights(self) -> Array:
        norms = np.sqrt(np.maximum(self._squares, 0.0))
        return np.maximum(norms - self.mu, 0.0) / np.where(norms > 0, norms, 1.0)


def _kept_eigenpairs(gram: Array, floor: float, last_rank: int) -> tuple[Array, Array]:
    """Eigenpairs of ``gram`` with eigenvalue above ``floor`` (at least those; all of them when many are kept).

    Asking LAPACK only for the few large ones is about twice as fast while the rank is low, and slower otherwise,
    so the last rank decides.
    """
    if 8 * last_rank < len(gram) and floor > 0:
        return eigh(gram, subset_by_value=(floor, np.inf), driver="evr", check_finite=False)
    return eigh(gram, driver="evd", check_finite=False)
