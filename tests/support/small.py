"""Small data sets for tests, made on the spot."""

from __future__ import annotations

import numpy as np

from taskveil.tasks.task import TaskSet


def related_tasks(n_tasks=12, rows=(8, 15), n_features=5, rank=2, seed=0, kind="regression", classes=2) -> TaskSet:
    """Ragged tasks whose weights lie in a common low-dimensional subspace."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(rows[0], rows[1] + 1, n_tasks)
    task = np.repeat([f"site-{i:02d}" for i in range(n_tasks)], sizes)
    X = rng.standard_normal((sizes.sum(), n_features))
    basis = rng.standard_normal((rank, n_features))
    outputs = 1 if kind == "regression" or classes == 2 else classes
    W = rng.standard_normal((n_tasks, outputs, rank)) @ basis
    scores = np.einsum("nd,nrd->nr", X, np.repeat(W, sizes, axis=0)) + 0.3 * rng.standard_normal((sizes.sum(), outputs))
    if kind == "regression":
        y = scores[:, 0] + 2.0
    elif classes == 2:
        y = np.where(scores[:, 0] > 0, "yes", "no")
    else:
        y = np.asarray([f"class-{k}" for k in scores.argmax(axis=1)])
    return TaskSet.from_arrays(X, y, task, kind=kind)
