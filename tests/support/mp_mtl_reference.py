"""Algorithms 2 and 3 of MP-MTL (journal version), written as printed: one task at a time, one line per step.

Slow and obvious on purpose. `noise(t)` is the matrix E of step 5, `gradient(i, z)` is dL_i/dz.
"""

from __future__ import annotations

import numpy as np


def composition_bound(epsilons, delta):
    """Definition 7, eq. 6, term by term."""
    e = np.asarray(epsilons, dtype=float)
    first = e.sum()
    if delta == 0:
        return first
    drift = sum((np.exp(x) - 1) * x / (np.exp(x) + 1) for x in e)
    second = drift + np.sqrt(sum(2 * x**2 * np.log(1 / delta) for x in e))
    third = drift + np.sqrt(sum(2 * x**2 * np.log(np.e + np.sqrt((e**2).sum()) / delta) for x in e))
    return min(first, second, third)


def clip(w, K):
    return w / max(1.0, np.linalg.norm(w) / K)


def low_rank(W0, gradient, noise, T, eta, lam, K, beta):
    """Algorithm 2; W0 is features x tasks; returns W-hat of round T."""
    d, m = W0.shape
    W = W0.copy()
    for t in range(1, T + 1):
        W_tilde = np.column_stack([clip(W[:, i], K) for i in range(m)])  # 3
        if t == 1:
            W_hat_last = W_tilde.copy()
        S = W_tilde @ W_tilde.T + noise(t)  # 4, 5
        Lambda, U = np.linalg.eigh(S)  # 6
        shrink = np.diag([max(0.0, 1 - eta * lam / np.sqrt(v)) if v > 0 else 0.0 for v in Lambda])  # 7
        M = U @ shrink @ U.T  # 8
        W_hat, W = np.empty_like(W), np.empty_like(W)
        for i in range(m):
            W_hat[:, i] = M @ W_tilde[:, i]  # 9
            z = W_hat[:, i] + beta(t) * (W_hat[:, i] - W_hat_last[:, i])  # 10
            W[:, i] = z - eta * gradient(i, z)  # 11
        W_hat_last = W_hat
    return W_hat


def group_sparse(W0, gradient, noise, T, eta, lam, K, beta):
    """Algorithm 3."""
    d, m = W0.shape
    W = W0.copy()
    for t in range(1, T + 1):
        W_tilde = np.column_stack([clip(W[:, i], K) for i in range(m)])  # 3
        if t == 1:
            W_hat_last = W_tilde.copy()
        S = W_tilde @ W_tilde.T + noise(t)  # 4, 5
        M = np.diag([max(0.0, 1 - eta * lam / np.sqrt(abs(S[j, j]))) for j in range(d)])  # 6, 7
        W_hat, W = np.empty_like(W), np.empty_like(W)
        for i in range(m):
            W_hat[:, i] = M @ W_tilde[:, i]  # 8
            z = W_hat[:, i] + beta(t) * (W_hat[:, i] - W_hat_last[:, i])  # 9
            W[:, i] = z - eta * gradient(i, z)  # 10
        W_hat_last = W_hat
    return W_hat
