"""A 3 x 3 convolution, relu and 2 x 2 maximum pooling in one kernel, for accelerators.

The plain path (convolution.py) writes every 3 x 3 neighbourhood to memory before it multiplies: nine times the images, in
every local step of every client. These kernels read the neighbours where they are needed and keep them in registers:

    forward   pooled outputs, and for each of them which corner of its 2 x 2 window has the maximum
    weights   gradient of weights and bias, summed over slices of a client's pixels
    inputs    gradient of the images, four pixels of a window at a time

The gradient before pooling is never written: both backward kernels make it from the pooled one and the corner. Of equal
maxima the first has it, as in the plain path.

The matrix units want long sums. A window of outputs looks at 4 x 4 pixels; four pixels of a row lie next to each other in
memory, so a view of them, all channels, is one side of a product, and the other is the weights with zeros where a pixel meets no
tap. Images of one channel are seen whole, all 16 pixels at once.

Products are sums of products of parts (products.py). Sums, weights and gradients of weights are float32 in both modes. In the
forward pass, which decides where a gradient goes (a wrong decision moves a whole one), float32 is multiplied to its last bit, and
weights keep all their bits beside float16 activations. Gradients that travel in 16 bits are 256 times as large (lift.py:
`leave` multiplies; the gradients of weights are divided here): small ones would vanish otherwise.

Shapes: (n, h, w, c) with even h and w; c is 1 or a power of two of at least 16, the number of outputs such a power; see `fits`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from taskveil.engine.lift import lift_of
from taskveil.engine.pooling import NOWHERE, pool
from taskveil.engine.products import Launch, dot, each_tile, launch, load, matrix_sized, parts

Pair = tuple[int, int]
Meetings = list[tuple[Pair, Pair, Pair]]
CORNERS = [(0, 0), (0, 1), (1, 0), (1, 1)]
MOST_OUTPUTS, MOST_WEIGHTS = 64, 512  # of a layer, and of one of its nine taps


FORWARD = {  # activations, one channel; measured on an H200
    ("float32", True): Launch(64, 2, 7), ("float32", False): Launch(64, 4, 13),
    ("float16", True): Launch(32, 1, 14), ("float16", False): Launch(64, 4, 2, ahead=4),
}  # fmt: skip
WEIGHTS = {
    ("float32", True): Launch(16, 1, 14), ("float32", False): Launch(32, 4, 4),
    ("float16", True): Launch(64, 1, 7), ("float16", False): Launch(32, 4, 3, stages=2),
}  # fmt: skip
INPUTS = Launch(64, 4, 13)


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

    @property
    def rows(self) -> int:
        """How many rows of pixels are seen at once."""
        return 4 if self.c == 1 else 1

    def windows(self, row: Any) -> tuple[Any, ...]:
        """(image, row, column, is there one) of pooled pixels."""
        high, wide = self.h // 2, self.w // 2
        image, rest = whole(row, high * wide)
        return image, *whole(rest, wide), row < self.pooled

    def view(self, images: Any, at: tuple[Any, ...], first: Pair) -> Any:
        """(tile, rows 4 c) the pixels from (2 row + u - 1, 2 column + v - 1) on, zero outside the image."""
        image, row, column, there = (side[:, None] for side in at)
        k = jnp.arange(self.rows * 4 * self.c)[None]
        down, right = self._within(whole(k, self.c)[0])
        y, x = 2 * row + (first[0] - 1), 2 * column + (first[1] - 1)
        there = there & (y + down >= 0) & (y + down < self.h) & (x + right >= 0) & (x + right < self.w)
        index = ((image * self.h + y) * self.w + x) * self.c + k + down * ((self.w - 4) * self.c)
        return load(images, index, jnp.broadcast_to(there, index.shape))

    def _within(self, pixel: Any) -> tuple[Any, Any]:
        """Row and column of a view's pixels."""
        return (0, pixel) if self.rows == 1 else whole(pixel, 4)

    def meetings(self, moving: bool) -> Meetings:
        """(view, corner, tap of the view's first pixel); a view that is moving starts with the corner's own first column."""
        found = []
        for dy, dx in CORNERS:
            for u in [0] if self.c == 1 else range(dy, dy + 3):
                v = dx if moving and self.c > 1 else 0
                found.append(((u, v), (dy, dx), (u - dy, v - dx)))
        return found

    def views(self, images: Any, row: Any, meetings: Meetings, most: int) -> Iterator[tuple[Any, list[tuple[Pair, Pair]]]]:
        """Pixels of one view after the other and the (corner, tap) they meet; up to so many are loaded ahead."""
        at = self.windows(row)
        pairs = {view: [(corner, tap) for first, corner, tap in meetings if first == view] for view, _, _ in sorted(meetings)}
        return ahead(((functools.partial(self.view, images, at, view), met) for view, met in pairs.items()), most)

    def weights(self, weights: Any, tap: Pair) -> Any:
        """(rows 4 c, o) what the pixels of a view are multiplied with, by the tap of the first; zero where there is none."""
        pixel, channel = whole(jnp.arange(self.rows * 4 * self.c)[:, None], self.c)
        down, right = self._within(pixel)
        a, b = tap[0] + down, tap[1] + right
        there = (a >= 0) & (a < 3) & (b >= 0) & (b < 3)
        index = ((3 * a + b) * self.c + channel) * self.o + jnp.arange(self.o)[None]
        return load(weights, index, jnp.broadcast_to(there, index.shape))

    def outputs(self, row: Any) -> tuple[Any, Any]:
        """Places of (tile, o) pooled values, and which there are."""
        index = row[:, None] * self.o + jnp.arange(self.o)[None]
        return index, jnp.broadcast_to((row < self.pooled)[:, None], index.shape)


def ahead(loads: Iterable[tuple[Callable[[], Any], Any]], most: int) -> Iterator[tuple[Any, Any]]:
    """(what a call loads, what came with it); calls are made up to so many before their turn."""
    loaded: list[tuple[Any, Any]] = []
    for call, what in loads:
        loaded.append((call(), what))
        if len(loaded) > most:
            yield loaded.pop(0)
    yield from loaded


def whole(a: Any, b: int) -> tuple[Any, Any]:
    """Quotient and rest of numbers that are not negative: what `//` does beyond that is slow here."""
    return jax.lax.div(a, jnp.int32(b)), jax.lax.rem(a, jnp.int32(b))


def fits(channels: int, outputs: int) -> bool:
    """Whether the kernels can do such a layer: its weights, in parts, lie beside views in the memory of one processor."""
    sized = (channels == 1 or matrix_sized(channels)) and matrix_sized(outputs)
    return sized and outputs <= MOST_OUTPUTS and channels * outputs <= MOST_WEIGHTS


# ------------------------------------------------------------------ kernels


def forward_kernel(images: Any, weights: Any, bias: Any, out: Any, code: Any, *, layer: Layer, how: Launch, dtype: Any) -> None:
    meetings, cut = layer.meetings(moving=False), functools.partial(parts, dtype=dtype, exact=True)
    taps = {tap: cut(layer.weights(weights, tap)) for _, _, tap in meetings}
    shift = load(bias, jnp.arange(layer.o))[None]

    def tile(row: Any, _: Any) -> tuple[()]:
        scores: dict[Pair, Any] = {}
        for pixels, met in layer.views(images, row, meetings, how.ahead):
            view = cut(pixels)
            for corner, tap in met:
                part = dot(view, taps[tap])
                scores[corner] = scores[corner] + part if corner in scores else part
        best, winner = pool(*(scores[corner] + shift for corner in CORNERS))
        index, there = layer.outputs(row)
        triton.store(out.at[index], best.astype(out.dtype), mask=there)
        triton.store(code.at[index], winner.astype(jnp.int8), mask=there)
        return ()

    each_tile(layer.pooled, how, tile, ())


def unpooled(gradient: Any, winner: Any, corner: Any) -> Any:
    """The gradient before pooling and relu at a corner, from that of the pooled outputs."""
    return jnp.where(winner == corner, gradient, jnp.zeros_like(gradient))


def weights_kernel(images: Any, gradient: Any, code: Any, dw: Any, db: Any, *, layer: Layer, how: Launch, dtype: Any) -> None:
    """One slice's sum of the gradients of bias and weights: by tap, or by pixel at every corner where all are seen at once."""
    part, meetings, cut = pl.program_id(0), layer.meetings(moving=True), functools.partial(parts, dtype=dtype)
    taps, wide = list(dict.fromkeys(tap for _, _, tap in meetings)), layer.rows * 4 * layer.c

    def add(row: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
        sums, (index, there) = dict(zip(taps, carry[0])), layer.outputs(row)
        g, winner = load(gradient, index, there), load(code, index, there).astype(jnp.int32)
        dz = {corner: cut(unpooled(g, winner, k)) for k, corner in enumerate(CORNERS)}
        for pixels, met in layer.views(images, row, meetings, how.ahead):
            view = cut(pixels)
            for corner, tap in met:
                sums[tap] = sums[tap] + dot(view, dz[corner], turn_a=True)
        return tuple(sums.values()), carry[1] + jnp.where(winner < NOWHERE, g.astype(jnp.float32), 0.0)

    blank = (jnp.zeros((wide, layer.o), jnp.float32),) * len(taps), jnp.zeros((how.tile, layer.o), jnp.float32)
    sums, bias = each_tile(layer.pooled, how, add, blank)
    out, rows, used = jnp.arange(layer.o), jnp.arange(wide), wide if layer.c == 1 else 3 * layer.c
    triton.store(db.at[part * layer.o + out], jnp.sum(bias, axis=0))
    for k, total in enumerate(sums):
        index = ((part * len(taps) + k) * used + rows)[:, None] * layer.o + out[None]
        triton.store(dw.at[index], total, mask=jnp.broadcast_to((rows < used)[:, None], index.shape))


def inputs_kernel(weights: Any, gradient: Any, code: Any, out: Any, *, layer: Layer, how: Launch, dtype: Any) -> None:
    """The four pixels of a window are seen by 4 x 4 outputs, of it and of the eight windows around it: row by row of them."""
    high, wide = layer.h // 2, layer.w // 2
    right, channel = whole(jnp.arange(4 * layer.o)[None], layer.o)
    column, dx = (side - k for k, side in zip((1, 0), whole(right + 1, 2)))  # the window: -1, 0, 0, 1; its corner: 1, 0, 1, 0
    taps = [parts(_turned(layer, weights, a), dtype) for a in range(3)]

    def tile(row: Any, _: Any) -> tuple[()]:
        image, y, x, there = (side[:, None] for side in layer.windows(row))

        def row_of(down: int) -> tuple[Any, Any]:
            i = (down + 1) // 2 - 1
            inside = there & (y + i >= 0) & (y + i < high) & (x + column >= 0) & (x + column < wide)
            index = ((image * high + y + i) * wide + x + column) * layer.o + channel
            return load(gradient, index, inside), load(code, index, inside)

        sums: dict[int, Any] = {}
        for (g, winner), down in ahead(((functools.partial(row_of, down), down) for down in range(4)), how.ahead):
            dz = parts(unpooled(g, winner.astype(jnp.int32), 2 * ((down + 1) % 2) + dx), dtype)
            for py in [py for py in (0, 1) if 0 <= py + 2 - down < 3]:
                part = dot(dz, taps[py + 2 - down])
                sums[py] = sums[py] + part if py in sums else part
        for py, total in sums.items():
            index = ((image * layer.h + 2 * y + py) * layer.w + 2 * x) * layer.c + jnp.arange(2 * layer.c)[None]
            triton.store(out.at[index], total.astype(out.dtype), mask=jnp.broadcast_to(there, index.shape))
        return ()

    each_tile(layer.pooled, how, tile, ())


def _turned(layer: Layer, weights: Any, a: int) -> Any:
    """(4 o, 2 c) the weights of one row of taps, from four outputs of a row to the two pixels between them."""
    (right, out), (px, channel) = whole(jnp.arange(4 * layer.o)[:, None], layer.o), whole(jnp.arange(2 * layer.c)[None], layer.c)
    b = px + 2 - right
    return load(weights, ((3 * a + b) * layer.c + channel) * layer.o + out, (b >= 0) & (b < 3))


# ------------------------------------------------------------------ the operation


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def convolve_and_halve(images: Any, weights: Any, bias: Any, dtype: Any = jnp.float32) -> Any:
    """halve(relu(convolve(images, weights, bias))) in `dtype`; images of one channel are taken as data and get no gradient."""
    return _forward(images, weights, bias, dtype)[0]


def _forward(images: Any, weights: Any, bias: Any, dtype: Any) -> tuple[Any, Any]:
    layer, how = _layer(images, weights), FORWARD[jnp.dtype(dtype).name, images.shape[-1] == 1]
    outs = _array(layer.pooled * layer.o, dtype), _array(layer.pooled * layer.o, jnp.int8)
    kernel = functools.partial(forward_kernel, layer=layer, how=how, dtype=dtype)
    out, code = launch(kernel, how, outs, images.reshape(-1), weights.reshape(-1), bias)
    return out.reshape(layer.n, layer.h // 2, layer.w // 2, layer.o), (images, weights, code)


def _backward(dtype: Any, saved: tuple[Any, ...], gradient: Any) -> tuple[Any, Any, Any]:
    images, weights, code = saved
    layer, gradient, lift = _layer(images, weights), gradient.reshape(-1), lift_of(dtype)
    dw, db = _weights_gradient(layer, images, gradient, code, dtype)
    dx = jnp.zeros_like(images)
    if layer.c > 1:
        how, outs = INPUTS, [_array(images.size, images.dtype)]
        kernel = functools.partial(inputs_kernel, layer=layer, how=how, dtype=dtype)
        (dx,) = launch(kernel, how, outs, weights.reshape(-1), gradient, code)
    return dx.reshape(images.shape), dw.reshape(weights.shape) / lift, db / lift


def _weights_gradient(layer: Layer, images: Any, gradient: Any, code: Any, dtype: Any) -> tuple[Any, Any]:
    how, single = WEIGHTS[jnp.dtype(dtype).name, layer.c == 1], layer.c == 1
    outs = [_array(how.slices * (64 if single else 9 * layer.c) * layer.o), _array(how.slices * layer.o)]
    kernel = functools.partial(weights_kernel, layer=layer, how=how, dtype=dtype)
    dw, db = launch(kernel, how, outs, images.reshape(-1), gradient, code)
    dw, db = dw.reshape(how.slices, -1, layer.o).sum(0), db.reshape(how.slices, -1).sum(0)
    if single:  # what every pixel meets at every corner
        seen = dw.reshape(4, 4, 4, layer.o)
        dw = functools.reduce(jnp.add, (seen[k, dy : dy + 3, dx : dx + 3] for k, (dy, dx) in enumerate(CORNERS)))
    return dw, db


convolve_and_halve.defvjp(_forward, _backward)


def _layer(images: Any, weights: Any) -> Layer:
    n, h, w, c = images.shape
    return Layer(n, h, w, c, weights.shape[1])


def _array(size: int, dtype: Any = jnp.float32) -> Any:
    return jax.ShapeDtypeStruct((size,), dtype)
