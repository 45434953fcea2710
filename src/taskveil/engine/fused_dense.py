"""A dense layer that walks its local step while gradients are on their way back, for accelerators.

A step of a dense layer is bound by memory: its weights are read for the scores, read for the gradient of its inputs, and read and
written once more, with the gradient of the weights, to move them. Here one kernel makes each piece of that gradient where it is
needed and writes the piece after the step

    W <- (W - eta (x' dy - lambda A)) / (1 + eta lambda)

so that the gradient of the weights is never in memory. What `walk` returns as the gradient of its weights is *the weights after
the step*: rounds.py takes it as such. Without a kernel for the shapes at hand the same is computed in plain steps.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from taskveil.engine.products import dot, launch, load, matrix_sized, parts
from taskveil.engine.walk import Walk

TILE, WARPS = 32, 4  # rows of the weights at a time
MOST_ROWS, MOST_OUTPUTS = 64, 256  # what a program can hold beside them


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def walk(rows: Any, weights: Any, target: Any, eta: Any, pull: Any, precision: Any) -> Any:
    """rows @ weights; the "gradient" of the weights is where the step takes them."""
    return jnp.matmul(rows, weights, precision=precision)


def _forward(rows: Any, weights: Any, target: Any, eta: Any, pull: Any, precision: Any) -> tuple[Any, Any]:
    return walk(rows, weights, target, eta, pull, precision), (rows, weights, target, eta, pull)


def _backward(precision: Any, saved: tuple[Any, ...], gradient: Any) -> tuple[Any, ...]:
    rows, weights, target, eta, pull = saved
    if fits(rows.shape[0], weights.shape[1]):
        moved = moved_weights(rows, weights, target, eta, pull, gradient, exact=precision is not None)
    else:
        moved = Walk(target, eta, pull).moved(weights, jnp.matmul(rows.T, gradient, precision=precision), target)
    return jnp.matmul(gradient, weights.T, precision=precision), moved, None, None, None


walk.defvjp(_forward, _backward)


def fits(rows: int, outputs: int) -> bool:
    """Whether the kernel can do such a layer."""
    return matrix_sized(rows) and rows <= MOST_ROWS and matrix_sized(outputs) and outputs <= MOST_OUTPUTS


def moved_weights(rows: Any, weights: Any, target: Any, eta: Any, pull: Any, gradient: Any, exact: bool) -> Any:
    """The weights after the step; `exact`: their gradient to the last bit of float32, which memory leaves time for."""
    (n, inputs), outputs = rows.shape, weights.shape[1]
    kernel = functools.partial(step_kernel, n=n, inputs=inputs, outputs=outputs, exact=exact)
    flat = (a.reshape(-1) for a in (rows, weights, target, gradient))
    outs = [jax.ShapeDtypeStruct((weights.size,), jnp.float32)]
    (moved,) = launch(kernel, -(-inputs // TILE), outs, WARPS, *flat, jnp.stack([eta, pull]))
    return moved.reshape(weights.shape)


def step_kernel(
    rows: Any, weights: Any, target: Any, gradient: Any, knobs: Any, moved: Any,
    *, n: int, inputs: int, outputs: int, exact: bool,
) -> None:  # fmt: skip
    row, out, batch = pl.program_id(0) * TILE + jnp.arange(TILE), jnp.arange(outputs), jnp.arange(n)
    at, inside = row[:, None] * outputs + out[None], jnp.broadcast_to((row < inputs)[:, None], (TILE, outputs))
    x = load(rows, batch[None] * inputs + row[:, None], jnp.broadcast_to((row < inputs)[:, None], (TILE, n)))
    dy = load(gradient, batch[:, None] * outputs + out[None])
    dw = dot(parts(x, jnp.float32, exact), parts(dy, jnp.float32, exact))
    step = Walk(None, load(knobs, jnp.int32(0)), load(knobs, jnp.int32(1)))
    triton.store(moved.at[at], step.moved(load(weights, at, inside), dw, load(target, at, inside)), mask=inside)
