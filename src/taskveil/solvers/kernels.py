"""Compiled loops over the rows of a range of tasks. Imported only when first used: compiling needs Numba.

Every kernel reads each row of X once from memory: the score and the gradient of a row are formed while it is
in cache. Sums are accumulated in double precision whatever the type of X. `fastmath` allows reordered sums
(needed to vectorise a dot product) but neither assumes finite input nor drops NaN.
"""

# ruff: noqa: PLR0917  (compiled loops take their arrays one by one)

from __future__ import annotations

import math

from numba import njit

FAST = {"reassoc", "contract", "nsz", "arcp"}
SQUARED = 0  # the codes are Loss.kernel


@njit(inline="always")
def _value_and_slope(code, s, y):  # pragma: no cover - compiled
    if code == SQUARED:
        return 0.5 * (s - y) * (s - y), s - y
    margin = y * s
    e = math.exp(-abs(margin))
    inverse = 1.0 / (1.0 + e)
    if margin > 0.0:
        return math.log1p(e), -y * e * inverse
    return math.log1p(e) - margin, -y * inverse


@njit(nogil=True, cache=True, fastmath=FAST)
def single_output_gradients(
    X, y, weights, offsets, W, b, code, first, last, grad_W, grad_b, values
):  # pragma: no cover
    """Mean loss of tasks first..last-1 and its gradient; one output. `weights` is empty or 0/1 per row."""
    d = X.shape[1]
    weighted = weights.size > 0
    for i in range(first, last):
        w = W[i, 0]
        g = grad_W[i, 0]
        for j in range(d):
            g[j] = 0.0
        total, slope_sum, value_sum = 0.0, 0.0, 0.0
        for row in range(offsets[i], offsets[i + 1]):
            weight = weights[row] if weighted else 1.0
            if weight == 0.0:
                continue
            s = 0.0
            for j in range(d):
                s += X[row, j] * w[j]
            value, slope = _value_and_slope(code, s + b[i, 0], y[row, 0])
            slope *= weight
            total += weight
            value_sum += weight * value
            slope_sum += slope
            for j in range(d):
                g[j] += slope * X[row, j]
        scale = 1.0 / total if total > 0.0 else 0.0
        for j in range(d):
            g[j] *= scale
        grad_b[i, 0] = slope_sum * scale
        values[i] = value_sum * scale


@njit(nogil=True, cache=True, fastmath=FAST)
def gradients(X, y, weights, offsets, W, b, code, first, last, grad_W, grad_b, values):  # pragma: no cover
    """The same for several outputs; `values` sums over them."""
    d = X.shape[1]
    r = W.shape[1]
    weighted = weights.size > 0
    for i in range(first, last):
        grad_W[i] = 0.0
        grad_b[i] = 0.0
        total, value_sum = 0.0, 0.0
        for row in range(offsets[i], offsets[i + 1]):
            weight = weights[row] if weighted else 1.0
            if weight == 0.0:
                continue
            total += weight
            for o in range(r):
                w = W[i, o]
                g = grad_W[i, o]
                s = 0.0
                for j in range(d):
                    s += X[row, j] * w[j]
                value, slope = _value_and_slope(code, s + b[i, o], y[row, o])
                slope *= weight
                value_sum += weight * value
                grad_b[i, o] += slope
                for j in range(d):
                    g[j] += slope * X[row, j]
        scale = 1.0 / total if total > 0.0 else 0.0
        grad_W[i] *= scale
        grad_b[i] *= scale
        values[i] = value_sum * scale


@njit(nogil=True, cache=True, fastmath=FAST)
def column_means(X, y, weights, offsets, first, last, mean_x, mean_y, totals):  # pragma: no cover
    """Weighted means of the columns of X and y, and the sum of weights, per task."""
    d, r = X.shape[1], y.shape[1]
    weighted = weights.size > 0
    for i in range(first, last):
        mean_x[i] = 0.0
        mean_y[i] = 0.0
        total = 0.0
        for row in range(offsets[i], offsets[i + 1]):
            weight = weights[row] if weighted else 1.0
            total += weight
            for j in range(d):
                mean_x[i, j] += weight * X[row, j]
            for o in range(r):
                mean_y[i, o] += weight * y[row, o]
        scale = 1.0 / total if total > 0.0 else 0.0
        mean_x[i] *= scale
        mean_y[i] *= scale
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
