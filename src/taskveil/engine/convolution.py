"""Convolution and pooling that stay fast when every client has its own weights.

A library convolution batched over clients becomes a grouped convolution, which is slow on CPUs and GPUs alike. Here a
3 x 3 convolution is written as patches (im2col) times a matrix, so that a batch over clients is a batched matrix
product; pooling compares shifted halves instead of a windowed reduction, whose gradient is slow.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


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
    """Layers of convolution, relu and pooling: fused kernels on a GPU, the plain functions elsewhere.

    `activations="float16"` (between the layers and after the last: see lift.py) is for the kernels; the plain functions stay in
    float32.
    """
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
