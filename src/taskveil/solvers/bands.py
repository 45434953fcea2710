"""How the lower triangle of a task's matrix is packed: see kernels_step.py. Apart, so that sizes need no Numba."""

from __future__ import annotations

BAND = 4  # rows of a packed matrix that stand together


def packed_size(d: int) -> int:
    """Length of a packed d x d matrix."""
    return sum(BAND * (k + BAND) for k in range(0, d, BAND))
