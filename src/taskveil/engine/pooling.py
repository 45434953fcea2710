"""Which corner of a 2 x 2 window has its maximum: the one rule of all ways of pooling, on arrays and in kernels."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

NOWHERE = 4  # the corner of a window whose relu is zero


def pool(top: Any, top_right: Any, low: Any, low_right: Any) -> tuple[Any, Any]:
    """relu of the maximum over the window, and the corner that has it: the upper of equal ones, then the left."""
    left, right = jnp.where(top >= low, top, low), jnp.where(top_right >= low_right, top_right, low_right)
    winner = jnp.where(left >= right, jnp.where(top >= low, 0, 2), jnp.where(top_right >= low_right, 1, 3))
    best = jnp.where(left >= right, left, right)
    return jnp.maximum(best, 0.0), jnp.where(best > 0, winner, NOWHERE)
