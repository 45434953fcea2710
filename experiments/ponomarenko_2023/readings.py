"""Four readings of the printed classification algorithm, none of which uses C1.

    rows          boxed: eq. 32, all at once, no (1 + 1/C2)       sequential: eq. 13-14, one after the other in random order
    coordinator   line 15: w <- sum dw                            added: w <- w + sum dw (sections 3.1 and 7.2.2 send a Delta w)

A run is called off when its objective passes ten times that of the zero model, as `variant="paper"` does.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from experiments.ponomarenko_2023.clock import HAR, quality
from experiments.ponomarenko_2023.data import Split
from taskveil.methods.base import Models
from taskveil.methods.papers.ponomarenko_2023 import TOO_LARGE

SIMILARITIES = (0.1, 1.0, 5.0, 100.0)
READINGS = tuple(product(("boxed", "sequential"), ("line 15", "added")))
Array = np.ndarray


def epoch(X: Array, y: Array, w: Array, v: Array, inverse: float, rows: str, rng: np.random.Generator) -> Array:
    """What participant k sends, with v moved in place."""
    squares = np.maximum(np.einsum("nd,nd->n", X, X), 1e-300)
    if rows == "boxed":
        sent = (y * (1.0 - y * (X @ (w + v))) / squares) @ X
        v += inverse * sent
        return sent
    start, w = w, w.copy()
    for i in rng.permutation(len(y)):
        move = y[i] * (1.0 - y[i] * float(X[i] @ (w + v))) / (squares[i] * (1.0 + inverse)) * X[i]
        w += move
        v += inverse * move
    return w - start


def read(split: Split, rows: str, coordinator: str, C2: float, rounds: int = 40, seed: int = 0) -> dict[str, Any]:
    """When the run is called off, and the best balanced accuracy it had on the way (the kindest stopping rule there is)."""
    train, rng = split.train, np.random.default_rng(seed)
    parts = [(np.asarray(train.X[train.rows(k)], dtype=float), np.where(train.y[train.rows(k)] == train.classes[1], 1.0, -1.0))
             for k in range(train.n_tasks)]  # fmt: skip
    w, V = np.zeros(train.n_features), np.zeros((train.n_tasks, train.n_features))
    values, qualities = [objective(parts, w, V, C2)], []
    with np.errstate(all="ignore"):
        while len(qualities) < rounds and values[-1] <= TOO_LARGE * values[0]:
            sent = sum(epoch(X, y, w, V[k], 1.0 / C2, rows, rng) for k, (X, y) in enumerate(parts))
            w = w + sent if coordinator == "added" else sent
            values.append(objective(parts, w, V, C2))
            models = np.nan_to_num(w + V)
            qualities.append(quality(Models(models[:, None], np.zeros((train.n_tasks, 1))), split))
    return {
        "rows": rows, "coordinator": coordinator, "C2": C2, "rounds": len(qualities), "diverged": not values[-1] <= TOO_LARGE * values[0],
        "first objective": values[0], "last objective": float(np.nan_to_num(values[-1], nan=np.inf)), "best": max(qualities),
    }  # fmt: skip


def objective(parts: list[tuple[Array, Array]], w: Array, V: Array, C2: float) -> float:
    """Eq. 2 with the constant C1 of the figures."""
    losses = sum(float(np.maximum(0.0, 1.0 - y * (X @ (w + v))).sum()) for (X, y), v in zip(parts, V))
    return 0.5 * float(w @ w) + 0.5 * C2 * float((V * V).sum()) + float(HAR["C1"]) * losses
