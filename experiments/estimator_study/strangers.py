"""Tables as a stranger would bring them: small, odd, and none of them made for us. A fresh draw or split for every seed.

Bundled tables of scikit-learn with tasks made up from a column, and drawn ones that are each odd in one way: tiny tasks, few
tasks, more features than rows, one huge task among tiny ones, constant targets, rare classes, counts, heavy tails, units that
differ, tasks that have nothing or the opposite in common.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from experiments.estimator_study.tables import Split
from sklearn import datasets

import taskveil as tv

Draw = Callable[[int], Split]
TEST_ROWS = 4000  # of a drawn table, about


def bundled(name: str, tasks: int, by: int, fraction: float, positive: int | None = None) -> Draw:
    """One task for every quantile of a column."""

    def draw(seed: int) -> Split:
        data = getattr(datasets, f"load_{name}")()
        order = np.argsort(np.argsort(data.data[:, by], kind="stable"), kind="stable")
        ids = np.char.mod("t%03d", order * tasks // len(order))
        y = data.target.astype(float) if name == "diabetes" else data.target
        y = np.where(data.target == positive, "yes", "no") if positive is not None else y
        return tv.split_rows(_table(np.delete(data.data, by, axis=1), y, ids), fraction, seed)

    return draw


def drawn(
    tasks: int, rows: int, features: int, *, own: float = 0.3, noise: float = 1.0, label: float | None = None, few: int = 0,
    odd: str = "",
) -> Draw:  # fmt: skip
    """Linear tables: a common model, own parts of relative size `own`; `label`: the share of a class; `few`: rows of all but one."""

    def draw(seed: int) -> Split:
        rng = np.random.default_rng([seed, tasks, rows, features, len(odd)])
        sizes = np.full(tasks, rows)
        if few:
            sizes[1:] = few
        W, level = _models(rng, tasks, features, own, odd), rng.normal(0.0, 0.3, tasks)
        parts = [_rows(rng, np.repeat(np.arange(tasks), n), W, level, noise, label, odd)
                 for n in (sizes, np.full(tasks, max(4, TEST_ROWS // tasks)))]  # fmt: skip
        return parts[0], parts[1]

    return draw


def _models(rng: np.random.Generator, tasks: int, features: int, own: float, odd: str) -> np.ndarray:
    common, other = rng.normal(size=features), rng.normal(size=(tasks, features))
    common = common * (0.0 if odd == "unrelated" else 1.0)
    sign = rng.choice([-1.0, 1.0], (tasks, 1)) if odd == "opposite" else 1.0
    return np.asarray((sign * common + (1.0 if odd == "unrelated" else own) * other) / np.sqrt(features))


def _rows(
    rng: np.random.Generator, task: np.ndarray, W: np.ndarray, level: np.ndarray, noise: float, label: float | None, odd: str
) -> tv.TaskSet:
    X = rng.normal(size=(len(task), W.shape[1]))
    score = np.einsum("nd,nd->n", X, W[task]) + level[task]
    wild = rng.standard_t(2.2, len(task)) if odd == "tails" else rng.normal(size=len(task))
    y: np.ndarray = score + noise * wild
    if odd == "tails":
        X = np.sign(X) * np.expm1(np.abs(X))
    elif odd == "counts":
        y = rng.poisson(np.exp(np.clip(0.5 * score, -4.0, 4.0))).astype(float)
    elif odd == "constants":
        y = np.where(task % 2 == 0, np.round(level[task], 1), y)
    elif odd == "units":
        X, y = X * 10.0 ** (np.arange(X.shape[1]) % 7 - 3) + 5.0, 1e4 * y + 3e5
    elif odd == "own units":
        X = X * np.where(task % 2 == 0, 1.0, 2.54)[:, None]
    elif odd == "categories":
        X = (X > np.linspace(0.0, 2.5, X.shape[1])).astype(float)
    if label is not None:
        edge = np.quantile(y, 1.0 - label)
        y = np.where(y > edge, "yes", "no")
    return _table(X, y, np.char.mod("t%04d", task))


def _table(X: np.ndarray, y: np.ndarray, ids: np.ndarray) -> tv.TaskSet:
    return tv.load_tasks((X, y, ids), kind="regression" if y.dtype.kind == "f" else "classification")


STRANGERS: dict[str, Draw] = {
    "diabetes by age": bundled("diabetes", 25, 0, 0.5),
    "diabetes few": bundled("diabetes", 6, 2, 0.5),
    "cancer": bundled("breast_cancer", 25, 0, 0.4),
    "wine": bundled("wine", 12, 0, 0.5),
    "digits is 8": bundled("digits", 40, 20, 0.4, positive=8),
    "tiny": drawn(300, 3, 5),
    "few tasks": drawn(5, 80, 8),
    "wide": drawn(60, 15, 60, noise=0.5),
    "one huge": drawn(50, 2000, 8, few=4),
    "constants": drawn(60, 12, 6, odd="constants"),
    "rare 3 %": drawn(150, 20, 6, label=0.03),
    "rare 6 %": drawn(60, 60, 10, label=0.06),
    "counts": drawn(100, 15, 6, odd="counts"),
    "tails": drawn(80, 20, 6, odd="tails"),
    "units": drawn(100, 15, 8, odd="units"),
    "own units": drawn(80, 25, 8, odd="own units"),
    "categories": drawn(120, 12, 20, odd="categories"),
    "opposite": drawn(80, 20, 8, odd="opposite"),
    "unrelated": drawn(100, 10, 8, odd="unrelated"),
    "noise": drawn(100, 10, 8, noise=10.0),
    "easy": drawn(40, 40, 5, noise=0.1),
    "labels": drawn(120, 12, 6, label=0.5),
    "few labels": drawn(186, 4, 21, label=0.4),
    "few rare labels": drawn(186, 4, 21, label=0.08),
}  # fmt: skip
