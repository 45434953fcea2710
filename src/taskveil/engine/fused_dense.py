"""A dense layer that walks its local step while gradients are on their way back, for accelerators.

A step of a dense layer is bound by memory: its weights are read for the scores, read for the gradient of its inputs, and read and
written once more, with the gradient of the weights, to move them. Here one kernel reads each piece of the weights once on the
way back, gives the gradient of the inputs and writes the piece after the step

    W <- (W - eta (x' dy - lambda A)) / (1 + eta lambda)

so that the gradient of the weights is never in memory. What `walk` returns as the gradient of its weights is *the weights after
the step*: rounds.py takes it as such. Without a kernel for the shapes at hand the same is computed in plain steps.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from taskveil.engine.products import dot, launch, load, matrix_sized, parts

TILE, WARPS = 32, 4  # rows of the weights at a time


@dataclass(frozen=True)
class Walk:
    """A local step on its way: what the parameters are drawn to (a tree like them), step size, strength of the pull."""

    target: Any
    eta: Any
    pull: Any

    def moved(self, weights: Any, gradient: Any, target: Any) -> Any:
        return (weights - self.eta * (gradient - self.pull * target)) / (1 + self.eta * self.pull)


@functools.partial(jax.custom_vjp, nondiff_argnums=(5,))
def walk(rows: Any, weights: Any, target: Any, eta: Any, pull: Any, precision: Any) -> Any:
    """rows @ weights; the "gradient" of the weights is where the step takes them."""
    return jnp.matmul(rows, weights, precision=precision)


def _forward(rows: Any, weights: Any, target: Any, eta: Any, pull: Any, precision: Any) -> tuple[Any, Any]:
    return walk(rows, weights, target, eta, pull, precision), (rows, weights, target, eta, pull)


def _backward(precision: Any, saved: tuple[Any, ...], gradient: Any) -> tuple[Any, ...]:
    rows, weights, target, eta, pull = saved
    if matrix_sized(rows.shape[0]) and matrix_sized(weights.shape[1]):
        back, moved = in_one_pass(rows, weights, target, eta, pull, gradient)
    else:
        back = jnp.matmul(gradient, weights.T, precision=precision)
        moved = Walk(target, eta, pull).moved(weights, jnp.matmul(rows.T, gradient, precision=precision), target)
    return back, moved, None, None, None


walk.defvjp(_forward, _backward)


def in_one_pass(rows: Any, weights: Any, target: Any, eta: Any, pull: Any, gradient: Any) -> tuple[Any, Any]:
    """Gradient of the rows, and the weights after the step."""
    (n, inputs), outputs = rows.shape, weights.shape[1]
    kernel = functools.partial(step_kernel, n=n, inputs=inputs, outputs=outputs)
    outs = jax.ShapeDtypeStruct((rows.size,), jnp.float32), jax.ShapeDtypeStruct((weights.size,), jnp.float32)
    flat = (a.reshape(-1) for a in (rows, weights, target, gradient))
    back, moved = launch(kernel, -(-inputs // TILE), outs, WARPS, *flat, jnp.stack([eta, pull]))
    return back.reshape(rows.shape), moved.reshape(weights.shape)


def step_kernel(
    rows: Any, weights: Any, target: Any, gradient: Any, knobs: Any, back: Any, moved: Any, *, n: int, inputs: int, outputs: int
) -> None:
    row, out, batch = pl.program_id(0) * TILE + jnp.arange(TILE), jnp.arange(outputs), jnp.arange(n)
    at, inside = row[:, None] * outputs + out[None], jnp.broadcast_to((row < inputs)[:, None], (TILE, outputs))
    seen, there = batch[:, None] * inputs + row[None], jnp.broadcast_to((row < inputs)[None], (n, TILE))
    w, a = load(weights, at, inside), load(target, at, inside)
    dy = parts(load(gradient, batch[:, None] * outputs + out[None]), jnp.float32)
    x = parts(load(rows, seen, there), jnp.float32)
    triton.store(back.at[seen], dot(dy, parts(w, jnp.float32), turn_b=True), mask=there)
    step = Walk(None, load(knobs, 0), load(knobs, 1))
    triton.store(moved.at[at], step.moved(w, dot(x, dy, turn_a=True), a), mask=inside)
