"""Convex conjugates of the structures: g*(G) = sup_W <G, W> - g(W). For a norm it is 0 in the dual unit ball, else infinite."""

from __future__ import annotations

import numpy as np

from tests.support.certificates import DUAL_NORMS

SEPARABLE = ("l1", "l12", "squared_frobenius")  # sums over columns, so that every task can use its own step size
OTHERS = {"relationship": lambda G: 0.5 * np.linalg.norm(G, 2) ** 2, "squared_frobenius": lambda G: np.square(G).sum() / 4.0}


def dual_norm(structure, G) -> float | None:
    """None where the structure is no norm."""
    return float(DUAL_NORMS[structure.name](G)) if structure.name in DUAL_NORMS else None


def conjugate(structure, G) -> float:
    norm = dual_norm(structure, G)
    if norm is None:
        return float(OTHERS.get(structure.name, getattr(structure, "conjugate", None))(G))
    return 0.0 if norm <= 1.0 + 1e-12 else float("inf")
