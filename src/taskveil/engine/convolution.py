"""Convolution and pooling that stay fast when every client has its own weights.

A library convolution batched over clients becomes a grouped convolution, which is slow on CPUs and GPUs alike. Here a
3 x 3 convolution is written as patches (im2col) times a matrix, so that a batch over clients is a batched matrix
product; pooling compares shifted halves instead of a windowed reduction, whose gradient is slow.

On a CPU convolution, relu and pooling are one operation with a gradient of its own (`convolve_and_halve`). Its images are
(h, w, n, c): shifts and windows lie in the leading axes, so that whatever is copied or compared is long and contiguous. XLA
computes what is cheap once more for every reader, here up to nine times; a sum or a maximum over an axis is computed once:
that is why the pooled values and the gradient of the images are made by one.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from taskveil.engine.pooling import pool

FEWEST_IMAGES = 4  # of a step: with fewer, what lies next to each other is short


def patches(images: Any, side: int = 3) -> Any:
    """Zero-padded neighbourhoods: (n, h, w, c) -> (n, h, w, side * side * c)."""
    n, height, width, channels = images.shape
    pad = side // 2
    padded = jnp.pad(images, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    shifted = [padded[:, i : i + height, j : j + width] for i in range(side) for j in range(side)]
    return jnp.concatenate(shifted, axis=-1) if channels else padded


def convolve(images: Any, weights: Any, bias: Any, side: int = 3) -> Any:
    """Same-size convolution: weights (side * side * c_in, c_out), bias (c_out,)."""
    n, height, width, _ = images.shape
    columns = patches(images, side)
    out = columns.reshape(n * height * width, -1) @ weights
    return out.reshape(n, height, width, -1) + bias


def halve(images: Any) -> Any:
    """2 x 2 maximum pooling of (n, h, w, c) with even h and w."""
    n, height, width, channels = images.shape
    rows = images.reshape(n, height // 2, 2, width // 2, 2 * channels)
    taller = _larger(rows[:, :, 0], rows[:, :, 1])
    return _larger(taller[..., :channels], taller[..., channels:])


def _larger(a: Any, b: Any) -> Any:
    """The maximum; of equal ones the first gets the gradient, which `jnp.maximum` would share out."""
    return jnp.where(a >= b, a, b)


def convolution_layers(images: Any, layers: list[Any], activations: str = "float32") -> Any:
    """Layers of convolution, relu and pooling: fused kernels on a GPU, `convolve_and_halve` on a CPU, else the plain functions.

    `activations="float16"` (between the layers and after the last: see lift.py) is for the kernels; all else stays in float32.
    """
    if jax.default_backend() == "cpu" and images.shape[0] >= FEWEST_IMAGES:
        turned = images.transpose(1, 2, 0, 3)
        for layer in layers:
            turned = convolve_and_halve(turned, layer["weights"], layer["bias"])
        return turned.transpose(2, 0, 1, 3)
    if jax.default_backend() == "gpu":
        from taskveil.engine import fused_convolution as fused

        sizes = [images.shape[-1], *(layer["weights"].shape[1] for layer in layers)]
        if all(fused.fits(a, b) for a, b in zip(sizes, sizes[1:])):
            for layer in layers:
                images = fused.convolve_and_halve(images, layer["weights"], layer["bias"], jnp.dtype(activations))
            return images
    for layer in layers:
        images = halve(jax.nn.relu(convolve(images, layer["weights"], layer["bias"])))
    return images


@jax.custom_vjp
def convolve_and_halve(images: Any, weights: Any, bias: Any) -> Any:
    """halve(relu(convolve(images, weights, bias))) of (h, w, n, c) with even h and w, ties included."""
    return _forward(images, weights, bias)[0]


def _forward(images: Any, weights: Any, bias: Any) -> tuple[Any, Any]:
    height, width, n, channels = images.shape
    columns = _columns(images)
    scores = _dot(columns, jnp.concatenate([weights, bias[None]]), int(channels > 1), 0)
    scores = scores.reshape(height // 2, 2, width // 2, 2, -1)
    out = jnp.maximum(jnp.max(scores, axis=(1, 3)), 0.0)
    return out.reshape(height // 2, width // 2, n, -1), (columns, weights, scores)


def _columns(images: Any) -> Any:
    """Neighbourhoods, and a one for the bias: (h w n, 9 c + 1), or (10, h w n) where images have one channel."""
    height, width, _, channels = images.shape
    one = channels == 1
    flat = images[..., 0] if one else images
    padded = jnp.pad(flat, ((1, 1), (1, 1), *[(0, 0)] * (flat.ndim - 2)))
    shifted = [
        padded[i : i + height, j : j + width].reshape((1, -1) if one else (-1, channels)) for i in range(3) for j in range(3)
    ]
    return jnp.concatenate([*shifted, jnp.ones_like(shifted[0] if one else shifted[0][:, :1])], axis=0 if one else 1)


def _dot(a: Any, b: Any, along_a: int, along_b: int) -> Any:
    return jax.lax.dot_general(a, b, (((along_a,), (along_b,)), ((), ())))


def _backward(saved: tuple[Any, Any, Any], gradient: Any) -> tuple[Any, Any, Any]:
    columns, weights, scores = saved
    high, wide, n, outputs = gradient.shape
    channels = weights.shape[0] // 9
    _, winner = pool(*(scores[:, dy, :, dx] for dy in (0, 1) for dx in (0, 1)))
    corner = jnp.arange(4).reshape(1, 2, 1, 2, 1)
    back = jnp.where(winner[:, None, :, None] == corner, gradient.reshape(high, 1, wide, 1, -1), 0.0).reshape(-1, outputs)
    both = _dot(columns, back, int(channels == 1), 0)
    around = _dot(back, weights, 1, 1).reshape(2 * high, 2 * wide, n, 9, channels)
    rows = [sum(_moved(around[:, :, :, 3 * i + j], 1 - i, 1 - j) for j in range(3)) for i in range(3)]
    return jnp.sum(jnp.stack(rows), axis=0), both[:-1], both[-1]


def _moved(images: Any, up: int, left: int) -> Any:
    """Pixels one further up or down, left or right; zeros come in."""
    return jax.lax.pad(images, jnp.zeros((), images.dtype), [(-up, up, 0), (-left, left, 0), (0, 0, 0), (0, 0, 0)])


convolve_and_halve.defvjp(_forward, _backward)
