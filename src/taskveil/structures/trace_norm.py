"""Trace norm |W|_* = sum of singular values: few directions explain all task models (low rank).

The proximal map soft-thresholds the singular values (Ji & Ye 2009). MP-MTL Alg. 2, steps 6-9, writes it as a
map M = U diag(max(0, 1 - threshold/sqrt(L))) U' built from the covariance WW' = U diag(L) U'; then M W is the
same thing exactly, and M is all that the tasks need to see.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from taskveil.structures.base import Array, Structure, shrinkage
from taskveil.threads import gram, small_matrix_threads, times

NOISE = 1e-6  # singular values below this part of the largest are not read from a Gram matrix
FEW = 10  # one direction in so many is few


class TraceNorm(Structure):
    """g(W) = |W|_*; the dual norm is the spectral norm."""

    name = "trace_norm"

    def value(self, W: Array) -> float:
        return float(singular_values(W).sum())

    def prox(self, W: Array, step: float | Array) -> Array:
        return shrink_singular_values(W, lambda s: np.maximum(s - step, 0.0), above=float(np.min(step)))

    def map_from_covariance(self, S: Array, threshold: float, lift: float = 0.0) -> Array:
        """The (d, d) map whose product with W is the proximal map, from S = WW' (or a noisy version of it).

        `lift` is added to every eigenvalue first: with noise of that size the map tends to the identity and
        the tasks learn alone, which keeps MP-MTL Prop. 1 for noise that is not positive semidefinite.
        """
        with small_matrix_threads(len(S)):
            L, U = _leading((S + S.T) / 2.0, threshold**2 - lift)
            return (U * shrinkage(L, threshold, lift)) @ U.T


def singular_values(W: Array) -> Array:
    """Singular values, descending."""
    with small_matrix_threads(min(W.shape)):
        return np.linalg.svd(W, compute_uv=False)


def shrink_singular_values(W: Array, shrink: Callable[[Array], Array], above: float = 0.0) -> Array:
    """U diag(shrink(s)) V', through the Gram matrix of the shorter side; `shrink` sends values up to `above` to zero.

    Eigenvalues of a d x d Gram matrix cost far less than the SVD of d x m, but square the condition number:
    singular values below 1e-8 of the largest are noise. If `shrink` keeps values that small, use the SVD.
    """
    if W.shape[0] > W.shape[1]:
        return shrink_singular_values(W.T, shrink, above).T
    with small_matrix_threads(W.shape[0]):
        L, U = _leading(gram(W.T), above**2)
        s = np.sqrt(np.maximum(L, 0.0))
        kept = shrink(s)
        if np.any(kept[s <= NOISE * s.max(initial=0.0)] > 0.0):
            U, s, V = np.linalg.svd(W, full_matrices=False)
            return (U * shrink(s)) @ V
        live = kept > 0.0
        return _keep(W, U[:, live], kept[live] / s[live])


def _leading(G: Array, bound: float) -> tuple[Array, Array]:
    """Eigenvalues of a symmetric G above `bound`, ascending, with their vectors; all of them where that is more than a few.

    Where few directions survive, and few do under a penalty that is worth having, finding only those halves the time.
    """
    from scipy.linalg import lapack

    size = float(np.linalg.norm(G))  # no eigenvalue is larger
    if NOISE**2 * size < bound < size < np.inf and FEW * _count_above(G, bound) <= len(G):
        values, vectors, count, _, failed = lapack.dsyevr(G, range="V", vl=bound, vu=2.0 * size, lower=1)
        if not failed:
            return values[:count], vectors[:, :count]
    L, U = np.linalg.eigh(G)
    return L, U


def _count_above(G: Array, bound: float) -> int:
    """How many eigenvalues exceed `bound`: the positive ones of G - bound I, by Sylvester's law of inertia from LDL'.

    A block of two rows in D (both have a negative pivot number) has one positive eigenvalue and one negative.
    """
    from scipy.linalg import lapack

    factors, pivots, _ = lapack.dsytrf(G - bound * np.eye(len(G)), lower=1, overwrite_a=1)
    single = pivots > 0
    return int((np.diagonal(factors)[single] > 0.0).sum()) + int((~single).sum()) // 2


def _keep(W: Array, U: Array, factors: Array) -> Array:
    """U diag(factors) U' W in the memory order of W; two thin products where few directions are kept."""
    X = W.T  # (m, d), contiguous for models that live as (tasks, features)
    if 2 * U.shape[1] <= U.shape[0]:
        return times(X, U * factors, U.T).T
    return times(X, (U * factors) @ U.T).T
