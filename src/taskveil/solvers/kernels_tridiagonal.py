"""Compiled loops over small symmetric matrices, one task after the other (solvers/posterior.py says what for). Needs Numba.

Reflectors are scaled to squared length two, so that each is I - v v'; the s-th stands where the s-th row right of the diagonal
was. Strengths are the innermost index: they are independent, so that a processor takes several at a time.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from taskveil.solvers.kernels import FAST
from taskveil.solvers.vectors import BAND, LANES, reflect_band, solve, weigh

NOTHING = 1e-280  # squared length of a row that is zero already, in matrices of ordinary size
NEAR = 1e-3  # a bound on a curvature is as good as the curvature itself: a step of 1 / L
PIVOTS = 8  # multiplied before a logarithm is taken
# Dividing by zero is no exception, which would be a word about somebody's rows and keeps loops from being vectorised.
COMPILED: dict[str, Any] = {"nogil": True, "cache": True, "fastmath": FAST, "error_model": "numpy"}
INNER = {**COMPILED, "forceinline": True}  # put into its callers whole: the same code wherever it was compiled (kernels.py)


@njit(**COMPILED)
def tridiagonalise(A, diagonal, beside):  # pragma: no cover - compiled
    """Each A[i] = Q T Q' with T from `diagonal` and `beside`; A's upper triangle is overwritten by the reflectors of Q.

    A reflector changes what is left of the matrix by v w' + w v'. That is done on the way to the product with the next one, so
    that every number is read and written once for each: in a copy in which vectors begin where lines of the cache do.
    """
    p = A.shape[1]
    n = (p + LANES - 1) // LANES * LANES
    memory = np.zeros((n + 4) * n + LANES)
    start = (-(memory.ctypes.data // memory.itemsize)) % LANES
    a, lines = memory[start : start + n * n].reshape((n, n)), memory[start + n * n : start + n * n + 4 * n].reshape((4, n))
    v, w, x, y = lines[0], lines[1], lines[2], lines[3]
    for i in range(A.shape[0]):
        a[:p, :p] = A[i]
        lines[:] = 0.0
        for s in range(p - 1):
            diagonal[i, s] = a[s, s] - 2.0 * v[s] * w[s]
            _changed(a[s, s + 1 : p], v[s], v[s + 1 : p], w[s], w[s + 1 : p], A[i, s, s + 1 :])
            beside[i, s] = _reflector(A[i, s, s + 1 :])
            v[s] = w[s] = x[s] = 0.0  # rows that are done stay as they are
            x[s + 1 : p] = A[i, s, s + 1 :]
            y[:] = 0.0
            for band in range((s + 1) // BAND * BAND, n, BAND):
                reflect_band(a, lines, band)
            half = 0.0
            for j in range(s + 1, p):
                half += y[j] * x[j]
            half *= 0.5
            v[s:] = x[s:]
            for j in range(s + 1, p):
                w[j] = y[j] - half * x[j]
        diagonal[i, p - 1] = a[p - 1, p - 1] - 2.0 * v[p - 1] * w[p - 1]


@njit(**INNER)
def _changed(row, v, vs, w, ws, out):  # pragma: no cover
    """out = row - v ws - w vs."""
    for j in range(row.size):
        out[j] = row[j] - (v * ws[j] + w * vs[j])


@njit(**INNER)
def _reflector(v):  # pragma: no cover
    """`v` becomes what turns it into its first entry alone; returns that entry."""
    rest = 0.0
    for j in range(1, v.size):
        rest += v[j] * v[j]
    if rest <= NOTHING:
        first = v[0]
        v[:] = 0.0
        return first
    length = math.sqrt(v[0] * v[0] + rest)
    first = -length if v[0] > 0.0 else length
    v[0] -= first
    scale = math.sqrt(2.0 / (v[0] * v[0] + rest))
    for j in range(v.size):
        v[j] *= scale
    return first


@njit(**COMPILED)
def turn(A, columns, back):  # pragma: no cover
    """columns[i] (q, p) become Q' columns[i], or Q columns[i] where `back`, with the reflectors of A[i]."""
    q, p = columns.shape[1], columns.shape[2]
    for i in range(A.shape[0]):
        for c in range(q):
            for step in range(p - 1):
                s = p - 2 - step if back else step
                v, z = A[i, s, s + 1 :], columns[i, c, s + 1 :]
                along = 0.0
                for j in range(v.size):
                    along += v[j] * z[j]
                for j in range(v.size):
                    z[j] -= along * v[j]


@njit(**COMPILED)
def largest_eigenvalue(diagonal, beside, found):  # pragma: no cover
    """found[i] is at least the largest eigenvalue of T, which is not negative, and at most NEAR above it: bisection."""
    p = diagonal.shape[1]
    for i in range(diagonal.shape[0]):
        low, high = 0.0, 0.0
        for j in range(p):
            around = (abs(beside[i, j - 1]) if j else 0.0) + (abs(beside[i, j]) if j + 1 < p else 0.0)
            low, high = max(low, diagonal[i, j]), max(high, diagonal[i, j] + around)
        while high - low > NEAR * high:
            x = 0.5 * (low + high)
            pivot, above = x - diagonal[i, 0], True  # of x I - T, positive definite where x is above all eigenvalues
            for j in range(1, p):
                above = above and pivot > 0.0
                pivot = x - diagonal[i, j] - beside[i, j - 1] * beside[i, j - 1] / (pivot if above else 1.0)
            if above and pivot > 0.0:
                high = x
            else:
                low = x
        found[i] = high


@njit(**COMPILED)
def posterior(diagonal, beside, along, onto, total, t, floor, dual, determinant, residual, steps):  # pragma: no cover
    """What solvers/posterior.py derives, for tasks i and strengths t[i]; steps[i] is (p, strengths).

    Vectors are filled up with strengths that nobody asks for.
    """
    p, q, strengths = diagonal.shape[1], onto.shape[2], t.shape[1]
    full = (strengths + LANES - 1) // LANES * LANES
    inverses, factors, x = np.empty((p, full)), np.empty((p, full)), np.empty((p, full))
    Z, M, columns = np.empty((q, p, full)), np.empty((q, q, full)), np.empty((q, p))
    u, solved = np.empty((q, full)), np.empty((q, full))
    ts, roots, left, moves = np.zeros(full), np.empty(full), np.empty(full), np.empty((p, full))
    for i in range(diagonal.shape[0]):
        ts[:strengths] = t[i]
        _factorise(diagonal[i], beside[i], floor, ts, inverses, factors, roots)
        _solve(inverses, factors, along[i], x)
        _weighted(along[i], x, left)
        if not dual:
            for g in range(full):
                left[g] = total[i] - floor * ts[g] * left[g]
        for c in range(q):
            for j in range(p):
                columns[c, j] = onto[i, j, c]
            _solve(inverses, factors, columns[c], Z[c])
            if not dual:
                _multiply(diagonal[i], beside[i], Z[c])
            _weighted(columns[c], x, u[c])
            for e in range(c + 1):
                _weighted(columns[e], Z[c], M[c, e])
                for g in range(full):
                    M[c, e, g] = ts[g] * M[c, e, g] + (1.0 if c == e else 0.0)
        _solve_small(M, u, solved, roots)
        _subtract_directions(x, Z, u, solved, ts, left, moves)
        determinant[i], residual[i], steps[i] = roots[:strengths], left[:strengths], moves[:, :strengths]


@njit(**INNER)
def _subtract_directions(x, Z, u, solved, t, residual, steps):  # pragma: no cover
    """residual - t u' solved, and steps = t (x - t Z solved); solved is overwritten."""
    p, strengths = x.shape
    for c in range(u.shape[0]):
        for g in range(strengths):
            residual[g] -= t[g] * u[c, g] * solved[c, g]
            solved[c, g] *= t[g]
    for j in range(p):
        for g in range(strengths):
            steps[j, g] = x[j, g]
        for c in range(u.shape[0]):
            for g in range(strengths):
                steps[j, g] -= Z[c, j, g] * solved[c, g]
        for g in range(strengths):
            steps[j, g] *= t[g]


@njit(**INNER)
def _factorise(diagonal, beside, floor, t, inverses, factors, log_roots):  # pragma: no cover
    """I + t floor T = L diag(1 / inverses) L', and half the logarithm of its determinant: dividing is slow, so once for all."""
    strengths = t.size
    product = np.ones(strengths)
    log_roots[:] = 0.0
    for g in range(strengths):
        inverses[0, g] = 1.0 / (1.0 + floor * t[g] * diagonal[0])
    for j in range(1, diagonal.size):
        for g in range(strengths):
            beside_it = floor * t[g] * beside[j - 1]
            factors[j, g] = beside_it * inverses[j - 1, g]
            inverses[j, g] = 1.0 / max(1.0 + floor * t[g] * diagonal[j] - factors[j, g] * beside_it, 1.0)
    for j in range(diagonal.size):
        for g in range(strengths):
            product[g] *= inverses[j, g]
        if j % PIVOTS == PIVOTS - 1 or j == diagonal.size - 1:
            for g in range(strengths):
                log_roots[g] -= 0.5 * math.log(product[g])
                product[g] = 1.0


@njit(**INNER)
def _solve(inverses, factors, right, x):  # pragma: no cover
    """x (p, strengths) with L diag(1 / inverses) L' x = right (p,)."""
    for g in range(0, x.shape[1], LANES):
        solve(inverses, factors, right, x, g)


@njit(**INNER)
def _multiply(diagonal, beside, x):  # pragma: no cover
    """x becomes T x."""
    p, strengths = x.shape
    before = np.zeros(strengths)
    for j in range(p):
        for g in range(strengths):
            here = x[j, g]
            x[j, g] = diagonal[j] * here + before[g]
            before[g] = beside[j] * here
            if j + 1 < p:
                x[j, g] += beside[j] * x[j + 1, g]


@njit(**INNER)
def _weighted(weights, x, out):  # pragma: no cover
    """out (strengths) = weights' x."""
    for g in range(0, out.size, LANES):
        weigh(weights, x, g, out)


@njit(**INNER)
def _solve_small(M, u, solved, log_roots):  # pragma: no cover
    """solved = M^-1 u of symmetric positive definite M, of which the lower triangle counts; log_roots grows by half log det M."""
    q, strengths = u.shape
    ratio = np.empty(strengths)
    for c in range(q):
        for g in range(strengths):
            solved[c, g] = u[c, g]
    for c in range(q):
        for g in range(strengths):
            log_roots[g] += 0.5 * math.log(M[c, c, g])
        for e in range(c + 1, q):
            for g in range(strengths):
                ratio[g] = M[e, c, g] / M[c, c, g]
                solved[e, g] -= ratio[g] * solved[c, g]
            for h in range(c + 1, e + 1):
                for g in range(strengths):
                    M[e, h, g] -= ratio[g] * M[h, c, g]
    for c in range(q - 1, -1, -1):
        for g in range(strengths):
            for e in range(c + 1, q):
                solved[c, g] -= M[e, c, g] * solved[e, g]
            solved[c, g] /= M[c, c, g]
