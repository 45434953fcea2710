"""How the upper triangle of a task's matrix is packed: see kernels_curvature.py. Apart, so that sizes need no Numba."""

from __future__ import annotations

BAND = 4  # rows of a packed matrix that stand together


def packed_size(d: int) -> int:
    """Length of a packed d x d matrix."""
    return sum(BAND * (d - k) for k in range(0, d, BAND))
