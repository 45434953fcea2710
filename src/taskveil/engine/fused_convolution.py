"""A 3 x 3 convolution, relu and 2 x 2 maximum pooling in one kernel, for accelerators.

The plain path (convolution.py) writes every 3 x 3 neighbourhood to memory before it multiplies: nine times the images, in
every local step of every client. These kernels read the neighbours where they are needed and keep them in registers:

    forward   pooled outputs, and for each of them where its gradient goes: 2 bits for every corner of its 2 x 2 window
    weights   gradient of weights and bias, summed over slices of a client's pixels; writes the unpooled gradient too
    inputs    gradient of the images from the unpooled gradient

Gradients at ties are those of the plain path: halves at each of its two maxima.

Products: float32 activations are split: into three products of 10 bits in the forward pass (error about 1e-6), where they decide
which pixel a gradient goes to, into three of 8 bits, which are twice as fast, for gradients (about 5e-6); float16 activations are
multiplied as they are. Sums, weights and gradients of weights are float32 in both. A convolution of one channel is nine
multiplications in float32 in either case. Gradients that travel in 16 bits are 256 times as large (`leave` multiplies, the
gradients of weights are divided): small ones would vanish otherwise.

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

SHIFTS = [(u, v) for u in range(4) for v in range(4)]  # the 4 x 4 pixels that a 2 x 2 window of outputs looks at
CORNERS = [(0, 0), (0, 1), (1, 0), (1, 1)]
LIFT = 256.0  # of gradients in 16 bits; a power of two, so that nothing is rounded
THREE_PRODUCTS = jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3


@dataclass(frozen=True)
class Launch:
    """How a kernel is cut up: pixels at a time, warps of a program, programs a client's pixels are divided among."""

    tile: int
    warps: int
    slices: int = 0


FORWARD = {True: Launch(32, 1), False: Launch(64, 4)}  # one channel; many
WEIGHTS = {True: Launch(16, 1, 16), False: Launch(32, 2, 16)}
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

    def weights(self, weights: Any, tap: int, dtype: Any) -> Any:
        """(c, o) of one of the nine taps."""
        index = (tap * self.c + jnp.arange(self.c))[:, None] * self.o + jnp.arange(self.o)[None]
        return load(weights, index).astype(dtype)

    def outputs(self, row: Any) -> tuple[Any, Any]:
        """Places of (tile, o) pooled values, and which there are."""
        index = row[:, None] * self.o + jnp.arange(self.o)[None]
        return index, jnp.broadcast_to((row < self.pooled)[:, None], index.shape)

    def product(self, pixels: Any, other: Any) -> Any:
        """pixels @ other; of one channel without the matrix units."""
        return pixels * other if self.c == 1 else dot(pixels, other, decides=True)


def fits(channels: int, outputs: int) -> bool:
    """Whether the kernels can do such a layer."""
    return (channels == 1 or _power(channels)) and _power(outputs)


def _power(size: int) -> bool:
    return size >= 16 and size & (size - 1) == 0


def load(ref: Any, index: Any, mask: Any = None) -> Any:
    return triton.load(ref.at[index], mask=mask, other=None if mask is None else 0)


def dot(a: Any, b: Any, turn_a: bool = False, turn_b: bool = False, decides: bool = False) -> Any:
    """a @ b in float32. Products that `decide` between pixels are the most precise: a wrong decision moves a whole gradient."""
    sides = (((0 if turn_a else 1,), (1 if turn_b else 0,)), ((), ()))
    multiply = functools.partial(jax.lax.dot_general, dimension_numbers=sides, preferred_element_type=jnp.float32)
    if a.dtype != jnp.float32:
        return multiply(a, b)
    if decides:
        return multiply(a, b, precision=THREE_PRODUCTS if jax.default_backend() == "gpu" else None)
    (a, rest_of_a), (b, rest_of_b) = halves(a), halves(b)
    return multiply(a, rest_of_b) + multiply(rest_of_a, b) + multiply(a, b)


def halves(a: Any) -> tuple[Any, Any]:
    """Two numbers of 8 bits that add up to one of float32, to 17 bits and with its range."""
    first = a.astype(jnp.bfloat16)
    return first, (a - first.astype(jnp.float32)).astype(jnp.bfloat16)


def taps() -> list[tuple[int, int, tuple[int, int], int]]:
    """(u, v, corner, tap): which neighbour meets which tap at which corner of the window."""
    return [
        (u, v, (dy, dx), 3 * (u - dy) + v - dx)
        for u, v in SHIFTS
        for dy, dx in CORNERS
        if 0 <= u - dy < 3 and 0 <= v - dx < 3
    ]


# ------------------------------------------------------------------ kernels


def forward_kernel(images: Any, weights: Any, bias: Any, out: Any, code: Any, *, layer: Layer, tile: int, dtype: Any) -> None:
    row = pl.program_id(0) * tile + jnp.arange(tile)
    at, seen = layer.windows(row), {}
    dtype = jnp.float32 if layer.c == 1 else dtype
    w = [layer.weights(weights, tap, dtype) for tap in range(9)]
    scores: dict[tuple[int, int], Any] = {}
    for u, v, corner, tap in taps():
        if (u, v) not in seen:
            seen = {(u, v): layer.neighbours(images, at, u, v).astype(dtype)}
        part = layer.product(seen[u, v], w[tap])
        scores[corner] = scores[corner] + part if corner in scores else part
    shift = load(bias, jnp.arange(layer.o))[None]
    best, parts = pool({corner: jnp.maximum(z + shift, 0.0) for corner, z in scores.items()})
    index, there = layer.outputs(row)
    triton.store(out.at[index], best.astype(out.dtype), mask=there)
    triton.store(code.at[index], parts.astype(jnp.int8), mask=there)


def pool(scores: dict[tuple[int, int], Any]) -> tuple[Any, Any]:
    """The maximum over the window, and the shares of its gradient in 2 bits a corner."""
    left, left_parts = larger(scores[0, 0], scores[1, 0])
    right, right_parts = larger(scores[0, 1], scores[1, 1])
    best, sides = larger(left, right)
    code = jnp.zeros(best.shape, jnp.int32)
    for dy, dx in CORNERS:
        quarters = (left_parts, right_parts)[dx][dy] * sides[dx]
        code = code | (jnp.where(quarters == 4, 3, quarters) << bits_of((dy, dx)))
    return best, jnp.where(best > 0, code, 0)


def larger(a: Any, b: Any) -> tuple[Any, tuple[Any, Any]]:
    """The larger, and the halves of its gradient that go to each: 2 and 0, or 1 and 1 at a tie."""
    first = jnp.where(a > b, 2, jnp.where(a < b, 0, 1))
    return jnp.maximum(a, b), (first, 2 - first)


def bits_of(corner: tuple[int, int]) -> int:
    return 2 * (2 * corner[0] + corner[1])


def unpooled(layer: Layer, gradient: Any, code: Any, row: Any) -> dict[tuple[int, int], Any]:
    """Corner -> (tile, o) gradient before pooling and relu, from that of the pooled outputs."""
    index, there = layer.outputs(row)
    g = load(gradient, index, there).astype(jnp.float32)
    bits = load(code, index, there).astype(jnp.int32)
    shares = {corner: (bits >> bits_of(corner)) & 3 for corner in CORNERS}
    return {corner: jnp.where(s == 3, 1.0, 0.25 * s.astype(jnp.float32)) * g for corner, s in shares.items()}


def weights_kernel(
    images: Any, gradient: Any, code: Any, dw: Any, db: Any, *spread: Any, layer: Layer, how: Launch, dtype: Any
) -> None:
    """One slice's sum of the gradients of weights and bias; with many channels `spread` takes the unpooled gradient."""
    part, single = pl.program_id(0), layer.c == 1
    per = -(-layer.pooled // how.slices)

    def add(t: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        sums, bias = list(carry[0]), carry[1]
        local = t * how.tile + jnp.arange(how.tile)
        row = jnp.where(local < per, part * per + local, layer.pooled)
        at, seen = layer.windows(row), {}
        dz = unpooled(layer, gradient, code, row)
        bias = bias + (dz[0, 0] + dz[0, 1]) + (dz[1, 0] + dz[1, 1])
        if not single:
            dz = {corner: z.astype(dtype) for corner, z in dz.items()}
            store_spread(spread[0], layer, at, dz)
        for u, v, corner, tap in taps():
            if (u, v) not in seen:
                seen = {(u, v): layer.neighbours(images, at, u, v).astype(dz[corner].dtype)}
            more = seen[u, v] * dz[corner] if single else dot(seen[u, v], dz[corner], turn_a=True)
            sums[tap] = sums[tap] + more
        return tuple(sums), bias

    blank = jnp.zeros((how.tile, layer.o), jnp.float32)
    zero = blank if single else jnp.zeros((layer.c, layer.o), jnp.float32)
    sums, bias = jax.lax.fori_loop(0, -(-per // how.tile), add, ((zero,) * 9, blank))
    out = jnp.arange(layer.o)
    triton.store(db.at[part * layer.o + out], jnp.sum(bias, axis=0))
    for tap in range(9):
        rows = (part * 9 + tap) * layer.c + jnp.arange(layer.c)
        total = jnp.sum(sums[tap], axis=0)[None] if single else sums[tap]
        triton.store(dw.at[rows[:, None] * layer.o + out[None]], total)


def store_spread(spread: Any, layer: Layer, at: tuple[Any, ...], dz: dict[tuple[int, int], Any]) -> None:
    image, row, column, there = at
    for dy, dx in CORNERS:
        place = ((image * layer.h + 2 * row + dy) * layer.w + 2 * column + dx) * layer.o
        index = place[:, None] + jnp.arange(layer.o)[None]
        triton.store(spread.at[index], dz[dy, dx], mask=jnp.broadcast_to(there[:, None], index.shape))


def inputs_kernel(weights: Any, spread: Any, out: Any, *, layer: Layer, tile: int, dtype: Any) -> None:
    row = pl.program_id(0) * tile + jnp.arange(tile)
    inside = row < layer.n * layer.h * layer.w
    image, rest = row // (layer.h * layer.w), row % (layer.h * layer.w)
    total = jnp.zeros((tile, layer.c), jnp.float32)
    for tap in range(9):
        y, x = rest // layer.w - tap // 3 + 1, rest % layer.w - tap % 3 + 1
        there = inside & (y >= 0) & (y < layer.h) & (x >= 0) & (x < layer.w)
        index = ((image * layer.h + y) * layer.w + x)[:, None] * layer.o + jnp.arange(layer.o)[None]
        dz = load(spread, index, jnp.broadcast_to(there[:, None], index.shape))
        total = total + dot(dz, layer.weights(weights, tap, dtype), turn_b=True)
    index = row[:, None] * layer.c + jnp.arange(layer.c)[None]
    triton.store(out.at[index], total.astype(out.dtype), mask=jnp.broadcast_to(inside[:, None], index.shape))


# ------------------------------------------------------------------ the operation


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def convolve_and_halve(images: Any, weights: Any, bias: Any, dtype: Any = jnp.float32) -> Any:
    """halve(relu(convolve(images, weights, bias))) in `dtype`; images of one channel are taken as data and get no gradient."""
    return _forward(images, weights, bias, dtype)[0]


def _forward(images: Any, weights: Any, bias: Any, dtype: Any) -> tuple[Any, Any]:
    layer, how = _layer(images, weights), FORWARD[images.shape[-1] == 1]
    outs = _array(layer.pooled * layer.o, dtype), _array(layer.pooled * layer.o, jnp.int8)
    kernel = functools.partial(forward_kernel, layer=layer, tile=how.tile, dtype=dtype)
    out, code = _launch(kernel, -(-layer.pooled // how.tile), outs, how, images.reshape(-1), weights.reshape(-1), bias)
    return out.reshape(layer.n, layer.h // 2, layer.w // 2, layer.o), (images, weights, code)


def _backward(dtype: Any, saved: tuple[Any, ...], gradient: Any) -> tuple[Any, Any, Any]:
    images, weights, code = saved
    layer, how = _layer(images, weights), WEIGHTS[images.shape[-1] == 1]
    outs = [_array(how.slices * 9 * layer.c * layer.o), _array(how.slices * layer.o)]
    if layer.c > 1:
        outs.append(_array(images.size // layer.c * layer.o, dtype))
    kernel = functools.partial(weights_kernel, layer=layer, how=how, dtype=dtype)
    dw, db, *spread = _launch(kernel, how.slices, outs, how, images.reshape(-1), gradient.reshape(-1), code)
    dx = jnp.zeros_like(images)
    if layer.c > 1:
        kernel = functools.partial(inputs_kernel, layer=layer, tile=INPUTS.tile, dtype=dtype)
        pixels = layer.n * layer.h * layer.w
        outs = [_array(images.size, images.dtype)]
        (dx,) = _launch(kernel, -(-pixels // INPUTS.tile), outs, INPUTS, weights.reshape(-1), *spread)
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


def _launch(kernel: Any, programs: int, outs: Any, how: Launch, *arrays: Any) -> Any:
    on_gpu = jax.default_backend() == "gpu"  # elsewhere (tests) the kernels are interpreted
    settings = triton.CompilerParams(num_warps=how.warps, num_stages=2) if on_gpu else None
    return pl.pallas_call(kernel, (*outs,), grid=(programs,), compiler_params=settings, interpret=not on_gpu)(*arrays)
