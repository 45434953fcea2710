"""The data of the items: writers we have, and a synthetic task for the one we have not.

    femnist         206 writers, images; *the file the authors call test data of LEAF's FEMNIST*, 2 to 50 rows a writer, because only that one
                    is available here: about a tenth of the rows the paper trains on. Accuracies are lower than the paper's for it
    mnist_writers   200 writers of digits; stands for CelebA, whose images are not available. Ten classes, near 0.97 alone: little to gain
    tags            synthetic: users who label short bags of words with a few tags; stands for StackOverflow

`tags` is made, not measured: 64 words, 20 tags, one linear rule shared by all users plus a deviation of each, and every user
prefers some tags. It has the form of the paper's tag prediction (linear model, many users), and says nothing about the
real one.

The model is softmax regression on 32 public features of the images (`strokes`: from random pen strokes that a program draws, no data); the
paper's is a CNN of 213,630 parameters on the pixels. A split is 70/30 inside every task. Settings are chosen on *validation* splits: the
training rows of other seeds, three quarters to learn from, one quarter to judge on; on mnist_writers of other writers, on tags of other worlds.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

import numpy as np

TRAIN_FRACTION, VALIDATION_FRACTION = 0.7, 0.25
FEATURES = {"name": "strokes", "width": 32}
WORDS, TAGS = 64, 20
FOLDS = 3
TASKS = {"femnist": 206, "mnist_writers": 200, "tags": 400}
FIRST = {"test": {"femnist": 0, "mnist_writers": 339}, "validation": {"femnist": 0, "mnist_writers": 0}}  # writers in the file
SEEDS = {"test": (200, 201, 202, 203, 204, 205), "validation": (0, 1, 2)}
STANDS_FOR = {
    "femnist": "FEMNIST (the authors' test file only)", "mnist_writers": "CelebA (stand-in: writers of digits)",
    "tags": "StackOverflow (stand-in: synthetic tags)",
}  # fmt: skip


def all_rows(name: str, seed: int, part: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels, task number of every row."""
    if name == "tags":
        return tags(seed)
    X, y, task = _written(name)
    first = FIRST[part][name]
    keep = (task >= first) & (task < first + TASKS[name])
    return X[keep], y[keep], task[keep] - first


@lru_cache(maxsize=2)
def _written(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Public features of all images of a file; ink is 1, paper 0."""
    from taskveil.engine.features import FeatureMap

    stored, y, task = writings(name)
    pixels = stored.astype(np.float32) / 255
    X = FeatureMap(FEATURES, pixels.shape[1])(1 - pixels if name == "femnist" else pixels)
    return np.asarray(X, np.float32), y, task


def writings(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images, labels, writers as they are stored."""
    from taskveil.errors import EnvironmentMissing

    root = os.environ.get("TASKVEIL_DATA")
    if root is None:
        raise EnvironmentMissing("set TASKVEIL_DATA to the folder with femnist and mnist_writers (taskveil data fetch)")
    file = Path(root) / name / f"{name}.npz"
    stored = np.load(file if file.exists() else Path(root) / f"{name}.npz", allow_pickle=False)
    return stored["X"], stored["y"].astype(int), stored["task"].astype(int)


def tags(seed: int, users: int = TASKS["tags"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of the synthetic task; every seed is another world."""
    rng = np.random.default_rng([seed, 500])
    user = np.repeat(np.arange(users), rng.integers(20, 61, users))
    common = rng.gamma(0.3, size=WORDS) / 3
    X = (rng.random((user.size, WORDS)) < np.clip(common + 0.02, 0, 0.5)).astype(np.float32)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    shared, own = rng.standard_normal((TAGS, WORDS)), rng.standard_normal((users, TAGS, WORDS))
    likes = np.log(rng.dirichlet(np.full(TAGS, 0.5), users) + 1e-3)
    scores = 6 * (X @ shared.T + 0.4 * np.einsum("nd,nkd->nk", X, own[user])) + likes[user]
    return X, (scores + rng.gumbel(size=scores.shape)).argmax(axis=1), user


def chosen_rows(task: np.ndarray, n_tasks: int, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """A mask with the fraction of every task's rows, at least one of each."""
    taken = np.zeros(task.size, bool)
    for k in range(n_tasks):
        rows = rng.permutation(np.flatnonzero(task == k))
        taken[rows[: max(1, round(fraction * rows.size))]] = True
    return taken


def split(name: str, seed: int, part: str, tasks: int | None = None) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Rows to learn from and rows to judge on, each (features, labels, task); the first `tasks` tasks only where given."""
    X, y, task = all_rows(name, seed, part)
    learn, judge = split_rows(task, TASKS[name], seed, part, tasks)
    return (X[learn], y[learn], task[learn]), (X[judge], y[judge], task[judge])


def split_rows(task: np.ndarray, n_tasks: int, seed: int, part: str, tasks: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of the rows to learn from and of those to judge on."""
    rng, few = np.random.default_rng(seed), task < (n_tasks if tasks is None else tasks)
    train = chosen_rows(task, n_tasks, TRAIN_FRACTION, rng)
    if part == "test":
        return np.flatnonzero(train & few), np.flatnonzero(~train & few)
    kept = np.flatnonzero(train & few)
    learn = chosen_rows(task[kept], n_tasks, 1 - VALIDATION_FRACTION, rng)
    return kept[learn], kept[~learn]


def prepared(name: str, tasks: int | None = None, seeds: dict[str, tuple[int, ...]] = SEEDS) -> dict[str, np.ndarray]:
    """All splits as stacked, padded arrays, named as tune.py reads them."""
    from experiments.hu_2023.simulate import padded

    found: dict[str, np.ndarray] = {}
    n_tasks = TASKS[name] if tasks is None else tasks
    for part, numbers in seeds.items():
        both = [split(name, seed, part, tasks) for seed in numbers]
        for side, suffix in ((0, ""), (1, "_judged")):
            width = max(int(np.bincount(b[side][2]).max()) for b in both)
            made = [padded(*b[side], n_tasks, width) for b in both]
            found |= {f"{part}{suffix}_{a}": np.stack([getattr(rows, a) for rows in made]) for a in ("X", "y", "weight")}
        found[f"{part}_folds"] = np.stack([folds(w, seed) for w, seed in zip(found[f"{part}_weight"], numbers, strict=True)])
    return found


def folds(weight: np.ndarray, seed: int) -> np.ndarray:
    """Fold 0, 1 or 2 of every row, balanced inside every task."""
    rng = np.random.default_rng([seed, 3])
    return np.stack([_dealt(row > 0, rng) for row in weight])


def _dealt(there: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    dealt = np.zeros(there.size, np.int32)
    dealt[there] = rng.permutation(np.arange(int(there.sum())) % FOLDS)
    return dealt
