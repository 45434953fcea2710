"""The four problems of section 4: data, constants, and what is measured on them.

Data are made: the synthetic set of Table 1 (20 tasks x 200 rows x 28 features) and a stand-in for ADNI, which is not public
(20 tasks x 15-27 rows x 248 features that follow five common factors). As in the paper 30 % of the rows train. Rows have
norm at most 1 (C1 = 1), targets of regression lie in [-1, 1]. The paper does not say how its synthetic set is made, nor how its rows
are scaled: noise is drawn for C1 = C2 = C3 = C4 = 1, so longer rows would see less of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from taskveil.tasks.block import TaskBlock

TASKS, RANK, SHOWN_TASKS = 20, 3, 5
Array = np.ndarray


@dataclass(frozen=True)
class Setting:
    """One data set and learning problem with the paper's constants (section 4.1)."""

    kind: str
    adni: bool
    ridge: float  # lambda, of lambda/2 |q|^2
    threshold: float  # mu: of the proximal map itself (eq. 5)
    step: float  # alpha_1 = alpha_2
    epsilons: tuple[float, ...]  # epsilon_2 of one message; the figures are pictures, these are ours
    first: float | None  # epsilon_1; None: equal to epsilon_2

    @property
    def penalty(self) -> float:
        """On |P|_* in the objective that these steps and thresholds minimise."""
        return self.threshold / self.step

    def first_of(self, epsilon: float | None) -> float | None:
        return epsilon if epsilon is None or self.first is None else self.first

    def stated(self, epsilon: float) -> float:
        """epsilon_1 + epsilon_2."""
        return epsilon + (self.first_of(epsilon) or 0.0)


SETTINGS = {
    "synthetic, classification": Setting("classification", False, 1e-3, 1.5e-3, 0.1, (1.0, 0.3, 0.1), None),
    "ADNI-like, classification": Setting("classification", True, 1e-3, 1.5e-3, 0.1, (10.0, 1.0, 0.3), 0.5),
    "synthetic, regression": Setting("regression", False, 1e-5, 1.5e-3, 0.1, (10.0, 1.0, 0.3), None),
    "ADNI-like, regression": Setting("regression", True, 1e-5, 1e-4, 1e-3, (10.0, 1.0, 0.3), 10.0),
}


def make_data(setting: Setting, seed: int) -> tuple[TaskBlock, TaskBlock]:
    """Training and test rows; models of rank 3."""
    rng = np.random.default_rng([seed, int(setting.adni), 17])
    d = 248 if setting.adni else 28
    sizes = rng.integers(15, 28, TASKS) if setting.adni else np.full(TASKS, 200)
    factors = rng.standard_normal((5, d)) if setting.adni else np.eye(d)
    W = rng.standard_normal((TASKS, RANK)) @ rng.standard_normal((RANK, d))
    parts: tuple[list[Any], list[Any]] = ([], [])
    for t, n in enumerate(sizes):
        X = rng.uniform(-1, 1, (n, len(factors))) @ factors
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9) * (1.0 + rng.random((n, 1)))
        z = X @ W[t]
        z = z / np.std(z) + 0.2 * rng.standard_normal(n)
        y = np.clip(0.4 * z, -1, 1) if setting.kind == "regression" else np.where(z > 0, 1.0, -1.0)
        cut = round(0.3 * n)
        parts[0].append((X[:cut], y[:cut]))
        parts[1].append((X[cut:], y[cut:]))
    return _block(parts[0], setting.kind), _block(parts[1], setting.kind)


def _block(parts: list[Any], kind: str) -> TaskBlock:
    offsets = np.concatenate([[0], np.cumsum([len(y) for _, y in parts])])
    return TaskBlock(np.vstack([X for X, _ in parts]), np.concatenate([y for _, y in parts]), offsets, kind=kind)


def objective(setting: Setting, block: TaskBlock, P: Array, Q: Array) -> Array:
    """Eq. 2 with the paper's losses and constants, for models (runs, tasks, features)."""
    margins, y = scores(P + Q, block), block.y[:, 0]
    losses = np.square(margins - y) if setting.kind == "regression" else np.logaddexp(0.0, -y * margins)
    nuclear = np.linalg.norm(P, ord="nuc", axis=(1, 2))
    return by_task(losses, block).sum(axis=1) + setting.penalty * nuclear + setting.ridge / 2 * np.square(Q).sum(axis=(1, 2))


def task_errors(W: Array, test: TaskBlock) -> Array:
    """Error rate or mean squared error (runs, tasks) of models (runs, tasks, features)."""
    found, y = scores(W, test), test.y[:, 0]
    return by_task(np.square(found - y) if test.kind == "regression" else (found * y <= 0).astype(float), test)


def scores(W: Array, block: TaskBlock) -> Array:
    return np.concatenate([W[:, t] @ np.asarray(block.X[block.rows(t)]).T for t in range(block.n_tasks)], axis=1)


def by_task(values: Array, block: TaskBlock) -> Array:
    return np.stack([values[:, block.rows(t)].mean(axis=1) for t in range(block.n_tasks)], axis=1)
