"""Numerical blocks for solver tests: ragged sizes, features with large means, optional held-out rows."""

from __future__ import annotations

import numpy as np

from taskveil.tasks.block import TaskBlock


def make_block(
    kind: str = "regression",
    *,
    n_tasks: int = 12,
    n_features: int = 6,
    n_outputs: int = 1,
    rows: tuple[int, int] = (4, 15),
    shift: float = 1.0,
    noise: float = 0.5,
    seed: int = 0,
    held_out: float = 0.0,
    dtype=np.float64,
) -> TaskBlock:
    """Low-rank truth plus noise; classification labels are -1/+1 with both classes in most tasks."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(rows[0], rows[1] + 1, n_tasks)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    n = int(offsets[-1])
    X = rng.standard_normal((n, n_features)) + shift * rng.standard_normal(n_features)
    W = np.einsum("mok,kd->mod", rng.standard_normal((n_tasks, n_outputs, 2)), rng.standard_normal((2, n_features)))
    scores = np.einsum("nd,nod->no", X - X.mean(axis=0), np.repeat(W, sizes, axis=0))
    y = scores + noise * rng.standard_normal(scores.shape)
    y = np.where(y > 0, 1.0, -1.0) if kind == "classification" else y + 3.0
    weights = None if held_out == 0.0 else (rng.random(n) >= held_out).astype(float)
    return TaskBlock(np.ascontiguousarray(X, dtype=dtype), y, offsets, weights, kind)


def equal_block(X: np.ndarray, Y: np.ndarray, kind: str = "regression") -> TaskBlock:
    """One task per column of Y, all with the same rows X: the setting of classical multi-output learning."""
    n, m = Y.shape
    return TaskBlock(np.tile(X, (m, 1)), Y.T.reshape(-1, 1).copy(), np.arange(m + 1) * n, None, kind)
