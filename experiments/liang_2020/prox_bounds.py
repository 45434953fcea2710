"""How far noise moves a proximal step: Lemmas 1 and 2 of MP-MTL (journal version), both sides.

The noisy step of Algorithms 2 and 3 replaces C C' by C C' + E in the map; the lemmas bound how much worse
the result is than the exact prox, in the prox objective 1/(2 eta)|W - C|_F^2 + lambda g(W), for any (not
only Wishart) E. Columns of C are tasks: C is (d, m). These right-hand sides are for study and tests; nothing
is released here.
"""

from __future__ import annotations

import math

import numpy as np

from taskveil.errors import OptionError

__all__ = [
    "group_sparse_bound",
    "group_sparse_excess",
    "group_sparse_step",
    "low_rank_applies",
    "low_rank_bound",
    "low_rank_excess",
    "low_rank_step",
]


def low_rank_step(C: np.ndarray, E: np.ndarray, threshold: float) -> np.ndarray:
    """Algorithm 2: C shrunk by U max(0, 1 - threshold/sqrt(Lambda)) U', the eigenpairs of C C' + E."""
    values, U = np.linalg.eigh(C @ C.T + E)
    root = np.sqrt(np.maximum(values, 0.0))
    shrink = np.where(root > threshold, 1.0 - threshold / np.maximum(root, threshold), 0.0)
    return (U * shrink) @ (U.T @ C)


def low_rank_excess(C: np.ndarray, E: np.ndarray, step: float, penalty: float) -> float:
    """Left-hand side of Lemma 1.

    Prox objective at the noisy step minus its minimum (soft-thresholded values).
    """
    t = step * penalty
    W, sigma = low_rank_step(C, E, t), np.linalg.svd(C, compute_uv=False)
    best = np.maximum(sigma - t, 0.0)
    least = ((best - sigma) ** 2).sum() / (2 * step) + penalty * best.sum()
    return float(((W - C) ** 2).sum() / (2 * step) + penalty * np.linalg.norm(W, "nuc") - least)


def low_rank_applies(C: np.ndarray, E: np.ndarray, step: float, penalty: float) -> bool:
    """Lemma 1's assumption: 2 sigma_1(E) <= sqrt(sigma_j(C)) - sqrt(sigma_{j+1}(C)) for j = 1..k."""
    sigma = np.append(np.linalg.svd(C, compute_uv=False), 0.0)
    k = int((sigma > step * penalty).sum())
    gaps = np.sqrt(sigma[:k]) - np.sqrt(sigma[1 : k + 1])
    return bool((2 * np.linalg.norm(E, 2) <= gaps).all())


def low_rank_bound(C: np.ndarray, E: np.ndarray, step: float, penalty: float) -> float:
    """Right-hand side of Lemma 1 (eq. 9).

    (1/eta)(s1(C)^2/(eta lambda) + s1(C)) [(k^2/(eta lambda) + 2k) s1(E) + max(0, rank - k) sqrt(s1(E))].
    """
    t = _threshold(step, penalty)
    sigma = np.linalg.svd(C, compute_uv=False)
    k, rank = int((sigma > t).sum()), int((sigma > 1e-12 * max(sigma[0], 1e-300)).sum())
    s, e = float(sigma[0]), float(np.linalg.norm(E, 2))
    return (s**2 / t + s) * ((k**2 / t + 2 * k) * e + max(0, rank - k) * math.sqrt(e)) / step


def group_sparse_step(C: np.ndarray, E: np.ndarray, threshold: float) -> np.ndarray:
    """Algorithm 3: scale row j of C by max(0, 1 - threshold/sqrt(|(C C' + E)_jj|))."""
    root = np.sqrt(np.abs((C**2).sum(axis=1) + np.diag(E)))
    shrink = np.where(root > threshold, 1.0 - threshold / np.maximum(root, threshold), 0.0)
    return shrink[:, None] * C


def group_sparse_excess(C: np.ndarray, E: np.ndarray, step: float, penalty: float) -> float:
    """Left-hand side of Lemma 2: prox objective of the l2,1 norm at the noisy step minus its minimum."""
    t = step * penalty
    W, rows = group_sparse_step(C, E, t), np.linalg.norm(C, axis=1)
    best = np.maximum(rows - t, 0.0)
    least = ((best - rows) ** 2).sum() / (2 * step) + penalty * best.sum()
    value = ((W - C) ** 2).sum() / (2 * step) + penalty * np.linalg.norm(W, axis=1).sum()
    return float(value - least)


def group_sparse_bound(C: np.ndarray, E: np.ndarray, step: float, penalty: float) -> float:
    """Right-hand side of Lemma 2 (eq. 10).

    (1/eta)[r c^2/(eta lambda) + c] [k/(2 eta lambda) max|E_jj| + max(0, r - k) max sqrt|E_jj|], where
    c = max_j |C_j|, r is the number of non-zero rows, k that of rows at or above the threshold.
    """
    t = _threshold(step, penalty)
    rows, e = np.linalg.norm(C, axis=1), float(np.abs(np.diag(E)).max())
    r, k, c = int((rows > 0).sum()), int((rows >= t).sum()), float(rows.max())
    return (r * c**2 / t + c) * (k / (2 * t) * e + max(0, r - k) * math.sqrt(e)) / step


def _threshold(step: float, penalty: float) -> float:
    if not (step > 0 and penalty > 0):
        raise OptionError(f"step and penalty must be above 0, got {step} and {penalty}.")
    return step * penalty
