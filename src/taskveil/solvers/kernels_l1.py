"""Compiled part of solvers/lasso.py. Imported only when first used."""

# ruff: noqa: PLR0912  (compiled loops: one function call per task would cost a copy)

from __future__ import annotations

import math

import numpy as np
from numba import njit

from taskveil.solvers.kernels import FAST, SQUARED, value_and_slope

MOST_MODELS = 500
MOST_SWEEPS = 100
LEAST_BEND = 1e-5  # floor on the second derivative, so that a flat row still bounds the step


@njit(nogil=True, cache=True, fastmath=FAST)
def lasso(X, y, weights, offsets, strengths, code, intercept, tol, first, last, W, b):  # pragma: no cover
    """Solves tasks first..last-1 for every output, starting from W and b, in place."""
    d, r = X.shape[1], W.shape[1]
    weighted = weights.size > 0
    for i in range(first, last):
        n = 0
        for row in range(offsets[i], offsets[i + 1]):
            if not weighted or weights[row] > 0.0:
                n += 1
        if n == 0:
            for o in range(r):
                b[i, o] = 0.0
                for j in range(d):
                    W[i, o, j] = 0.0
            continue
        Z = np.empty((d, n))
        t = np.empty(n)
        for o in range(r):
            k = 0
            for row in range(offsets[i], offsets[i + 1]):
                if not weighted or weights[row] > 0.0:
                    for j in range(d):
                        Z[j, k] = X[row, j]
                    t[k] = y[row, o]
                    k += 1
            mean = np.zeros(d)
            if intercept:
                for j in range(d):
                    for k in range(n):
                        mean[j] += Z[j, k] / n
                    for k in range(n):
                        Z[j, k] -= mean[j]
            _one(Z, t, strengths[i], code, intercept, tol, mean, W[i, o], b[i : i + 1, o])


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _one(Z, y, strength, code, intercept, tol, mean, w, b):  # pragma: no cover
    d, n = Z.shape
    c = 0.0
    if intercept:
        average = 0.0
        for k in range(n):
            average += y[k]
        average /= n
        if code != SQUARED and abs(average) == 1.0:
            for j in range(d):
                w[j] = 0.0
            b[0] = math.log((n * (1.0 + average) + 1.0) / (n * (1.0 - average) + 1.0))
            return
        c = b[0]
        for j in range(d):
            c += mean[j] * w[j]
    scores, values, slopes, bends, t = np.empty(n), np.empty(n), np.empty(n), np.empty(n), np.empty(n)
    G, H, move = np.empty(d), np.empty(d), np.empty(d)
    for _ in range(MOST_MODELS):
        _score(Z, w, c, scores)
        fit, gc, hc = 0.0, 0.0, 0.0
        for k in range(n):
            value, factor, slopes[k] = value_and_slope(code, scores[k], y[k])
            values[k] = value + math.log(factor)
            bends[k] = 1.0 if code == SQUARED else max(abs(slopes[k]) * (1.0 - abs(slopes[k])), LEAST_BEND)
        for k in range(n):
            fit += values[k] / n
            gc += slopes[k] / n
            hc += bends[k] / n
        if not intercept:
            gc = 0.0
        biggest, size, inner = 0.0, 0.0, 0.0
        for j in range(d):
            g, h = 0.0, 0.0
            for k in range(n):
                g += Z[j, k] * slopes[k]
                h += Z[j, k] * Z[j, k] * bends[k]
            G[j], H[j] = g / n, h / n
            biggest = max(biggest, abs(G[j]))
            size += abs(w[j])
            inner += G[j] * w[j]
        objective = fit + strength * size
        # Duality gap.
        a = 1.0 if biggest <= strength else strength / biggest
        gap = objective + a * (inner + gc * c - fit) + abs(gc) * (1.0 + abs(c))
        if gap <= tol * objective:
            break
        move_c = _model(Z, slopes, bends, H, hc, strength, intercept, w, move, t)
        promised = gc * move_c
        for j in range(d):
            promised += G[j] * move[j] + strength * (abs(w[j] + move[j]) - abs(w[j]))
        if promised >= 0.0:
            break
        length = 1.0 if code == SQUARED else _length(scores, t, y, w, move, code, strength, objective, promised)
        for j in range(d):
            w[j] += length * move[j]
        c += length * move_c
    b[0] = c
    if intercept:
        for j in range(d):
            b[0] -= mean[j] * w[j]


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _score(Z, w, c, scores):  # pragma: no cover
    """scores = Z'w + c."""
    d, n = Z.shape
    for k in range(n):
        scores[k] = c
    for j in range(d):
        if w[j] != 0.0:
            for k in range(n):
                scores[k] += w[j] * Z[j, k]


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _length(scores, t, y, w, move, code, strength, objective, promised):  # pragma: no cover
    """The first of 1, 1/2, 1/4, ... with which the step keeps a thousandth of what it promised."""
    length = 1.0
    for _halving in range(30):
        new_fit, new_size = 0.0, 0.0
        for k in range(y.size):
            value, factor, _slope = value_and_slope(code, scores[k] + length * t[k], y[k])
            new_fit += (value + math.log(factor)) / y.size
        for j in range(w.size):
            new_size += abs(w[j] + length * move[j])
        if new_fit + strength * new_size <= objective + 1e-3 * length * promised:
            break
        length *= 0.5
    return length


@njit(nogil=True, cache=True, fastmath=FAST, forceinline=True)
def _model(Z, slopes, bends, H, hc, strength, intercept, w, move, t):  # pragma: no cover
    """Coordinate descent on the quadratic model around w; `t` becomes the change of the scores.

    Between two sweeps over all coordinates, those that are not zero are swept until they settle.
    """
    d, n = Z.shape
    for j in range(d):
        move[j] = 0.0
    for k in range(n):
        t[k] = 0.0
    move_c, first_change, everything = 0.0, 0.0, True
    for sweep in range(MOST_SWEEPS):
        change = 0.0
        for j in range(d):
            if H[j] <= 0.0 or (not everything and w[j] + move[j] == 0.0):
                continue
            g = 0.0
            for k in range(n):
                g += Z[j, k] * (slopes[k] + bends[k] * t[k])
            now = w[j] + move[j]
            target = now - g / n / H[j]
            cut = strength / H[j]
            new = target - cut if target > cut else (target + cut if target < -cut else 0.0)
            step = new - now
            if step != 0.0:
                move[j] += step
                for k in range(n):
                    t[k] += step * Z[j, k]
                change += H[j] * step * step
        if intercept:
            g = 0.0
            for k in range(n):
                g += slopes[k] + bends[k] * t[k]
            step = -g / n / hc
            move_c += step
            for k in range(n):
                t[k] += step
            change += hc * step * step
        if sweep == 0:
            first_change = change
        settled = change <= 1e-4 * first_change
        if settled and everything:
            break
        everything = settled
    return move_c
