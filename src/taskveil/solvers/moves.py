"""Element-wise moves over all models (m, r, d): a few tasks at a time, which stay in the cache, on all threads.

Three NumPy operations over three thousand models read and write them from memory three times; in parts they do it once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from taskveil.threads import PARTS, SMALL, in_parts

Array = NDArray[np.floating]


def extrapolated(now: Array, before: Array, beta: float) -> Array:
    """now + beta (now - before)."""
    out = np.empty_like(now)

    def part(tasks: slice) -> None:
        z = np.subtract(now[tasks], before[tasks], out=out[tasks])
        z *= beta
        z += now[tasks]

    _in_parts(part, now)
    return out


def stepped(W: Array, gradient: Array, steps: Array) -> Array:
    """W - step * gradient with one step per task, in the memory of the gradient."""

    def part(tasks: slice) -> None:
        g = gradient[tasks]
        g *= steps[tasks, None, None]
        np.subtract(W[tasks], g, out=g)

    _in_parts(part, gradient)
    return gradient


def subtract_products(gradient: Array, slopes: Array, means: Array) -> None:
    """gradient - slope * mean in place, for slopes (m, r) and means (m, d)."""

    def part(tasks: slice) -> None:
        gradient[tasks] -= slopes[tasks, :, None] * means[tasks, None, :]

    _in_parts(part, gradient)


def counted(models: Array, units: Array, bits: int) -> Array:
    """models (m, r, d) in units (d,), powers of two, rounded to whole numbers of 2^-bits."""
    out, ones = np.empty_like(models), np.ldexp(1.0 / units, bits)

    def part(tasks: slice) -> None:
        x = np.multiply(models[tasks], ones, out=out[tasks])
        np.rint(x, out=x)
        x *= 2.0**-bits

    _in_parts(part, models)
    return out


def _in_parts(part: Callable[[slice], None], models: Array) -> None:
    if models.size < SMALL:
        part(slice(None))
    else:
        in_parts(part, len(models), PARTS)
