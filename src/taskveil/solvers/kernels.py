"""Compiled loops over the rows of a range of tasks. Imported only when first used: compiling needs Numba.

Every kernel reads each row of X once from memory: the score and the gradient of a row are formed while it is
in cache. Sums are accumulated in double precision whatever the type of X. `fastmath` allows reordered sums
(needed to vectorise a dot product) but neither assumes finite input nor drops NaN.

A loop that sums stores nothing but what it updates in place. The compiler guards a vectorised loop that stores by a look at
addresses, and where arrays lie close takes a scalar loop, whose sums have another order: a task's last bits would hang on where
its arrays lie. For what is updated in place the guard asks for a true overlap, which there never is.

A compiled function that others call is put into them whole (`forceinline`). A call would be bound, by name, to whichever copy the
process loaded first: its own library's where it was just compiled, the caller's where the caller came from the cache on disk.
These were optimised apart, and the first process on a machine would differ from the next in the last bits.
"""

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
    if code == SQUARED:  # the shortest way first: the next row waits for it
        slope = weight * (s - y)
        return slope, value_sum + 0.5 * slope * (s - y), pending
    if weight == 0.0:
        return 0.0, value_sum, pending
    value, factor, slope = value_and_slope(code, s, y)
    value_sum += weight * value
    if weight == 1.0:
        pending *= factor
        if pending > LARGE:
            value_sum += math.log(pending)
            pending = 1.0
    else:
        value_sum += weight * math.log(factor)
    return weight * slope, value_sum, pending


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def task_pass(X, y, weights, start, end, w, c, code, g):  # pragma: no cover
    """(sum of weights, of slopes, of values) over one task's rows; `g` becomes the sum of slope * row.

    Two rows go into the gradient while the second of the next two comes from memory, so that the one stream the processor
    fetches ahead hardly waits for arithmetic; reading rows side by side was up to three times slower.
    """
    d = X.shape[1]
    weighted = weights.size > 0
    for j in range(d):
        g[j] = 0.0
    total, slope_sum, value_sum, pending = 0.0, 0.0, 0.0, 1.0
    pairs = start + (end - start) % 2  # the first row by itself where their number is odd
    s0, s1 = 0.0, 0.0
    for row in range(start, min(pairs + 2, end)):
        s0, s1 = s1, 0.0
        for j in range(d):
            s1 += X[row, j] * w[j]
        if row < pairs:
            w0 = weights[row] if weighted else 1.0
            u0, value_sum, pending = _add_row(code, w0, s1 + c, y[row, 0], value_sum, pending)
            total += w0
            slope_sum += u0
            for j in range(d):
                g[j] = u0 * X[row, j]
    for row in range(pairs, end, 2):
        w0, w1 = (weights[row], weights[row + 1]) if weighted else (1.0, 1.0)
        u0, value_sum, pending = _add_row(code, w0, s0 + c, y[row, 0], value_sum, pending)
        u1, value_sum, pending = _add_row(code, w1, s1 + c, y[row + 1, 0], value_sum, pending)
        total += w0 + w1
        slope_sum += u0 + u1
        s0, s1 = 0.0, 0.0
        if row + 2 < end:
            for j in range(d):
                s0 += X[row + 2, j] * w[j]
            for j in range(d):
                g[j] += u0 * X[row, j] + u1 * X[row + 1, j]
                s1 += X[row + 3, j] * w[j]
        else:
            for j in range(d):
                g[j] += u0 * X[row, j] + u1 * X[row + 1, j]
    return total, slope_sum, value_sum + math.log(pending)


@njit(nogil=True, cache=True, fastmath=FAST)
def single_output_gradients(X, y, weights, offsets, W, b, code, first, last, grad_W, grad_b, values):  # pragma: no cover
    """Mean loss of tasks first..last-1 and its gradient; one output. `weights` is empty or one per row."""
    d = X.shape[1]
    for i in range(first, last):
        g = grad_W[i, 0]
        total, slopes, value = task_pass(X, y, weights, offsets[i], offsets[i + 1], W[i, 0], b[i, 0], code, g)
        scale = 1.0 / total if total > 0.0 else 0.0
        for j in range(d):
            g[j] *= scale
        grad_b[i, 0] = slopes * scale
        values[i] = value * scale


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
                u, value_sum, pending[o] = _add_row(code, weight, s + b[i, o], y[row, o], value_sum, pending[o])
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
