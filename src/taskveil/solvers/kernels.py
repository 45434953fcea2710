"""Compiled loops over the rows of a range of tasks. Imported only when first used: compiling needs Numba.

Every kernel reads each row of X once from memory: the score and the gradient of a row are formed while it is
in cache. Sums are accumulated in double precision whatever the type of X. `fastmath` allows reordered sums
(needed to vectorise a dot product) but neither assumes finite input nor drops NaN.
"""

# ruff: noqa: PLR0917  (compiled loops take their arrays one by one)

from __future__ import annotations

import math

import numpy as np
from numba import njit

FAST = {"reassoc", "contract", "nsz", "arcp"}
SQUARED = 0  # the codes are Loss.kernel
LARGE = 1e200


@njit(inline="always")
def value_and_slope(code, s, y):  # pragma: no cover - compiled
    """(a, f, slope) with loss = a + log f: factors are multiplied over rows, so that one log serves many."""
    if code == SQUARED:
        return 0.5 * (s - y) * (s - y), 1.0, s - y
    margin = y * s
    e = math.exp(-abs(margin))
    inverse = 1.0 / (1.0 + e)
    if margin > 0.0:
        return 0.0, 1.0 + e, -y * e * inverse
    return -margin, 1.0 + e, -y * inverse


@njit(inline="always")
def _add_row(code, weight, s, y, value_sum, pending):  # pragma: no cover - compiled
    """(weighted slope, sum of values, pending factor) after one more row."""
    if weight == 0.0:
        return 0.0, value_sum, pending
    value, factor, slope = value_and_slope(code, s, y)
    value_sum += weight * value
    if code != SQUARED:
        if weight == 1.0:
            pending *= factor
            if pending > LARGE:
                value_sum += math.log(pending)
                pending = 1.0
        else:
            value_sum += weight * math.log(factor)
    return weight * slope, value_sum, pending


@njit(nogil=True, cache=True, fastmath=FAST)
def single_output_gradients(
    X, y, weights, offsets, W, b, code, first, last, grad_W, grad_b, values
):  # pragma: no cover
    """Mean loss of tasks first..last-1 and its gradient; one output. `weights` is empty or one per row.

    Four rows at a time: the model and the gradient are then loaded and stored once for four.
    """
    d = X.shape[1]
    weighted = weights.size > 0
    for i in range(first, last):
        w = W[i, 0]
        g = grad_W[i, 0]
        c = b[i, 0]
        for j in range(d):
            g[j] = 0.0
        total, slope_sum, value_sum, pending = 0.0, 0.0, 0.0, 1.0
        row, end = offsets[i], offsets[i + 1]
        while row + 4 <= end:
            s0, s1, s2, s3 = 0.0, 0.0, 0.0, 0.0
            for j in range(d):
                s0 += X[row, j] * w[j]
                s1 += X[row + 1, j] * w[j]
                s2 += X[row + 2, j] * w[j]
                s3 += X[row + 3, j] * w[j]
            w0, w1, w2, w3 = 1.0, 1.0, 1.0, 1.0
            if weighted:
                w0, w1, w2, w3 = weights[row], weights[row + 1], weights[row + 2], weights[row + 3]
            u0, value_sum, pending = _add_row(code, w0, s0 + c, y[row, 0], value_sum, pending)
            u1, value_sum, pending = _add_row(code, w1, s1 + c, y[row + 1, 0], value_sum, pending)
            u2, value_sum, pending = _add_row(code, w2, s2 + c, y[row + 2, 0], value_sum, pending)
            u3, value_sum, pending = _add_row(code, w3, s3 + c, y[row + 3, 0], value_sum, pending)
            total += w0 + w1 + w2 + w3
            slope_sum += u0 + u1 + u2 + u3
            for j in range(d):
                g[j] += u0 * X[row, j] + u1 * X[row + 1, j] + u2 * X[row + 2, j] + u3 * X[row + 3, j]
            row += 4
        while row < end:
            s0 = 0.0
            for j in range(d):
                s0 += X[row, j] * w[j]
            w0 = weights[row] if weighted else 1.0
            u0, value_sum, pending = _add_row(code, w0, s0 + c, y[row, 0], value_sum, pending)
            total += w0
            slope_sum += u0
            for j in range(d):
                g[j] += u0 * X[row, j]
            row += 1
        scale = 1.0 / total if total > 0.0 else 0.0
        for j in range(d):
            g[j] *= scale
        grad_b[i, 0] = slope_sum * scale
        values[i] = (value_sum + math.log(pending)) * scale


@njit(nogil=True, cache=True, fastmath=FAST)
def gradients(X, y, weights, offsets, W, b, code, first, last, grad_W, grad_b, values):  # pragma: no cover
    """The same for several outputs; `values` sums over them."""
    d, r = X.shape[1], W.shape[1]
    weighted = weights.size > 0
    pending = np.empty(r)
    for i in range(first, last):
        for o in range(r):
            pending[o] = 1.0
            grad_b[i, o] = 0.0
            for j in range(d):
                grad_W[i, o, j] = 0.0
        total, value_sum = 0.0, 0.0
        for row in range(offsets[i], offsets[i + 1]):
            weight = weights[row] if weighted else 1.0
            total += weight
            for o in range(r):
                w = W[i, o]
                g = grad_W[i, o]
                s = 0.0
                for j in range(d):
                    s += X[row, j] * w[j]
                u, value_sum, pending[o] = _add_row(
                    code, weight, s + b[i, o], y[row, o], value_sum, pending[o]
                )
                grad_b[i, o] += u
                for j in range(d):
                    g[j] += u * X[row, j]
        scale = 1.0 / total if total > 0.0 else 0.0
        for o in range(r):
            value_sum += math.log(pending[o])
            grad_b[i, o] *= scale
            for j in range(d):
                grad_W[i, o, j] *= scale
        values[i] = value_sum * scale


@njit(nogil=True, cache=True, fastmath=FAST)
def column_means(X, y, weights, offsets, first, last, mean_x, mean_y, totals):  # pragma: no cover
    """Weighted means of the columns of X and y, and the sum of weights, per task."""
    d, r = X.shape[1], y.shape[1]
    weighted = weights.size > 0
    for i in range(first, last):
        for j in range(d):
            mean_x[i, j] = 0.0
        for o in range(r):
            mean_y[i, o] = 0.0
        total = 0.0
        for row in range(offsets[i], offsets[i + 1]):
            weight = weights[row] if weighted else 1.0
            total += weight
            for j in range(d):
                mean_x[i, j] += weight * X[row, j]
            for o in range(r):
                mean_y[i, o] += weight * y[row, o]
        scale = 1.0 / total if total > 0.0 else 0.0
        for j in range(d):
            mean_x[i, j] *= scale
        for o in range(r):
            mean_y[i, o] *= scale
        totals[i] = total


@njit(nogil=True, cache=True, fastmath=FAST)
def scores(X, offsets, W, b, first, last, out):  # pragma: no cover
    """x'w + b of every row of tasks first..last-1, for every output."""
    d, r = X.shape[1], W.shape[1]
    for i in range(first, last):
        for row in range(offsets[i], offsets[i + 1]):
            for o in range(r):
                w = W[i, o]
                s = 0.0
                for j in range(d):
                    s += X[row, j] * w[j]
                out[row, o] = s + b[i, o]
