"""HAR as in the paper ("sitting" against the rest), its light version, and the synthetic regression; splits without leaks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.tasks.catalogue import find
from taskveil.tasks.files import read_npz
from taskveil.tasks.task import TaskSet

POSITIVE = "SITTING"


@dataclass(frozen=True)
class Split:
    """Training and test tasks; `runs` names the recording of every training row, for inner splits."""

    train: TaskSet
    test: TaskSet
    runs: np.ndarray


def har_split(
    seed: int, n_tasks: int = 20, light: int | None = None, train_fraction: float = 0.7, by_recording: bool = True
) -> Split:
    """Whole recordings go to one side: windows of one recording overlap by half. Stratified by activity within a subject.

    `light` keeps that many training rows per task ("light UCIHAR": 100). `by_recording=False` deals out single windows, so that
    halves of the same second land on both sides: wrong, and kept to see what it does to the comparison.
    """
    arrays = read_npz(find("har"))
    y, task = arrays["y"].astype(int), arrays["task"]
    recording = y * 1000 + arrays["run"]  # run numbers restart with every subject and activity
    label = np.where(arrays["activity_names"][y].astype(str) == POSITIVE, 1, 0)
    rng = np.random.default_rng(seed)
    train, test = [], []
    for k in range(n_tasks):
        rows = np.flatnonzero(task == k)
        chosen = (
            stratified_runs(recording[rows], y[rows], train_fraction, rng)
            if by_recording
            else rng.random(rows.size) < train_fraction
        )
        kept = rows[chosen]
        if light is not None:
            kept = np.sort(rng.permutation(kept)[:light])
        train.append(kept)
        test.append(rows[~chosen])
    names = arrays["task_names"].astype(str)
    pick = lambda parts: TaskSet.from_arrays(  # noqa: E731
        arrays["X"][np.concatenate(parts)], label[np.concatenate(parts)], names[task[np.concatenate(parts)]],
        kind="classification",
    )  # fmt: skip
    made = pick(train)
    return Split(made, pick(test), recording[np.concatenate(train)][made.row_index])


def stratified_runs(recording: np.ndarray, stratum: np.ndarray, fraction: float, rng: np.random.Generator) -> np.ndarray:
    """Row mask: in every stratum about this fraction of the recordings, at least one and not all where there are two."""
    chosen = np.zeros(recording.size, dtype=bool)
    for s in np.unique(stratum):
        runs = np.unique(recording[stratum == s])
        rng.shuffle(runs)
        count = max(1, min(runs.size - 1, round(fraction * runs.size)))
        chosen |= np.isin(recording, runs[:count])
    return chosen


def inner_split(split: Split, seed: int, fraction: float = 0.7) -> tuple[TaskSet, TaskSet]:
    """A split of the training part by recordings, for choosing constants without the test part."""
    rng = np.random.default_rng([seed, 1])
    mask = np.zeros(split.train.n_rows, dtype=bool)
    for i in range(split.train.n_tasks):
        rows = split.train.rows(i)
        mask[rows] = stratified_runs(split.runs[rows], np.asarray(split.train.y[rows]), fraction, rng)
    return split.train.select(mask), split.train.select(~mask)


def synthetic_regression(
    seed: int, heterogeneous: bool, n_tasks: int = 20, rows: int = 200, features: int = 200, decibel: float = 20.0
) -> Split:
    """Tasks with a shared and an own part; noise at the given signal-to-noise ratio; heterogeneous: own means and spreads of x.

    The paper does not say how alike its tasks are; here |own| = 0.3 |shared|.
    """
    rng = np.random.default_rng(seed)
    shared = rng.standard_normal(features) / np.sqrt(features)
    X, y, names = [], [], []
    for k in range(n_tasks):
        x = rng.standard_normal((2 * rows, features))
        if heterogeneous:
            x = x * rng.uniform(0.5, 2.0) + rng.normal(0.0, 0.5)
        w = shared + 0.3 * rng.standard_normal(features) / np.sqrt(features)
        signal = x @ w
        noise = rng.standard_normal(2 * rows) * np.std(signal) * 10 ** (-decibel / 20)
        X.append(x), y.append(signal + noise), names.extend([f"task {k:02d}"] * (2 * rows))
    first = np.tile(np.arange(2 * rows) < rows, n_tasks)
    X, y, names = np.vstack(X), np.concatenate(y), np.asarray(names)
    make = lambda m: TaskSet.from_arrays(X[m], y[m], names[m], kind="regression")  # noqa: E731
    return Split(make(first), make(~first), np.zeros(int(first.sum()), dtype=int))
