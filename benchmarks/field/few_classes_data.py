"""Clients with few classes each: the nearest we can build to the 500 clients of 5 classes of Shen et al. 2023 (CENTAUR).

Their images (CIFAR and the like) are not available. Ours are digits by writer (`mnist_writers`, 539 writers of 10 digits). 500
writers drawn by the seed are the clients; each keeps 5 digits, drawn by the seed, and drops its other images. A fifth of what it
keeps, at random, is for training (2 to 14 images, median 12), the rest for testing; `train_fraction=0.5` gives a median of 29.
Clients differ in their digits and in their hand. Images are 16 x 16: a margin of two pixels, then squares of 2 x 2 pixels are
averaged. The seed draws writers, digits and parts; nothing is chosen by looking at a model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.tasks.catalogue import load_dataset

DATA, CLIENTS, CLASSES, TRAIN_FRACTION, SIDE = "mnist_writers", 500, 5, 0.2, 16


@dataclass(frozen=True)
class Split:
    """Images in [0, 1] (rows, 256), digits, and the client of every row; rows of a client stand together."""

    train: tuple[np.ndarray, np.ndarray, np.ndarray]
    test: tuple[np.ndarray, np.ndarray, np.ndarray]


def split(seed: int, clients: int = CLIENTS, classes: int = CLASSES, train_fraction: float = TRAIN_FRACTION) -> Split:
    tasks, rng = load_dataset(DATA), np.random.default_rng([2023, seed])
    y, writer = np.asarray(tasks.y).astype(int), tasks.task_of_row()
    digits, parts = np.unique(y), {True: [], False: []}
    for k, chosen in enumerate(np.sort(rng.permutation(tasks.n_tasks)[:clients])):
        own = np.flatnonzero(writer == chosen)
        own = rng.permutation(own[np.isin(y[own], rng.permutation(digits)[:classes])])
        first = round(len(own) * train_fraction)
        for training, rows in ((True, own[:first]), (False, own[first:])):
            parts[training].append((rows, np.full(len(rows), k)))
    return Split(*(_rows(np.asarray(tasks.X), y, parts[training]) for training in (True, False)))


def _rows(X: np.ndarray, y: np.ndarray, parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows, client = (np.concatenate(column) for column in zip(*parts))
    return smaller(X[rows]), y[rows], client


def smaller(X: np.ndarray) -> np.ndarray:
    """Images of 28 x 28 bytes as 16 x 16 numbers in [0, 1]."""
    images = np.pad(X.reshape(-1, 28, 28).astype(np.float32) / 255, ((0, 0), (2, 2), (2, 2)))
    return images.reshape(-1, SIDE, 2, SIDE, 2).mean(axis=(2, 4)).reshape(-1, SIDE * SIDE)
