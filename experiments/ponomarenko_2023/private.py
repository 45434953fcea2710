"""The private SVM: balanced accuracy against epsilon on many small related tasks (HAR has too few participants for unit task)."""

from __future__ import annotations

from typing import Any

import numpy as np

import taskveil as tv
from taskveil import methods
from taskveil.estimators.metrics import evaluate
from taskveil.tasks.task import TaskSet

EPSILONS = (0.3, 1.0, 3.0, 10.0, None)


def related(seed: int, n_tasks: int = 300, rows: int = 20, features: int = 20) -> tuple[TaskSet, TaskSet]:
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal(features)
    W = shared + 0.4 * rng.standard_normal((n_tasks, features))
    X = rng.standard_normal((n_tasks * 3 * rows, features))
    names = np.repeat([f"task {k:03d}" for k in range(n_tasks)], 3 * rows)
    z = np.einsum("nd,nd->n", X, np.repeat(W, 3 * rows, axis=0)) + rng.standard_normal(len(X))
    y = (z > 0).astype(int)
    train = np.tile(np.arange(3 * rows) < rows, n_tasks)
    make = lambda m: TaskSet.from_arrays(X[m], y[m], names[m], kind="classification")  # noqa: E731
    return make(train), make(~train)


def private_table(quick: bool) -> list[dict[str, Any]]:
    rows = []
    for epsilon in (1.0, None) if quick else EPSILONS:
        scores: dict[str, list[float]] = {"svm": [], "mocha": [], "local": []}
        for seed in range(2 if quick else 4):
            train, test = related(seed)
            for name, found in scores.items():
                method = (
                    methods.get("svm", scope="local", C1=0.3, C2=1.0, tol=1e-3)
                    if name == "local"
                    else methods.get(name, C1=0.1, C2=1.0, tol=1e-3)
                )
                est = tv.TaskClassifier(method, epsilon=epsilon, insecure_noise_seed=None if epsilon is None else seed)
                found.append(evaluate(est.fit(train), test, "balanced-accuracy"))
        rows.append({"epsilon": epsilon, **{n: float(np.mean(s)) for n, s in scores.items()}, "each": scores})
    return rows
