"""A dense layer that walks its local step while gradients are on their way back, for accelerators.

A step of a dense layer is bound by memory: its weights are read for the scores, read for the gradient of its inputs, and read
and written once more, with the gradient of the weights, to move them. Here one kernel does all that comes after the scores: it
reads a piece of the weights, makes the gradient of the inputs that meet it and that of the piece, and writes the piece after the
step

    W <- (W - eta (x' dy - lambda A)) / (1 + eta lambda)

so that the weights are read twice and the gradient of the weights is never in memory. What `walk` returns as the gradient of its
weights is *the weights after the step*: rounds.py takes it as such. Without a kernel for the shapes at hand the same is computed
in plain steps. Inputs may have 16 bits; their gradient then has 16 too, and is lifted (lift.py).
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.pallas import triton

from taskveil.engine.lift import leave, lift_of
from taskveil.engine.products import Launch, dot, each_tile, launch, load, matrix_sized, parts
from taskveil.engine.walk import Walk

STEP = {"float32": Launch(16, 2, 14, stages=2), "float16": Launch(32, 2, 7, stages=2)}  # of the rows of the weights
MOST_ROWS, MOST_OUTPUTS = 64, 256  # what a program can hold beside them


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def walk(rows: Any, weights: Any, target: Any, eta: Any, pull: Any, precision: Any) -> Any:
    """rows @ weights; the "gradient" of the weights is where the step takes them."""
    return jnp.matmul(leave(rows), weights, precision=precision)


def _forward(rows: Any, weights: Any, target: Any, eta: Any, pull: Any, precision: Any) -> tuple[Any, Any]:
    return walk(rows, weights, target, eta, pull, precision), (rows, weights, target, eta, pull)


def _backward(precision: Any, saved: tuple[Any, ...], gradient: Any) -> tuple[Any, ...]:
    rows, weights, target, eta, pull = saved
    if fits(rows.shape[0], weights.shape[1]):
        return *stepped(rows, weights, target, eta, pull, gradient), None, None, None
    _, pull_back = jax.vjp(lambda r, w: jnp.matmul(leave(r), w, precision=precision), rows, weights)
    back, dw = pull_back(gradient)
    return back, Walk(target, eta, pull).moved(weights, dw, target), None, None, None


walk.defvjp(_forward, _backward)


def fits(rows: int, outputs: int) -> bool:
    """Whether the kernel can do such a layer."""
    return matrix_sized(rows) and rows <= MOST_ROWS and matrix_sized(outputs) and outputs <= MOST_OUTPUTS


def stepped(rows: Any, weights: Any, target: Any, eta: Any, pull: Any, gradient: Any) -> tuple[Any, Any]:
    """The gradient of the rows, and the weights after the step; these to the last bit where rows have float32."""
    (n, inputs), outputs = rows.shape, weights.shape[1]
    how = STEP[jnp.dtype(rows.dtype).name]
    kernel = functools.partial(step_kernel, n=n, inputs=inputs, outputs=outputs, how=how)
    outs = [jax.ShapeDtypeStruct((rows.size,), rows.dtype), jax.ShapeDtypeStruct((weights.size,), jnp.float32)]
    back, moved = launch(kernel, how, outs, *(a.reshape(-1) for a in (rows, weights, target, gradient)), jnp.stack([eta, pull]))
    return back.reshape(rows.shape), moved.reshape(weights.shape)


def step_kernel(
    rows: Any, weights: Any, target: Any, gradient: Any, knobs: Any, back: Any, moved: Any,
    *, n: int, inputs: int, outputs: int, how: Launch,
) -> None:  # fmt: skip
    out, batch = jnp.arange(outputs), jnp.arange(n)
    step = Walk(None, load(knobs, jnp.int32(0)), load(knobs, jnp.int32(1)))
    dy, lift, exact = load(gradient, batch[:, None] * outputs + out[None]), lift_of(rows.dtype), rows.dtype == jnp.float32
    slopes = parts(dy if exact else dy * lift, rows.dtype, exact=True)

    def tile(row: Any, _: Any) -> tuple[()]:
        at, inside = row[:, None] * outputs + out[None], jnp.broadcast_to((row < inputs)[:, None], (how.tile, outputs))
        w, a = load(weights, at, inside), load(target, at, inside)  # first of all: memory is what the rest waits for
        of_rows, there = batch[:, None] * inputs + row[None], jnp.broadcast_to((row < inputs)[None], (n, how.tile))
        x = load(rows, of_rows, there)
        dx = dot(slopes[: 2 if exact else 1], parts(w, x.dtype), turn_b=True)
        triton.store(back.at[of_rows], dx.astype(x.dtype), mask=there)
        dw = dot(parts(x, x.dtype, exact=True), slopes, turn_a=True)
        triton.store(moved.at[at], step.moved(w, dw if exact else dw * (1 / lift), a), mask=inside)
        return ()

    each_tile(inputs, how, tile, ())
