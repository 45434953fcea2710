"""Algorithms 2 and 3 as printed for squared loss, many settings at once: to choose settings with, seven times as fast as fits.

The steps are those of `low-rank` and `group-sparse` with variant="paper" (a test compares their models), and so are the noise's law and
scale; the draws are others. Figures are made with the library itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.liang_2020 import runs
from taskveil.privacy.plan import Budget, make_plan
from taskveil.tasks.task import TaskSet

Array = np.ndarray


@dataclass(frozen=True)
class Knobs:
    """Settings as arrays, those with the most rounds first."""

    order: Array
    rounds: Array
    step: Array
    clip: Array
    threshold: Array
    ridge: Array
    beta: Array  # (settings, rounds)
    scale: Array  # (settings, rounds) of the Wishart noise


class Batch:
    """One set of training rows."""

    def __init__(self, train: TaskSet) -> None:
        alone = runs.estimator(train, "local", None, 0).fit(train)
        block, self.public, self.scaling = alone._training, alone.record_.public, alone.scaling_
        self.start = alone.models_.coef[:, 0]  # (m, d)
        rows = [(np.asarray(block.X[r], float), np.asarray(block.y[r, 0], float)) for r in map(block.rows, range(block.n_tasks))]
        self.means = np.stack([X.mean(axis=0) for X, _ in rows]), np.array([y.mean() for _, y in rows])
        centred = [(X - X.mean(axis=0), y - y.mean()) for X, y in rows]
        self.gram = np.stack([X.T @ X / len(X) for X, _ in centred])  # (m, d, d)
        self.cross = np.stack([X.T @ y / len(X) for X, y in centred])[:, None]  # (m, 1, d)

    def knobs(self, name: str, settings: list[runs.Options], epsilon: float) -> Knobs:
        budget = Budget(epsilon, **runs.paper_budget(self.public.n_tasks))
        methods = [runs.tv.methods.get(name, **o) for o in settings]
        rounds = np.array([m.n_rounds(budget) for m in methods])
        order = np.argsort(-rounds, kind="stable")
        beta, scale = np.zeros((2, len(settings), rounds.max()))
        for i, at in enumerate(order):
            plan, T = make_plan(methods[at].requests(self.public, budget), budget), rounds[at]
            scale[i, :T] = [p.mechanism.scale for p in plan.releases]
            beta[i, :T] = [methods[at].momentum_at(t + 1, 1.0 / methods[at].step) for t in range(T)]
        column = lambda of: np.array([of(methods[i]) for i in order], float)  # noqa: E731
        return Knobs(order, rounds[order], column(lambda m: m.step), column(lambda m: m.bound), column(lambda m: m.step * m.penalty),
                     column(lambda m: m.strong_convexity), beta, scale)  # fmt: skip

    def models(self, name: str, settings: list[runs.Options], epsilon: float, rng: np.random.Generator) -> Array:
        """Final models in scaled units, (settings, m, d)."""
        k, (m, d) = self.knobs(name, settings, epsilon), self.start.shape
        final = np.zeros((len(settings), m, d))
        W = np.repeat(self.start[:, None], len(settings), axis=1)  # (m, settings, d)
        previous = clipped(W, k.clip)
        for t in range(int(k.rounds[0])):
            live = int(np.sum(k.rounds > t))
            sent = clipped(W[:, :live], k.clip[:live])
            by_setting = np.ascontiguousarray(sent.transpose(1, 2, 0))
            noise = rng.standard_normal((live, d, d + 1))
            S = by_setting @ by_setting.transpose(0, 2, 1) + k.scale[:live, t, None, None] * (noise @ noise.transpose(0, 2, 1))
            hat = mapped(name, sent, S, k.threshold[:live])
            on = int(np.sum(k.rounds > t + 1))
            final[k.order[on:live]] = hat[:, on:].transpose(1, 0, 2)
            Z = hat[:, :on] + k.beta[:on, t, None] * (hat[:, :on] - previous[:, :on])
            gradient = Z @ self.gram - self.cross + k.ridge[:on, None] * Z
            W, previous = Z - k.step[:on, None] * gradient, hat[:, :on]
        return final

    def errors(self, name: str, settings: list[runs.Options], epsilon: float, held: TaskSet, seed: int) -> Array:
        """nMSE on held rows, one for each setting."""
        found, task = [], held.task_of_row()
        for W in self.models(name, settings, epsilon, np.random.default_rng([seed, 7])):
            intercept = self.means[1] - np.einsum("md,md->m", self.means[0], W)
            coef, constant = self.scaling.coef_back(W[:, None], intercept[:, None])
            predicted = np.einsum("nd,nd->n", held.X, coef[task, 0]) + constant[task, 0]
            found.append(np.mean((held.y - predicted) ** 2) / np.var(held.y))
        return np.nan_to_num(np.array(found), nan=1e9)


def clipped(W: Array, bound: Array) -> Array:
    """Every model (m, settings, d) held to its setting's norm."""
    return W * np.minimum(1.0, bound / np.maximum(np.linalg.norm(W, axis=2), 1e-300))[..., None]


def mapped(name: str, sent: Array, S: Array, threshold: Array) -> Array:
    """Steps 6-9: eigenvalues of S, or its diagonal, thresholded."""
    if name == "group-sparse":
        diagonal = np.abs(np.diagonal(S, axis1=1, axis2=2))
        return sent * kept(diagonal, threshold)
    L, U = np.linalg.eigh(S)
    M = (U * kept(L, threshold)[:, None, :]) @ U.transpose(0, 2, 1)
    return (sent.transpose(1, 0, 2) @ M).transpose(1, 0, 2)


def kept(squares: Array, threshold: Array) -> Array:
    return np.maximum(0.0, 1.0 - threshold[:, None] / np.sqrt(np.maximum(squares, 1e-300)))


def usable(train: TaskSet, name: str) -> bool:
    return train.kind == "regression" and name in ("low-rank", "group-sparse")
