"""Compiled loops of an accelerated gradient step over a range of tasks, and of packed curvature. Needs Numba.

What curvature is for is said in solvers/centred.py. The lower triangle of a task's matrix is kept in bands of BAND rows, one row
after the other, up to the column of the band's last row: zeros right of the diagonal and half the diagonal on it, so that a band
and its transpose together give every entry once. A product reads each number once and uses it twice. Packing stands beside the
step that reads what was packed: Numba keeps compiled code by the text of its file, and would read on in an earlier order.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from taskveil.solvers.bands import BAND
from taskveil.solvers.kernels import FAST, task_pass

assert BAND == 4  # the loops below are written out for it; eight rows at a time no longer vectorise


@njit(nogil=True, cache=True)
def pack(G, scale, where, packed):  # pragma: no cover - compiled
    """packed[where[i]:] = scale[i] G[i], of which the lower triangle is read; nothing where where[i] is -1."""
    d = G.shape[1]
    for i in range(G.shape[0]):
        start = where[i]
        if start < 0:
            continue
        for k in range(0, d, BAND):
            for r in range(k, k + BAND):
                out = packed[start : start + k + BAND]
                out[:] = 0.0
                if r < d:
                    row = G[i, r]
                    for j in range(r):
                        out[j] = scale[i] * row[j]
                    out[r] = 0.5 * scale[i] * row[r]
                start += k + BAND


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def curvature_times(packed, start, d, v, out):  # pragma: no cover
    """out = A v for the matrix packed from `start` on; v and out have BAND - 1 places beyond d, those of v are 0."""
    out[:] = 0.0
    for k in range(0, d, BAND):
        width = k + BAND
        r0, r1 = packed[start : start + width], packed[start + width : start + 2 * width]
        r2, r3 = packed[start + 2 * width : start + 3 * width], packed[start + 3 * width : start + 4 * width]
        start += BAND * width
        x0, x1, x2, x3 = v[k], v[k + 1], v[k + 2], v[k + 3]
        t0 = t1 = t2 = t3 = np.float32(0.0)
        for j in range(width):
            a0, a1, a2, a3 = r0[j], r1[j], r2[j], r3[j]
            t0 += a0 * v[j]
            t1 += a1 * v[j]
            t2 += a2 * v[j]
            t3 += a3 * v[j]
            out[j] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
        out[k] += t0
        out[k + 1] += t1
        out[k + 2] += t2
        out[k + 3] += t3


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
