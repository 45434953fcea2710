"""Compiled dual coordinate steps for linear support vector machines. Imported only when first used (needs Numba).

The quadratic form is |x_i|^2 `scale`; `point` is the vector u at which a task's rows are scored. For one row with signed
dual variable b (hinge: b = y a), target t, band e and box [low, high] the exact minimiser along the coordinate is

    b <- clip(soft(b - (x'u - t) / H, e / H), low, high),   H = |x|^2 scale,        then u <- u + scale (change of b) x

which covers the hinge loss (t = y, e = 0, box between 0 and y C1; Hsieh et al. 2008, Alg. 1) and the epsilon-insensitive
loss (box [-C1, C1]; Ho & Lin 2012, Alg. 4). Rows with |x| = 0, or with an empty box, are skipped.

A visit to one task is made of cycles: one pass over all its rows in a fresh order, which also finds the rows that can
still move, then passes over those alone (shrinking: no threshold to tune, because every cycle starts with all rows).
`damping` (empty, or one factor in [0, 1] per row) multiplies every step: the masked step of docs/theory/svm.md#masks.

Row i is values[i width : (i + 1) width]. `constant` is the value
of an appended constant feature (0: none), so that the intercept is the last entry of u and is regularised like the rest.
"""

# ruff: noqa: PLR0912  (compiled loops take their arrays one by one)

from __future__ import annotations

import numpy as np
from numba import njit

FAST = {"reassoc", "contract", "nsz", "arcp"}


@njit(cache=True, fastmath=FAST, nogil=True, forceinline=True)
def score(values, width, constant, i, u):  # pragma: no cover - compiled
    """x_i'u."""
    s = 0.0
    row = values[i * width : (i + 1) * width]
    for j in range(width):
        s += row[j] * u[j]
    if constant != 0.0:
        s += constant * u[width]
    return s


@njit(cache=True, fastmath=FAST, nogil=True, forceinline=True)
def add(values, width, constant, i, amount, u):  # pragma: no cover - compiled
    """u <- u + amount x_i."""
    row = values[i * width : (i + 1) * width]
    for j in range(width):
        u[j] += amount * row[j]
    if constant != 0.0:
        u[width] += amount * constant


@njit(cache=True, nogil=True, forceinline=True)
def _next(word):  # pragma: no cover - compiled
    """One step of Marsaglia's xorshift64: decides the order of rows only, nothing that must be secret."""
    word ^= word << np.uint64(13)
    word ^= word >> np.uint64(7)
    return word ^ (word << np.uint64(17))


@njit(cache=True, nogil=True, forceinline=True)
def _shuffle(active, size, word):  # pragma: no cover - compiled
    for last in range(size - 1, 0, -1):
        word = _next(word)
        j = np.int64(word % np.uint64(last + 1))
        active[last], active[j] = active[j], active[last]
    return word


@njit(cache=True, nogil=True, forceinline=True)
def visit(
    values, width, constant, squares, target, low, high, band, damping,
    first, last, scale, dual, u, cycles, passes, shrink, precision, limit, word,
):  # fmt: skip  # pragma: no cover - compiled
    """Coordinate steps on rows first..last-1; changes `dual` and `u`. Returns (first violation, rows scored).

    Stops when a full pass moves no row by more than `precision` times the very first pass did (violation: largest |H
    change of b|), after `cycles` cycles, or after `limit` rows (0: no limit).
    """
    active = np.arange(first, last)
    start, work = 0.0, 0
    for cycle in range(cycles):
        size, opening, keep = last - first, 0.0, 0
        for i in range(size):
            active[i] = first + i
        for turn in range(passes):
            word = _shuffle(active, size, word)
            worst, keep = 0.0, 0
            for position in range(size):
                i = active[position]
                h = squares[i] * scale
                if h <= 0.0 or low[i] >= high[i]:
                    continue
                if limit > 0 and work >= limit:
                    return start, work
                work += 1
                old = dual[i]
                z = old - (score(values, width, constant, i, u) - target[i]) / h
                e = band / h
                z = z - e if z > e else (z + e if z < -e else 0.0)
                z = min(max(z, low[i]), high[i])
                step = z - old
                if damping.size > 0:
                    step *= damping[i]
                if step != 0.0:
                    dual[i] = old + step
                    add(values, width, constant, i, scale * step, u)
                    worst = max(worst, abs(step) * h)
                resting = z == low[i] or z == high[i] or (band > 0.0 and z == 0.0)
                if step != 0.0 or not resting:
                    active[keep] = i
                    keep += 1
            if turn == 0:
                opening = worst
                if cycle == 0:
                    start = worst
            size = keep
            if size == 0 or worst <= shrink * opening:
                break
        if opening <= precision * start:
            break
    return start, work


@njit(cache=True, nogil=True)
def visit_tasks(
    values, width, constant, squares, target, low, high, band, damping,
    offsets, scales, dual, points, cycles, passes, shrink, precision, limits, seed,
):  # fmt: skip  # pragma: no cover - compiled
    """One visit to every task, independent of one another: points (tasks, width + 1) are scored and changed in place.

    `limits` (tasks,): 0 no limit, -1 leave this task alone, else the most rows to score. Returns rows scored per task.
    """
    work = np.zeros(offsets.size - 1, dtype=np.int64)
    for k in range(offsets.size - 1):
        if limits[k] < 0:
            continue
        word = _next(np.uint64(seed) * np.uint64(2862933555777941757) + np.uint64(3037000493))
        _, done = visit(
            values, width, constant, squares, target, low, high, band, damping,
            offsets[k], offsets[k + 1], scales[k], dual, points[k], cycles, passes, shrink, precision, limits[k], word,
        )  # fmt: skip
        work[k] = done
    return work


@njit(cache=True, nogil=True)
def sweep(
    values, width, constant, squares, target, low, high, band, damping,
    offsets, coupling, inverse, dual, shared, sums, cycles, passes, shrink, precision, seed,
):  # fmt: skip  # pragma: no cover - compiled
    """One visit to every task in turn with the shared part updated at once; returns (largest violation, rows scored).

    shared (width + 1,) = coupling * sum of sums[k]; the point of task k is shared + inverse * sums[k].
    """
    n_tasks = offsets.size - 1
    order = np.arange(n_tasks)
    word = _next(np.uint64(seed) * np.uint64(2862933555777941757) + np.uint64(3037000493))
    word = _shuffle(order, n_tasks, word)
    point = np.empty(shared.size)
    worst, work = 0.0, 0
    scale = coupling + inverse
    for k in order:
        for j in range(point.size):
            point[j] = shared[j] + inverse * sums[k, j]
        word = _next(word)
        violation, done = visit(
            values, width, constant, squares, target, low, high, band, damping,
            offsets[k], offsets[k + 1], scale, dual, point, cycles, passes, shrink, precision, 0, word,
        )  # fmt: skip
        worst = max(worst, violation)
        work += done
        for j in range(point.size):
            change = (point[j] - shared[j] - inverse * sums[k, j]) / scale
            sums[k, j] += change
            shared[j] += coupling * change
    return worst, work


@njit(cache=True, nogil=True)
def scores(values, width, constant, offsets, points, out):  # pragma: no cover - compiled
    """x'u of every row under its own task's point."""
    for k in range(offsets.size - 1):
        for i in range(offsets[k], offsets[k + 1]):
            out[i] = score(values, width, constant, i, points[k])


@njit(cache=True, nogil=True)
def weighted_sums(values, width, constant, offsets, dual, out):  # pragma: no cover - compiled
    """sum_i b_i x_i per task, (tasks, width + 1)."""
    for k in range(offsets.size - 1):
        out[k] = 0.0
        for i in range(offsets[k], offsets[k + 1]):
            if dual[i] != 0.0:
                add(values, width, constant, i, dual[i], out[k])
