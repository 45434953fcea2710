"""The operation counts of eq. 15 and 29: vector operations count once per feature, scalar ones once."""

from __future__ import annotations

Counts = dict[str, int]


def classification(rows: int, features: int) -> Counts:
    """Eq. 15: alpha, w, v for every row, and the end of an epoch."""
    L, d = rows, features
    return {"alpha": L * (3 * d + 2 * d + 3 + 1), "w": L * (d + d + 1 + 1), "v": L * (d + d + 2 + 1 + 1), "end": 4 + 3 + 1 + 1}


def regression(rows: int, features: int) -> Counts:
    """Eq. 29: alpha+ and alpha- each, w and v twice for every row, and the end of an epoch."""
    L, d = rows, features
    alpha = L * (2 * d + d + d + 3 + 1)
    return {
        "alpha": 2 * alpha,
        "w": L * (2 * d + 2 * d + 2),
        "v": L * (2 * d + 2 * d + 2 + 2),
        "end": 4 * d + 4 * d + 4 * d + 4 + 2 + 1,
    }


def total(counts: Counts) -> int:
    return sum(counts.values())


def approximation(rows: int, features: int) -> int:
    """Section 4.3: C_total = L d + d + L + c, up to a factor."""
    return rows * features + features + rows
