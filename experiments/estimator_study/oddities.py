"""Ten more tables of strangers: panels, sizes that differ by hundreds, one-hot tables, near copies of columns, ranks, rare events.

Drawn like those of newcomers.py and run by the same sweep.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from experiments.estimator_study.newcomers import labelled, linear, made, plain
from experiments.estimator_study.strangers import TEST_ROWS, Draw, _table

import taskveil as tv


def panel(tasks: int, years: int) -> Draw:
    """Years of a few quantities that grow by a rate of each task's own; the last years are the test."""

    def draw(seed: int) -> tuple[tv.TaskSet, tv.TaskSet]:
        rng = np.random.default_rng([seed, tasks, years])
        task, year = np.repeat(np.arange(tasks), 2 * years), np.tile(np.arange(2 * years), tasks)
        size = np.exp(rng.normal(0.0, 1.5, tasks))[task]
        X = rng.standard_t(3.0, (len(task), 4)) + 0.05 * year[:, None] * rng.normal(1.0, 0.5, (tasks, 4))[task]
        X = size[:, None] * np.exp(0.4 * X)
        y = 0.1 * X[:, 0] + 0.3 * X[:, 1] + size * (0.05 * year + 0.3 * rng.standard_t(2.5, len(task)))
        known = rng.random(len(task)) < 0.5
        ids = np.char.mod("t%03d", task)
        rows = np.column_stack([X, year])
        return _table(rows[known], y[known], ids[known]), _table(rows[~known], y[~known], ids[~known])

    return draw


def sized(sizes: list[int], features: int, noise: float = 1.0) -> Draw:
    """A few tasks of very different sizes."""

    def draw(seed: int) -> tuple[tv.TaskSet, tv.TaskSet]:
        rng = np.random.default_rng([seed, len(sizes), features])
        what = linear(features)(rng, len(sizes))
        parts = []
        for counts in (np.array(sizes), np.full(len(sizes), TEST_ROWS // len(sizes))):
            task = np.repeat(np.arange(len(sizes)), counts)
            parts.append(_table(*plain(noise)(rng, task, what), np.char.mod("t%03d", task)))
        return parts[0], parts[1]

    return draw


def one_hot(rng: np.random.Generator, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    """Three factors of 6, 10 and 14 levels, some of them rare."""
    parts = []
    for k, levels in enumerate((6, 10, 14)):
        chances = np.random.default_rng(k).dirichlet(np.full(levels, 0.7))
        parts.append(np.eye(levels)[rng.choice(levels, size=len(X), p=chances)])
    return np.hstack(parts)


def near_copies(rng: np.random.Generator, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    half = X.shape[1] // 2
    return np.hstack([X[:, :half], X[:, :half] + 1e-3 * X[:, half:]])


def identifiers(rng: np.random.Generator, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    """A running number, and a code of the task itself, stand among the columns."""
    X[:, 0], X[:, 1] = np.arange(len(X)) + 10_000_000, 1000 + 7 * task
    return X


def ranks(rng: np.random.Generator, score: np.ndarray, y: np.ndarray, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    return np.searchsorted(np.quantile(y, [0.7, 0.85, 0.95]), y).astype(float)


def own_coins(rng: np.random.Generator, score: np.ndarray, y: np.ndarray, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    """Targets in a unit of the task's own, over eight decades."""
    return y * 10.0 ** (task % 9 - 4.0)


def without_codes(features: int) -> Any:
    def models(rng: np.random.Generator, tasks: int) -> Any:
        W, level = linear(features)(rng, tasks)
        W[:, :2] = 0.0
        return W, level

    return models


def wild_columns(rng: np.random.Generator, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    """Amounts: each column over orders of magnitude, most of it small."""
    return np.exp(2.0 * X)


def logged(rng: np.random.Generator, score: np.ndarray, y: np.ndarray, X: np.ndarray, task: np.ndarray) -> np.ndarray:
    """What depends on the amounts by their logarithms."""
    return np.asarray(np.log(X).sum(axis=1) / 4.0 + 0.5 * rng.normal(size=len(X)))


ODDITIES: dict[str, Draw] = {
    "panel": panel(40, 10),
    "sizes differ": sized([2000, 400, 60, 20, 8, 5, 4, 3, 2, 1], 6),
    "one-hot": made(60, 25, linear(30, own=0.5), plain(shape=one_hot)),
    "near copies": made(60, 15, linear(12), plain(shape=near_copies)),
    "ranks": made(100, 15, linear(6), plain(ends=ranks)),
    "rare events": made(250, 8, linear(6), plain(0.5, ends=labelled(0.04))),
    "own coins": made(90, 12, linear(6), plain(ends=own_coins)),
    "identifiers": made(80, 15, without_codes(8), plain(shape=identifiers)),
    "single rows": made(300, 2, linear(4), plain(), "uneven"),
    "amounts": made(80, 15, linear(5, own=0.0, level=0.5), plain(shape=wild_columns, ends=logged)),
}  # fmt: skip
