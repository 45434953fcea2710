"""l2,1 norm, the sum over features of the l2 norm of that feature's weights in all tasks: shared feature
selection.

The proximal map shrinks each row of W (Liu, Ji & Ye 2009). MP-MTL Alg. 3, steps 6-8, reads the factors from
the diagonal of WW'; the paper takes |S_jj|, we lift and cut at zero as for the trace norm (without noise both
agree).
"""

from __future__ import annotations

import numpy as np

from taskveil.structures.base import Array, Structure, shrinkage


class GroupSparse(Structure):
    """g(W) = sum_j |W_j.|_2 over feature rows; the dual norm is the largest row norm."""

    name = "group_sparse"

    def value(self, W: Array) -> float:
        return float(np.sqrt(row_squares(W)).sum())

    def prox(self, W: Array, step: float | Array) -> Array:
        return shrinkage(row_squares(W), float(step))[:, None] * W

    def map_from_covariance(self, S: Array, threshold: float, lift: float = 0.0) -> Array:
        """The (d, d) diagonal map from S = WW'; `factors` gives its diagonal alone."""
        return np.diag(self.factors(np.diagonal(S), threshold, lift))

    def factors(self, diagonal: Array, threshold: float, lift: float = 0.0) -> Array:
        """The (d,) shrinkage factors from the diagonal of WW' (or a noisy version of it)."""
        return shrinkage(np.asarray(diagonal, dtype=float), threshold, lift)


def row_squares(W: Array) -> Array:
    """Squared l2 norm of each row."""
    return np.einsum("dm,dm->d", W, W)
