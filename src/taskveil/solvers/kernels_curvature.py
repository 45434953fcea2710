"""Compiled loops over the packed curvature of tasks (solvers/centred.py says what it is for). Needs Numba.

The upper triangle of a task's matrix is kept in bands of BAND rows: band k holds columns k * BAND to d of its rows, one
after the other, zeros left of the diagonal and half the diagonal on it, so that a band and its transpose together give
every entry once. A product reads each number once and uses it twice.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from taskveil.solvers.bands import BAND
from taskveil.solvers.kernels import FAST

assert BAND == 4  # the loops below are written out for it; eight rows at a time no longer vectorise


@njit(nogil=True, cache=True, fastmath=FAST)
def pack(X, weights, offsets, means, where, first, last, packed, lengths):  # pragma: no cover - compiled
    """packed[where[i]:] = centred second moment of task i, divided by lengths[i]^2; lengths[i]^2 its mean diagonal."""
    d = X.shape[1]
    half = np.float32(0.5)
    for i in range(first, last):
        if where[i] < 0:
            continue
        rows = np.empty((offsets[i + 1] - offsets[i], d + BAND - 1), np.float32)
        lengths[i] = _centred_rows(X, weights, offsets[i], offsets[i + 1], means[i], rows)
        start = where[i]
        for k in range(0, d, BAND):
            width = d - k
            band = packed[start : start + BAND * width]
            _add_products(rows, k, width, band)
            for r in range(BAND):
                for j in range(min(r, width)):
                    band[r * width + j] = 0.0
                if r < width:
                    band[r * width + r] *= half
            start += BAND * width


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _centred_rows(X, weights, start, end, mean, rows):  # pragma: no cover
    """Rows minus their mean, times sqrt(share), over their common length, in single precision; returns that length."""
    d = X.shape[1]
    weighted = weights.size > 0
    total, squares = 0.0, 0.0
    for row in range(start, end):
        weight = weights[row] if weighted else 1.0
        total += weight
        for j in range(d):
            squares += weight * (X[row, j] - mean[j]) ** 2
    length = np.sqrt(squares / (total * d)) if squares > 0.0 else 1.0
    for row in range(start, end):
        weight = weights[row] if weighted else 1.0
        scale = np.sqrt(weight / total) / length if total > 0.0 else 0.0
        for j in range(d):
            rows[row - start, j] = (X[row, j] - mean[j]) * scale
        rows[row - start, d:] = 0.0
    return length


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _add_products(rows, k, width, band):  # pragma: no cover
    """band = rows[:, k:k+BAND]' rows[:, k:]."""
    band[:] = 0.0
    b0, b1, b2, b3 = band[:width], band[width : 2 * width], band[2 * width : 3 * width], band[3 * width :]
    for n in range(rows.shape[0]):
        x = rows[n, k:]
        x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
        for j in range(width):
            b0[j] += x0 * x[j]
            b1[j] += x1 * x[j]
            b2[j] += x2 * x[j]
            b3[j] += x3 * x[j]


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def curvature_times(packed, start, d, v, out):  # pragma: no cover
    """out = A v for the matrix packed from `start` on; v and out have BAND - 1 places beyond d, those of v are 0."""
    out[:] = 0.0
    for k in range(0, d, BAND):
        width = d - k
        r0, r1 = packed[start : start + width], packed[start + width : start + 2 * width]
        r2, r3 = packed[start + 2 * width : start + 3 * width], packed[start + 3 * width : start + 4 * width]
        start += BAND * width
        x, y = v[k:], out[k:]
        x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
        t0 = t1 = t2 = t3 = np.float32(0.0)
        for j in range(width):
            a0, a1, a2, a3 = r0[j], r1[j], r2[j], r3[j]
            t0 += a0 * x[j]
            t1 += a1 * x[j]
            t2 += a2 * x[j]
            t3 += a3 * x[j]
            y[j] += a0 * x0 + a1 * x1 + a2 * x2 + a3 * x3
        y[0] += t0
        y[1] += t1
        y[2] += t2
        y[3] += t3
