"""More tables of strangers, each odd in one more way: groups of tasks, shapes that are not linear, classes, sizes, columns that help nobody.

Drawn like those of strangers.py and run by the same sweep. Seeds below 8000 were looked at.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from experiments.estimator_study.strangers import TEST_ROWS, Draw, _table
from sklearn import datasets

import taskveil as tv

Rows = tuple[np.ndarray, np.ndarray]
Maker = Callable[[np.random.Generator, np.ndarray, Any], Rows]  # (rng, task of each row, what tasks are like) -> X, y


def made(tasks: int, rows: int, tasks_are: Callable[[np.random.Generator, int], Any], maker: Maker, sizes: str = "") -> Draw:
    def draw(seed: int) -> tuple[tv.TaskSet, tv.TaskSet]:
        rng = np.random.default_rng([seed, tasks, rows])
        counts = np.full(tasks, rows)
        if sizes == "uneven":
            counts = np.maximum(1, np.round(rows * np.exp(rng.normal(0.0, 1.5, tasks)))).astype(int)
        what = tasks_are(rng, tasks)
        parts = []
        for n in (counts, np.full(tasks, max(4, TEST_ROWS // tasks))):
            task = np.repeat(np.arange(tasks), n)
            X, y = maker(rng, task, what)
            parts.append(_table(X, y, np.char.mod("t%04d", task)))
        return parts[0], parts[1]

    return draw


def linear(features: int, *, groups: int = 0, own: float = 0.3, common: float = 1.0, level: float = 0.3) -> Callable[..., Any]:
    """Models of tasks (m, d) and levels (m,): around one centre, or one of a few."""

    def models(rng: np.random.Generator, tasks: int) -> Any:
        centres = common * rng.normal(size=(max(1, groups), features))
        W = centres[rng.integers(len(centres), size=tasks)] + own * rng.normal(size=(tasks, features))
        return W / np.sqrt(features), rng.normal(0.0, level, tasks)

    return models


def plain(
    noise: float = 1.0, shape: Callable[..., np.ndarray] | None = None, ends: Callable[..., np.ndarray] | None = None
) -> Maker:
    """Normal rows of some shape, a linear score, noise, and what the target makes of it."""

    def maker(rng: np.random.Generator, task: np.ndarray, what: Any) -> Rows:
        W, level = what
        X = rng.normal(size=(len(task), W.shape[1]))
        X = X if shape is None else shape(rng, X, task)
        score = np.einsum("nd,nd->n", X, W[task]) + level[task]
        y = score + noise * rng.normal(size=len(task))
        return X, y if ends is None else ends(rng, score, y, X, task)

    return maker


def named(y: np.ndarray) -> np.ndarray:
    return np.char.mod("c%02d", y.astype(int))


def classes(count: int, features: int, own: float, sharp: float = 2.0) -> tuple[Callable[..., Any], Maker]:
    def models(rng: np.random.Generator, tasks: int) -> Any:
        common = rng.normal(size=(count, features))
        return (common + own * rng.normal(size=(tasks, count, features))) / np.sqrt(features)

    def maker(rng: np.random.Generator, task: np.ndarray, W: Any) -> Rows:
        X = rng.normal(size=(len(task), features))
        scores = sharp * np.einsum("nd,nkd->nk", X, W[task]) + rng.gumbel(size=(len(task), count))
        return X, named(scores.argmax(axis=1))

    return models, maker


def correlated(rng: np.random.Generator, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    return 0.3 * X + rng.normal(size=(len(X), 1))


def repeated(rng: np.random.Generator, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    half = X.shape[1] // 2
    X[:, half : 2 * half] = X[:, :half]
    return X


def of_tasks(rng: np.random.Generator, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    """Half of the columns are constant in every task."""
    half = X.shape[1] // 2
    X[:, :half] = np.random.default_rng(7).normal(size=(task.max() + 1, half))[task]
    return X


def wild_rows(rng: np.random.Generator, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    return X * np.where(rng.random(len(X)) < 0.02, 30.0, 1.0)[:, None]


def bent(rng: np.random.Generator, score: np.ndarray, y: np.ndarray, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    return np.sin(2.0 * X[:, 0]) + np.square(X[:, 1]) + 0.5 * X[:, 2] * X[:, 3] + 0.3 * y


def skewed(rng: np.random.Generator, score: np.ndarray, y: np.ndarray, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    return np.exp(np.clip(y, -5.0, 5.0))


def rated(rng: np.random.Generator, score: np.ndarray, y: np.ndarray, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    return np.clip(np.round(3.0 + y), 1.0, 5.0)


def mostly_none(rng: np.random.Generator, score: np.ndarray, y: np.ndarray, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    return np.maximum(0.0, y - 1.0)


def scales_differ(rng: np.random.Generator, score: np.ndarray, y: np.ndarray, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    return y * np.where(task % 2 == 0, 1.0, 10.0) + np.where(task % 3 == 0, 0.0, 20.0)


def noises_differ(rng: np.random.Generator, score: np.ndarray, y: np.ndarray, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    return score + rng.normal(size=len(y)) * np.array([0.2, 1.0, 5.0])[task % 3]


def labelled(share: float) -> Callable[..., np.ndarray]:
    def ends(rng: np.random.Generator, score: np.ndarray, y: np.ndarray, X: np.ndarray, task: np.ndarray) -> np.ndarray:
        return np.where(y > np.quantile(y, 1.0 - share), "yes", "no")

    return ends


def gross(rng: np.random.Generator, score: np.ndarray, y: np.ndarray, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    return np.where(rng.random(len(y)) < 0.02, 100.0, 1.0) * y


def of_classes(name: str, tasks: int, fraction: float) -> Draw:
    """Rows of a bundled table of classes, dealt at random to tasks: nothing tells them apart."""

    def draw(seed: int) -> tuple[tv.TaskSet, tv.TaskSet]:
        data = getattr(datasets, f"load_{name}")()
        ids = np.char.mod("t%03d", np.random.default_rng(seed).integers(tasks, size=len(data.target)))
        return tv.split_rows(_table(data.data, named(data.target), ids), fraction, seed)

    return draw


NEWCOMERS: dict[str, Draw] = {
    "three groups": made(90, 15, linear(8, groups=3), plain()),
    "three groups, labels": made(90, 25, linear(8, groups=3), plain(0.5, ends=labelled(0.5))),
    "correlated": made(80, 20, linear(12), plain(shape=correlated)),
    "repeated columns": made(80, 15, linear(12), plain(shape=repeated)),
    "columns of tasks": made(100, 10, linear(8), plain(shape=of_tasks)),
    "bent": made(80, 20, linear(6), plain(ends=bent)),
    "skewed": made(80, 20, linear(6), plain(0.5, ends=skewed)),
    "ratings": made(100, 12, linear(6), plain(ends=rated)),
    "mostly none": made(100, 15, linear(6), plain(ends=mostly_none)),
    "target scales": made(80, 20, linear(6), plain(ends=scales_differ)),
    "noises differ": made(90, 15, linear(6), plain(ends=noises_differ)),
    "gross errors": made(80, 30, linear(6), plain(ends=gross)),
    "wild rows": made(80, 20, linear(6), plain(shape=wild_rows)),
    "uneven": made(100, 15, linear(8), plain(), "uneven"),
    "uneven labels": made(100, 20, linear(8), plain(0.5, ends=labelled(0.3)), "uneven"),
    "tall": made(20, 300, linear(5), plain()),
    "only levels": made(100, 12, linear(6, own=0.0, common=0.0, level=1.5), plain()),
    "same slopes, far levels": made(100, 12, linear(6, own=0.0, level=3.0), plain()),
    "levels of labels": made(100, 15, linear(6, own=0.0, common=0.5, level=2.0), plain(ends=labelled(0.4))),
    "all the same": made(60, 15, linear(6, own=0.0, level=0.0), plain()),
    "one column": made(200, 8, linear(1), plain()),
    "exact": made(60, 15, linear(8), plain(0.0)),
    "three tasks": made(3, 30, linear(5), plain()),
    "many tiny labels": made(400, 5, linear(4), plain(0.5, ends=labelled(0.4))),
    "many tasks": made(1000, 6, linear(3), plain()),
    "few of many columns": made(100, 15, lambda rng, m: (linear(50, own=0.1)(rng, m)[0] * (np.arange(50) < 3) * 4, np.zeros(m)), plain()),
    "opposite labels": made(80, 25, lambda rng, m: (rng.choice([-1.0, 1.0], (m, 1)) * rng.normal(size=(1, 8)), np.zeros(m)), plain(ends=labelled(0.5))),
    "unrelated labels": made(80, 25, linear(8, own=1.0, common=0.0), plain(0.5, ends=labelled(0.5))),
    "noise labels": made(100, 12, linear(8), plain(30.0, ends=labelled(0.5))),
    "four classes": made(80, 25, *classes(4, 8, 0.3)),
    "four classes, own": made(60, 40, *classes(4, 6, 1.0)),
    "ten classes": made(60, 40, *classes(10, 10, 0.3)),
    "iris dealt": of_classes("iris", 8, 0.5),
    "wine dealt": of_classes("wine", 10, 0.5),
    "digits dealt": of_classes("digits", 30, 0.5),
}  # fmt: skip
