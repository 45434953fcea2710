"""l1,2 norm in the sense of MP-MTL Remark 4: the sum over tasks of the l2 norm of that task's column.

It singles out whole tasks that differ from the rest (robust multi-task learning). Other authors write l2,1 of
the transpose, or l1,2 for different sums; the remark's words "sum of the l2 norm of column vectors" decide
here. With several outputs a column is one task with all its outputs.
"""

from __future__ import annotations

import numpy as np

from taskveil.structures.base import Array, Structure


class L12(Structure):
    """g(W) = sum_i |w_i|_2 over tasks; the dual norm is the largest column norm."""

    name = "l12"
    column = "task"

    def value(self, W: Array) -> float:
        return float(np.sqrt(column_squares(W)).sum())

    def prox(self, W: Array, step: float | Array) -> Array:
        norms = np.sqrt(column_squares(W))
        return W * np.divide(norms - step, norms, out=np.zeros_like(norms), where=norms > step)


def column_squares(W: Array) -> Array:
    """Squared l2 norm of each column."""
    return np.einsum("dm,dm->m", W, W)
