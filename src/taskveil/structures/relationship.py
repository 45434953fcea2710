"""Task relationship learning: (1/2) tr(W Omega^-1 W') minimised over task covariances Omega >= 0 with trace
1.

Zhang & Yeung 2010 ("A convex formulation for learning task relationships in multi-task learning"): for fixed
W the best Omega is (W'W)^(1/2) / tr (W'W)^(1/2). Putting it back gives

    min_Omega (1/2) tr(W Omega^-1 W') = (1/2) (tr (W'W)^(1/2))^2 = (1/2) |W|_*^2,

so that the joint problem is convex in W alone and has a proximal map: half the *squared* trace norm. This
identity is ours to use, not the paper's; it gives an optimum to compare their alternating steps with
(tests/support/relationship_solver.py).
"""

from __future__ import annotations

import numpy as np

from taskveil.structures.base import Array, Structure
from taskveil.structures.trace_norm import shrink_singular_values, singular_values
from taskveil.threads import small_matrix_threads


class Relationship(Structure):
    """g(W) = min_Omega (1/2) tr(W Omega^-1 W') = (1/2)|W|_*^2, columns are tasks."""

    name = "relationship"
    column = "task"

    def value(self, W: Array) -> float:
        return 0.5 * float(singular_values(W).sum()) ** 2

    def prox(self, W: Array, step: float | Array) -> Array:
        return shrink_singular_values(W, lambda s: _shrink_by_own_sum(s, float(step)))

    def covariance(self, gram: Array, ridge: float = 0.0) -> Array:
        """Omega from a tasks x tasks Gram matrix W'W (or a noisy one): its root, cut at 0, scaled to trace 1.

        `ridge` mixes in that share of the uniform covariance I/m, which keeps Omega invertible;
        a Gram matrix with no positive part gives I/m, that is, unrelated tasks of equal size.
        """
        m = gram.shape[0]
        with small_matrix_threads(m):
            L, U = np.linalg.eigh((gram + gram.T) / 2.0)
        roots = np.sqrt(np.maximum(L, 0.0))
        total = roots.sum()
        shares = roots / total if total > 0.0 else np.full(m, 1.0 / m)
        shares = (1.0 - ridge) * shares + ridge / m
        return (U * shares) @ U.T


def _shrink_by_own_sum(s: Array, step: float) -> Array:
    """argmin_x>=0 (1/2)|x - s|^2 + (step/2)(sum x)^2: soft-thresholding at step times the sum that results.

    With the k largest kept, the threshold is step S_k / (1 + k step), S_k their sum; the right k is the
    largest one whose smallest kept value exceeds its threshold.
    """
    order = np.sort(s)[::-1]
    k = np.arange(1, s.size + 1)
    thresholds = step * np.cumsum(order) / (1.0 + k * step)
    active = np.flatnonzero(order > thresholds)
    if active.size == 0:
        return np.zeros_like(s)
    return np.maximum(s - thresholds[active[-1]], 0.0)
