"""Algorithms 2 and 3 as printed for squared loss, many settings at once: to choose settings with, seven times as fast as fits.

The steps are those of `low-rank` and `group-sparse` with variant="paper" (a test compares their models), and so are the noise's law and
scale; the draws are others. Figures are made with the library itself, but for Fig. 4, which is cross-validation anyway, and `two-budgets`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from experiments.liang_2020 import runs
from taskveil.privacy.calibrate import geometric, power, uniform
from taskveil.privacy.contributions import OuterSum
from taskveil.privacy.plan import Budget, Request, make_plan
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

    def knobs(self, settings: list[runs.Options], epsilon: float) -> Knobs:
        rounds = np.array([o["rounds"] for o in settings])
        order = np.argsort(-rounds, kind="stable")
        beta, scale = np.zeros((2, len(settings), rounds.max()))
        for i, at in enumerate(order):
            T, o = rounds[at], settings[at]
            beta[i, :T] = momentum(o, np.arange(1, T + 1))
            scale[i, :T] = noise_scales(o, epsilon, *self.start.shape)
        column = lambda of: np.array([of(settings[i]) for i in order], float)  # noqa: E731
        return Knobs(
            order, rounds[order], column(lambda o: o["step"]), column(lambda o: o["clip"]), column(lambda o: o["step"] * o["penalty"]),
            column(lambda o: o.get("strong_convexity", 0.0)), beta, scale,
        )  # fmt: skip

    def models(
        self, name: str, settings: list[runs.Options], epsilon: float, rng: np.random.Generator, epsilon_dp: float | None = None
    ) -> Array:
        """Final models in scaled units, (settings, m, d); with `epsilon_dp` every message has noise of its own (Algorithm 5)."""
        k, (m, d) = self.knobs(settings, epsilon), self.start.shape
        final = np.zeros((len(settings), m, d))
        W = np.repeat(self.start[:, None], len(settings), axis=1)  # (m, settings, d)
        previous = clipped(W, k.clip)
        for t in range(int(k.rounds[0])):
            live = int(np.sum(k.rounds > t))
            sent = clipped(W[:, :live], k.clip[:live])
            if epsilon_dp is not None:
                sent = sent + model_noise(sent.shape, 2 * k.clip[:live] * k.rounds[:live] / epsilon_dp, rng)
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

    def errors(
        self, name: str, settings: list[runs.Options], epsilon: float, held: TaskSet, seed: int, epsilon_dp: float | None = None
    ) -> Array:
        """nMSE on held rows, one for each setting."""
        found, task = [], held.task_of_row()
        for W in self.models(name, settings, epsilon, np.random.default_rng([seed, 7]), epsilon_dp):
            intercept = self.means[1] - np.einsum("md,md->m", self.means[0], W)
            coef, constant = self.scaling.coef_back(W[:, None], intercept[:, None])
            predicted = np.einsum("nd,nd->n", held.X, coef[task, 0]) + constant[task, 0]
            found.append(np.mean((held.y - predicted) ** 2) / np.var(held.y))
        return np.nan_to_num(np.array(found), nan=1e9)


def momentum(options: runs.Options, t: Array) -> Array:
    """beta_t of step 10; the curvature is 1/step."""
    kind = options.get("momentum", "accelerated")
    if kind == "strong":
        root = np.sqrt(min(options["strong_convexity"] * options["step"], 1.0))
        return np.full(t.size, (1 - root) / (1 + root))
    return (t - 1.0) / (t + 2.0) if kind == "accelerated" else np.zeros(t.size)


def noise_scales(options: runs.Options, epsilon: float, tasks: int, features: int) -> list[float]:
    """Of every round's Wishart noise, by the printed composition and allocation."""
    kind, rounds = options.get("allocation", "uniform"), options["rounds"]
    shares = uniform(rounds) if kind == "uniform" else {"power": power, "geometric": geometric}[kind](rounds, options["exponent"])
    what = OuterSum(features, options["clip"], 1)
    asked = [Request("second-moment", t + 1, what, weight=float(share)) for t, share in enumerate(shares)]
    plan = make_plan(asked, Budget(epsilon, **runs.paper_budget(tasks)))
    return [release.mechanism.scale for release in plan.releases]  # type: ignore[attr-defined]


def clipped(W: Array, bound: Array) -> Array:
    """Every model (m, settings, d) held to its setting's norm."""
    return W * np.minimum(1.0, bound / np.maximum(np.linalg.norm(W, axis=2), 1e-300))[..., None]


def model_noise(shape: tuple[int, ...], scale: Array, rng: np.random.Generator) -> Array:
    """Density exp(-|b| / scale) for every message (m, settings, d): Algorithm 5's step 4, its density the right way up."""
    direction = rng.standard_normal(shape)
    length = rng.gamma(shape[2], scale, shape[:2])
    return direction * (length / np.linalg.norm(direction, axis=2))[..., None]


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
