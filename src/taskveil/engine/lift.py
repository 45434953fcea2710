"""Out of layers whose activations have 16 bits: values become float32, gradients come back in 16 bits.

Small gradients would vanish in 16 bits, so that they travel `LIFT` times as large; whoever makes a gradient of weights from them
divides it by `lift_of` their type.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

LIFT = 256.0  # a power of two, so that nothing is rounded


@jax.custom_vjp
def leave(images: Any) -> Any:
    """Out of the fused layers: no less than float32, and gradients come back lifted where activations have 16 bits."""
    return images.astype(jnp.promote_types(images.dtype, jnp.float32))


def _leave_forward(images: Any) -> tuple[Any, Any]:
    return leave(images), jnp.zeros((0,), images.dtype)


def _leave_backward(like: Any, gradient: Any) -> tuple[Any]:
    return ((gradient * lift_of(like.dtype)).astype(like.dtype),)


leave.defvjp(_leave_forward, _leave_backward)


def lift_of(dtype: Any) -> float:
    """How many times too large gradients of arrays of this type are."""
    return LIFT if dtype == jnp.float16 else 1.0
