"""Compiled loops of an accelerated gradient step over a range of tasks. Needs Numba."""

from __future__ import annotations

import numpy as np
from numba import njit

from taskveil.solvers.bands import BAND
from taskveil.solvers.kernels import FAST, task_pass
from taskveil.solvers.kernels_curvature import curvature_times


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def extrapolate(W, before, beta, mean, z):  # pragma: no cover - compiled
    """z becomes W + beta (W - before); returns mean'z, in a loop of its own (kernels.py says why)."""
    for j in range(z.size):
        z[j] = W[j] + beta * (W[j] - before[j])
    shift = 0.0
    for j in range(z.size):
        shift += mean[j] * z[j]
    return shift


@njit(nogil=True, cache=True, fastmath=FAST)
def accelerated_step(
    X, y, weights, offsets, W, before, c, c_before, beta, mean_x, mean_y, free, steps, c_step, ridge, code,
    where, packed, lengths, anchors, slopes_there, from_rows, first, last, new, new_c,
):  # pragma: no cover - compiled  # fmt: skip
    """Extrapolation and gradient step in centred coordinates (solvers/centred.py), one output, in one pass.

    new = z - step * gradient(z) with z = W + beta (W - before), and the same for the intercepts c. The gradient comes from
    the rows, or, for a task whose curvature is packed and unless `from_rows`, from its anchor (solvers/centred.py).
    """
    d = X.shape[1]
    z, g = np.empty(d), np.empty(d)
    v, product = np.zeros(d + BAND - 1, np.float32), np.empty(d + BAND - 1, np.float32)
    for i in range(first, last):
        zc = c[i, 0] + beta * (c[i, 0] - c_before[i, 0])
        shift = extrapolate(W[i, 0], before[i, 0], beta, mean_x[i], z)
        if from_rows or where[i] < 0:
            total, slopes, _value = task_pass(X, y, weights, offsets[i], offsets[i + 1], z, zc - shift, code, g)
            scale = 1.0 / total if total > 0.0 else 0.0
            slope = slopes * scale
            for j in range(d):
                g[j] = g[j] * scale - slope * mean_x[i, j]
            if where[i] >= 0:
                anchors[i] = z
                slopes_there[i] = g
        else:
            slope = zc - mean_y[i, 0]  # centred rows sum to zero
            length = lengths[i]
            for j in range(d):
                v[j] = length * (z[j] - anchors[i, j])
            curvature_times(packed, where[i], d, v, product)
            for j in range(d):
                g[j] = slopes_there[i, j] + length * product[j]
        for j in range(d):
            new[i, 0, j] = z[j] - steps[i] * (g[j] + ridge * z[j])
        new_c[i, 0] = zc - c_step * slope if free[i, 0] else zc


@njit(nogil=True, cache=True, fastmath=FAST)
def uphill(W, before, beta, new):  # pragma: no cover
    """<z - new, new - W> with z = W + beta (W - before): positive where momentum points uphill."""
    total = 0.0
    for k in range(W.size):
        z = W[k] + beta * (W[k] - before[k])
        total += (z - new[k]) * (new[k] - W[k])
    return total
