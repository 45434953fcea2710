"""Tasks with fewer rows than features in coordinates of their rows: X = R V' with orthonormal columns V (d, n).

Where a prior treats all directions alike, w = V u, with u learnt from the square matrix R: a loss that is solved a few times for
each output then multiplies matrices of n columns instead of d.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from taskveil.solvers.padding import Array, Stack


def in_row_space(stack: Stack) -> tuple[Stack, Array]:
    """The stack with R (k, n, n) for X, and V (k, d, n). A row that is not finite stays so, and touches no other."""
    finite = np.asarray(np.isfinite(stack.X).all(axis=2))[:, :, None]
    V, R = np.linalg.qr(np.where(finite, stack.X, 0.0).transpose(0, 2, 1))
    return replace(stack, X=np.where(finite, R.transpose(0, 2, 1), np.nan)), V
