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

NOTHING = 1e-280  # squared length of a row that is zero already, in matrices of ordinary size
NEAR = 1e-3  # a bound on a curvature is as good as the curvature itself: a step of 1 / L
PIVOTS = 8  # multiplied before a logarithm is taken
# Dividing by zero is no exception, which would be a word about somebody's rows and keeps loops from being vectorised.
COMPILED: dict[str, Any] = {"nogil": True, "cache": True, "fastmath": FAST, "error_model": "numpy"}
INNER = {**COMPILED, "forceinline": True}  # put into its callers whole: the same code wherever it was compiled (kernels.py)


@njit(**COMPILED)
def tridiagonalise(A, diagonal, beside):  # pragma: no cover - compiled
    """Each A[i] = Q T Q' with T from `diagonal` and `beside`; A's upper triangle is overwritten by the reflectors of Q."""
    p = A.shape[1]
    u = np.empty(p)
    for i in range(A.shape[0]):
        a = A[i]
        for s in range(p - 1):
            diagonal[i, s] = a[s, s]
            v = a[s, s + 1 :]
            rest = 0.0
            for j in range(1, v.size):
                rest += v[j] * v[j]
            if rest <= NOTHING:
                beside[i, s] = v[0]
                v[:] = 0.0
                continue
            length = math.sqrt(v[0] * v[0] + rest)
            beside[i, s] = -length if v[0] > 0.0 else length
            v[0] -= beside[i, s]
            scale = math.sqrt(2.0 / (v[0] * v[0] + rest))
            for j in range(v.size):
                v[j] *= scale
            _reflect_rest(a, s + 1, v, u[s + 1 :])
        diagonal[i, p - 1] = a[p - 1, p - 1]


@njit(**INNER)
def _reflect_rest(a, s, v, u):  # pragma: no cover
    """The matrix from row s on becomes (I - v v') a (I - v v') = a - v w' - w v' with w = a v - (v' a v / 2) v."""
    size = v.size
    u[:] = 0.0
    for r in range(size):
        row, x, total = a[s + r, s:], v[r], 0.0
        for j in range(r + 1, size):
            total += row[j] * v[j]
            u[j] += row[j] * x
        u[r] += total + row[r] * x
    half = 0.0
    for r in range(size):
        half += u[r] * v[r]
    half *= 0.5
    for r in range(size):
        u[r] -= half * v[r]
    for r in range(size):
        row, x, y = a[s + r, s:], v[r], u[r]
        for j in range(r, size):
            row[j] -= x * u[j] + y * v[j]


@njit(**COMPILED)
def turn(A, columns, back):  # pragma: no cover
    """columns[i] (p, q) becomes Q' columns[i], or Q columns[i] where `back`, with the reflectors of A[i]."""
    p, q = columns.shape[1], columns.shape[2]
    for i in range(A.shape[0]):
        for step in range(p - 1):
            s = p - 2 - step if back else step
            v = A[i, s, s + 1 :]
            for c in range(q):
                along = 0.0
                for j in range(v.size):
                    along += v[j] * columns[i, s + 1 + j, c]
                for j in range(v.size):
                    columns[i, s + 1 + j, c] -= along * v[j]


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
    """What solvers/posterior.py derives, for tasks i and strengths t[i]; steps[i] is (p, strengths)."""
    p, q, strengths = diagonal.shape[1], onto.shape[2], t.shape[1]
    inverses, factors = np.empty((p, strengths)), np.empty((p, strengths))
    x, Z, M = np.empty((p, strengths)), np.empty((q, p, strengths)), np.empty((q, q, strengths))
    u, solved = np.empty((q, strengths)), np.empty((q, strengths))
    for i in range(diagonal.shape[0]):
        _factorise(diagonal[i], beside[i], floor, t[i], inverses, factors, determinant[i])
        _solve(inverses, factors, along[i], x)
        _weighted(along[i], x, residual[i])
        if not dual:
            for g in range(strengths):
                residual[i, g] = total[i] - floor * t[i, g] * residual[i, g]
        for c in range(q):
            _solve(inverses, factors, onto[i, :, c], Z[c])
            if not dual:
                _multiply(diagonal[i], beside[i], Z[c])
            _weighted(onto[i, :, c], x, u[c])
            for e in range(c + 1):
                _weighted(onto[i, :, e], Z[c], M[c, e])
                for g in range(strengths):
                    M[c, e, g] = t[i, g] * M[c, e, g] + (1.0 if c == e else 0.0)
        _solve_small(M, u, solved, determinant[i])
        _subtract_directions(x, Z, u, solved, t[i], residual[i], steps[i])


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
    p, strengths = x.shape
    for g in range(strengths):
        x[0, g] = right[0]
    for j in range(1, p):
        for g in range(strengths):
            x[j, g] = right[j] - factors[j, g] * x[j - 1, g]
    for g in range(strengths):
        x[p - 1, g] *= inverses[p - 1, g]
    for j in range(p - 2, -1, -1):
        for g in range(strengths):
            x[j, g] = x[j, g] * inverses[j, g] - factors[j + 1, g] * x[j + 1, g]


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
    out[:] = 0.0
    for j in range(weights.size):
        for g in range(out.size):
            out[g] += weights[j] * x[j, g]


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
