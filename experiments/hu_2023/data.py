"""The data of the items: writers we have, and a synthetic task for the one we have not.

    femnist         206 writers; stands for itself
    mnist_writers   200 writers of digits; stands for CelebA, whose images are not available
    tags            synthetic: users who label short bags of words with a few tags; stands for StackOverflow

`tags` is made, not measured: 64 words, 20 tags, one linear rule shared by all users plus a deviation of each, and every user
prefers some tags. It has the form of the paper's tag prediction (linear model, many users), and says nothing about the
real one. Quick runs take 130 tasks, at most 30 rows of each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.hu_2023 import run, settings

QUICK_TASKS, QUICK_ROWS = 130, 30
WORDS, TAGS = 64, 20


@dataclass(frozen=True)
class World:
    """Training block, test rows (features, labels, task) and what is public about them."""

    name: str
    block: Any
    test: tuple[np.ndarray, ...]
    public: Any

    @property
    def tested(self) -> np.ndarray:
        return np.bincount(self.test[2], minlength=self.block.n_tasks)

    def accuracy(self, correct: np.ndarray) -> float:
        return float(correct.sum() / len(self.test[1]))

    def by_task(self, correct: np.ndarray) -> np.ndarray:
        """Accuracy of every task that has test rows."""
        some = self.tested > 0
        return correct[some] / self.tested[some]


def world(name: str, seed: int, quick: bool) -> World:
    from taskveil.methods.base import PublicInfo

    block, test = tags(seed) if name == "tags" else run.load(name, seed)
    if quick:
        block, test = _smaller(block, test)
    public = PublicInfo(block.n_tasks, block.n_features, block.n_outputs, "classification", seed=seed)
    return World(name, block, test, public)


def tags(seed: int, users: int = settings.TAGS["n_tasks"]) -> tuple[Any, tuple[np.ndarray, ...]]:
    """Training block and test rows of the synthetic task, 70/30 inside every user."""
    rng = np.random.default_rng([seed, 500])
    sizes = rng.integers(20, 61, users)
    user = np.repeat(np.arange(users), sizes)
    common = rng.gamma(0.3, size=WORDS) / 3
    X = (rng.random((user.size, WORDS)) < np.clip(common + 0.02, 0, 0.5)).astype(np.float32)
    X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1.0)
    shared, own = rng.standard_normal((TAGS, WORDS)), rng.standard_normal((users, TAGS, WORDS))
    likes = np.log(rng.dirichlet(np.full(TAGS, 0.5), users) + 1e-3)
    scores = 6 * (X @ shared.T + 0.4 * np.einsum("nd,nkd->nk", X, own[user])) + likes[user]
    y = (scores + rng.gumbel(size=scores.shape)).argmax(axis=1)
    train = _most_rows(user, users, rng)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(user[train], minlength=users))])
    return _block(X[train], y[train], offsets, TAGS), (X[~train], y[~train], user[~train])


def _most_rows(task: np.ndarray, n_tasks: int, rng: np.random.Generator) -> np.ndarray:
    train = np.zeros(task.size, bool)
    for k in range(n_tasks):
        rows = rng.permutation(np.flatnonzero(task == k))
        train[rows[: max(1, round(settings.TRAIN_FRACTION * rows.size))]] = True
    return train


def _block(X: np.ndarray, y: np.ndarray, offsets: np.ndarray, classes: int) -> Any:
    from taskveil.tasks.block import TaskBlock

    return TaskBlock(X, np.where(np.arange(classes) == y[:, None], 1.0, -1.0), offsets, kind="classification")


def _smaller(block: Any, test: tuple[np.ndarray, ...]) -> tuple[Any, tuple[np.ndarray, ...]]:
    """The first tasks, and the first rows of each."""
    within = np.arange(block.n_rows) - block.offsets[:-1][block.task_of_row]
    keep = (block.task_of_row < QUICK_TASKS) & (within < QUICK_ROWS)
    counts = np.bincount(block.task_of_row[keep], minlength=QUICK_TASKS)[:QUICK_TASKS]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    few = test[2] < QUICK_TASKS
    X, y, task = (part[few] for part in test)
    return _block(block.X[keep], block.y[keep].argmax(axis=1), offsets, block.n_outputs), (X, y, task)
