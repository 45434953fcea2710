"""A 3 x 3 convolution, relu and 2 x 2 maximum pooling in one kernel, for accelerators.

The plain path (convolution.py) writes every 3 x 3 neighbourhood to memory before it multiplies: nine times the images, in
every local step of every client. These kernels read the neighbours where they are needed and keep them in registers:

    forward   pooled outputs, and for each of them a bit for every corner of its 2 x 2 window that has the maximum
    weights   gradient of weights and bias, summed over slices of a client's pixels
    inputs    gradient of the images, four pixels of a window at a time

The gradient before pooling is never written: both backward kernels make it from the pooled one and the bits. At ties it is that
of the plain path: halves at each of its two maxima.

Products are sums of products of parts (products.py). Sums, weights and gradients of weights are float32 in both modes. In the
forward pass, which decides where a gradient goes (a wrong decision moves a whole one), float32 is multiplied to its last bit, and
weights keep all their bits beside float16 activations. A convolution of one channel is nine multiplications in float32 in either
case. Gradients that travel in 16 bits are 256 times as large (`leave` multiplies, the gradients of weights are divided): small
ones would vanish otherwise.

Shapes: (n, h, w, c) with even h and w; c is 1 or a power of two of at least 16, the number of outputs such a power.
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

SHIFTS = [(u, v) for u in range(4) for v in range(4)]  # the 4 x 4 pixels that a 2 x 2 window of outputs looks at
CORNERS = [(0, 0), (0, 1), (1, 0), (1, 1)]
LIFT = 256.0  # of gradients in 16 bits; a power of two, so that nothing is rounded


@dataclass(frozen=True)
class Launch:
    """How a kernel is cut up: pixels at a time, warps of a program, programs a client's pixels are divided among."""

    tile: int
    warps: int
    slices: int = 0


FORWARD = {True: Launch(32, 1), False: Launch(64, 4)}  # one channel; many
WEIGHTS = {  # activations, one channel
    ("float32", True): Launch(16, 1, 16), ("float32", False): Launch(16, 1, 16),
    ("float16", True): Launch(16, 1, 8), ("float16", False): Launch(32, 2, 8),
}  # fmt: skip
INPUTS = Launch(64, 4)


@dataclass(frozen=True)
class Layer:
    """Sizes of one layer, and where its pixels are in flat arrays."""

    n: int
    h: int
    w: int
    c: int
    o: int

    @property
    def pooled(self) -> int:
        return self.n * (self.h // 2) * (self.w // 2)

    def windows(self, row: Any) -> tuple[Any, ...]:
        """(image, row, column, is there one) of pooled pixels."""
        high, wide = self.h // 2, self.w // 2
        rest = row % (high * wide)
        return row // (high * wide), rest // wide, rest % wide, row < self.pooled

    def neighbours(self, images: Any, at: tuple[Any, ...], u: int, v: int) -> Any:
        """(tile, c) the pixels at (2 row + u - 1, 2 column + v - 1), zero outside the image."""
        image, row, column, there = at
        y, x = 2 * row + u - 1, 2 * column + v - 1
        there = there & (y >= 0) & (y < self.h) & (x >= 0) & (x < self.w)
        index = ((image * self.h + y) * self.w + x)[:, None] * self.c + jnp.arange(self.c)[None]
        return load(images, index, jnp.broadcast_to(there[:, None], index.shape))

    def weights(self, weights: Any, tap: int) -> Any:
        """(c, o) of one of the nine taps."""
        index = (tap * self.c + jnp.arange(self.c))[:, None] * self.o + jnp.arange(self.o)[None]
        return load(weights, index)

    def outputs(self, row: Any) -> tuple[Any, Any]:
        """Places of (tile, o) pooled values, and which there are."""
        index = row[:, None] * self.o + jnp.arange(self.o)[None]
        return index, jnp.broadcast_to((row < self.pooled)[:, None], index.shape)


def fits(channels: int, outputs: int) -> bool:
    """Whether the kernels can do such a layer."""
    return (channels == 1 or matrix_sized(channels)) and matrix_sized(outputs)


def taps() -> list[tuple[int, int, tuple[int, int], int]]:
    """(u, v, corner, tap): which neighbour meets which tap at which corner of the window."""
    return [
        (u, v, (dy, dx), 3 * (u - dy) + v - dx) for u, v in SHIFTS for dy, dx in CORNERS if 0 <= u - dy < 3 and 0 <= v - dx < 3
    ]


# ------------------------------------------------------------------ kernels


def forward_kernel(images: Any, weights: Any, bias: Any, out: Any, code: Any, *, layer: Layer, tile: int, dtype: Any) -> None:
    row = pl.program_id(0) * tile + jnp.arange(tile)
    at, seen, single = layer.windows(row), {}, layer.c == 1
    w: list[Any] = [layer.weights(weights, tap) for tap in range(9)]
    if not single:
        w = [parts(one, dtype, exact=True) for one in w]
    scores: dict[tuple[int, int], Any] = {}
    for u, v, corner, tap in taps():
        if (u, v) not in seen:
            pixels = layer.neighbours(images, at, u, v)
            seen = {(u, v): pixels if single else parts(pixels, dtype, exact=True)}
        part = seen[u, v] * w[tap] if single else dot(seen[u, v], w[tap])
        scores[corner] = scores[corner] + part if corner in scores else part
    shift = load(bias, jnp.arange(layer.o))[None]
    best, corners = pool({corner: z + shift for corner, z in scores.items()})
    index, there = layer.outputs(row)
    triton.store(out.at[index], best.astype(out.dtype), mask=there)
    triton.store(code.at[index], corners.astype(jnp.int8), mask=there)


def pool(scores: dict[tuple[int, int], Any]) -> tuple[Any, Any]:
    """relu of the maximum over the window, and the bits of the corners that have it; none where relu is 0."""
    best = functools.reduce(jnp.maximum, scores.values())
    code = functools.reduce(jnp.bitwise_or, (jnp.where(z == best, bit(corner), 0) for corner, z in scores.items()))
    return jnp.maximum(best, 0.0), jnp.where(best > 0, code, 0)


def bit(*corners: tuple[int, int]) -> int:
    return sum(1 << (2 * dy + dx) for dy, dx in corners)


def unpooled(layer: Layer, gradient: Any, code: Any, row: Any, there: Any, dtype: Any) -> tuple[dict[tuple[int, int], Any], Any]:
    """Corner -> (tile, o) gradient before pooling and relu, from that of the pooled outputs; and their sum over the corners.

    The plain path takes the larger of each column, then of the two columns: a tie gives each side half.
    """
    index = row[:, None] * layer.o + jnp.arange(layer.o)[None]
    there = jnp.broadcast_to(there[:, None], index.shape)
    g, bits = load(gradient, index, there).astype(dtype), load(code, index, there).astype(jnp.int32)
    zero = jnp.zeros_like(g)
    left, right = bit((0, 0), (1, 0)), bit((0, 1), (1, 1))
    column = jnp.where(((bits & left) != 0) & ((bits & right) != 0), half(g), g)
    shares = [jnp.where((bits & side) == side, half(column), column) for side in (left, right)]
    corners = {(dy, dx): jnp.where((bits & bit((dy, dx))) != 0, shares[dx], zero) for dy, dx in CORNERS}
    return corners, jnp.where(bits != 0, g, zero)


def half(g: Any) -> Any:
    return g * jnp.asarray(0.5, g.dtype)


def weights_kernel(images: Any, gradient: Any, code: Any, dw: Any, db: Any, *, layer: Layer, how: Launch, dtype: Any) -> None:
    """One slice's sum of the gradients of weights and bias."""
    part, single = pl.program_id(0), layer.c == 1
    per = -(-layer.pooled // how.slices)

    def add(t: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        sums, bias = list(carry[0]), carry[1]
        local = t * how.tile + jnp.arange(how.tile)
        row = jnp.where(local < per, part * per + local, layer.pooled)
        at, seen = layer.windows(row), {}
        dz, total = unpooled(layer, gradient, code, row, at[-1], jnp.float32 if single else dtype)
        if not single:
            dz = {corner: parts(z, dtype) for corner, z in dz.items()}
        for u, v, corner, tap in taps():
            if (u, v) not in seen:
                pixels = layer.neighbours(images, at, u, v)
                seen = {(u, v): pixels if single else parts(pixels, dtype)}
            more = seen[u, v] * dz[corner] if single else dot(seen[u, v], dz[corner], turn_a=True)
            sums[tap] = sums[tap] + more
        return tuple(sums), bias + total.astype(jnp.float32)

    blank = jnp.zeros((how.tile, layer.o), jnp.float32)
    zero = blank if single else jnp.zeros((layer.c, layer.o), jnp.float32)
    sums, bias = jax.lax.fori_loop(0, -(-per // how.tile), add, ((zero,) * 9, blank))
    out = jnp.arange(layer.o)
    triton.store(db.at[part * layer.o + out], jnp.sum(bias, axis=0))
    for tap in range(9):
        rows = (part * 9 + tap) * layer.c + jnp.arange(layer.c)
        total = jnp.sum(sums[tap], axis=0)[None] if single else sums[tap]
        triton.store(dw.at[rows[:, None] * layer.o + out[None]], total)


def inputs_kernel(weights: Any, gradient: Any, code: Any, out: Any, *, layer: Layer, tile: int, dtype: Any) -> None:
    """The four pixels of a window are seen by outputs in it and in the eight windows around it."""
    row = pl.program_id(0) * tile + jnp.arange(tile)
    image, y, x, there = layer.windows(row)
    high, wide = layer.h // 2, layer.w // 2
    w = [parts(layer.weights(weights, tap), dtype) for tap in range(9)]
    pixels: dict[tuple[int, int], Any] = {}
    for i, j in [(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)]:
        inside = there & (y + i >= 0) & (y + i < high) & (x + j >= 0) & (x + j < wide)
        dz, _ = unpooled(layer, gradient, code, row + i * wide + j, inside, dtype)
        for (dy, dx), (py, px) in [(c, p) for c in CORNERS for p in CORNERS]:
            a, b = py - 2 * i - dy + 1, px - 2 * j - dx + 1
            if 0 <= a < 3 and 0 <= b < 3:
                part = dot(parts(dz[dy, dx], dtype), w[3 * a + b], turn_b=True)
                pixels[py, px] = pixels[py, px] + part if (py, px) in pixels else part
    for (py, px), total in pixels.items():
        place = ((image * layer.h + 2 * y + py) * layer.w + 2 * x + px) * layer.c
        index = place[:, None] + jnp.arange(layer.c)[None]
        triton.store(out.at[index], total.astype(out.dtype), mask=jnp.broadcast_to(there[:, None], index.shape))


# ------------------------------------------------------------------ the operation


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def convolve_and_halve(images: Any, weights: Any, bias: Any, dtype: Any = jnp.float32) -> Any:
    """halve(relu(convolve(images, weights, bias))) in `dtype`; images of one channel are taken as data and get no gradient."""
    return _forward(images, weights, bias, dtype)[0]


def _forward(images: Any, weights: Any, bias: Any, dtype: Any) -> tuple[Any, Any]:
    layer, how = _layer(images, weights), FORWARD[images.shape[-1] == 1]
    outs = _array(layer.pooled * layer.o, dtype), _array(layer.pooled * layer.o, jnp.int8)
    kernel = functools.partial(forward_kernel, layer=layer, tile=how.tile, dtype=dtype)
    arrays = images.reshape(-1), weights.reshape(-1), bias
    out, code = launch(kernel, -(-layer.pooled // how.tile), outs, how.warps, *arrays)
    return out.reshape(layer.n, layer.h // 2, layer.w // 2, layer.o), (images, weights, code)


def _backward(dtype: Any, saved: tuple[Any, ...], gradient: Any) -> tuple[Any, Any, Any]:
    images, weights, code = saved
    layer, how = _layer(images, weights), WEIGHTS[jnp.dtype(dtype).name, images.shape[-1] == 1]
    outs = [_array(how.slices * 9 * layer.c * layer.o), _array(how.slices * layer.o)]
    kernel = functools.partial(weights_kernel, layer=layer, how=how, dtype=dtype)
    dw, db = launch(kernel, how.slices, outs, how.warps, images.reshape(-1), gradient.reshape(-1), code)
    dx = jnp.zeros_like(images)
    if layer.c > 1:
        kernel = functools.partial(inputs_kernel, layer=layer, tile=INPUTS.tile, dtype=dtype)
        outs = [_array(images.size, images.dtype)]
        arrays = weights.reshape(-1), gradient.reshape(-1), code
        (dx,) = launch(kernel, -(-layer.pooled // INPUTS.tile), outs, INPUTS.warps, *arrays)
    lift = 1.0 if dtype == jnp.float32 else LIFT
    dw, db = dw.reshape(how.slices, -1, layer.o).sum(0) / lift, db.reshape(how.slices, -1).sum(0) / lift
    return dx.reshape(images.shape), dw, db


convolve_and_halve.defvjp(_forward, _backward)


@jax.custom_vjp
def leave(images: Any) -> Any:
    """Out of the fused layers: float32, and gradients come back lifted where activations have 16 bits."""
    return images.astype(jnp.float32)


def _leave_forward(images: Any) -> tuple[Any, Any]:
    return leave(images), jnp.zeros((0,), images.dtype)


def _leave_backward(like: Any, gradient: Any) -> tuple[Any]:
    return ((gradient if like.dtype == jnp.float32 else gradient * LIFT).astype(like.dtype),)


leave.defvjp(_leave_forward, _leave_backward)


def _layer(images: Any, weights: Any) -> Layer:
    n, h, w, c = images.shape
    return Layer(n, h, w, c, weights.shape[1])


def _array(size: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct((size,), dtype)
