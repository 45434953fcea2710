"""FEMNIST writers at client level (Hu, Wu, Smith 2023): our methods by the library, the printed algorithm from experiments/hu_2023."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from experiments.hu_2023.data import FEATURES, SEEDS, TASKS, split

from benchmarks.field.setting import OURS, REWRITTEN, Bar, Entry, Published, Setting
from taskveil import methods
from taskveil.methods.base import PublicInfo
from taskveil.privacy.plan import Budget, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime import in_process
from taskveil.runtime.run import Run
from taskveil.tasks.block import TaskBlock

STORED = Path(__file__).parents[2] / "experiments" / "hu_2023"
CLASSES, M = 62, TASKS["femnist"]
PRINTED = {0.1: 0.371, 0.8: 0.498, 2.0: 0.621}
WRITERS = "all other writers together"
THEIRS = "claimed: all other writers together; see below"
COMMON: dict[str, Any] = {  # one setting for all epsilons, found on other rows: experiments/hu_2023
    "model": "softmax", "learning_rate": 10.0, "batch_size": None, "clip": 2.0, "server_rate": 90.0,
    "tune_steps": 60, "tune_rate": 10.0, "tune_batch": None, "folds": 3,
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "mean": {"local_steps": 100, "strength": 0.003}, "fedavg": {"local_steps": 20},
    "pp-sgd": {"local_steps": 20, "clip": 0.2, "server_rate": 300.0},
}  # fmt: skip
PLAIN = {"clip": 1e5, "server_rate": 3.0, "rounds": 300}  # without noise


def accuracy(name: str, personalise: str, epsilon: float | None, seed: int, **more: Any) -> float:
    (X, y, task), (held, labels, writer) = split("femnist", seed, "test")
    options = COMMON | OPTIONS[name] | (PLAIN if epsilon is None else {}) | more
    method = methods.get(name, **options, personalise=personalise).under("task", "sound")
    columns = np.where(np.arange(CLASSES) == y[:, None], 1.0, -1.0)
    order = np.argsort(task, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=M))])
    public = PublicInfo(M, FEATURES["width"], CLASSES, "classification", seed=seed)
    budget = Budget(epsilon, 1 / M, neighbours="add-remove")
    plan = make_plan(method.requests(public, budget), budget)
    block = TaskBlock(X[order], columns[order], offsets, kind="classification")
    record = in_process.run(Run(method, public, plan, source=insecure_seeded_noise(1000 + seed)), block)
    scores = method.predict_scores(record, record.models, held, writer)
    return float((scores.argmax(axis=1) == labels).mean())


def printed(column: str, epsilon: float, seed: int) -> float:
    """Algorithm 1 as printed on this split: the mean over its noise draws."""
    found = json.loads((STORED / "measured.json").read_text())["femnist"]["printed/mean"][str(epsilon)][column]
    return float(np.mean(found[SEEDS["test"].index(seed)]))


def _stamp() -> dict[str, Any]:
    return json.loads((STORED / "results" / "table1.json").read_text())["run"]


def _entry(what: str, who: str, name: str, personalise: str, epsilon: float | None, **more: Any) -> Entry:
    run = partial(accuracy, name, personalise, epsilon, **more)
    return Entry(what, who, run, epsilon, WRITERS if epsilon is not None else "")


def _theirs(what: str, column: str, epsilon: float) -> Entry:
    stamp = _stamp()
    run = partial(printed, column, epsilon)
    return Entry(what, REWRITTEN, run, epsilon, THEIRS, (stamp["date"], stamp["versions"]))


def _private(epsilon: float) -> tuple[Entry, ...]:
    return (
        _theirs("PMTL, as printed", "published", epsilon),
        _theirs("PMTL, as printed, chosen by each writer", "chosen", epsilon),
        _entry("PMTL, Algorithm 1, sound cohorts", REWRITTEN, "mean", "none", epsilon),
        _entry("FedAvg, one model", REWRITTEN, "fedavg", "none", epsilon),
        _entry("PP-SGD", REWRITTEN, "pp-sgd", "none", epsilon),
        _entry("mean, chosen by each writer", OURS, "mean", "choose", epsilon),
    )


SETTING = Setting(
    name="femnist-writers",
    title="FEMNIST writers",
    source="Hu, Wu, Smith 2023, Private Multi-Task Learning, Table 1",
    measure="accuracy over all test images",
    guarantee="all images of one writer, add-remove, delta 1/206",
    protocol="206 writers, 62 classes, 70/30 inside every writer, six seeds; softmax regression on 32 features made without data. Theirs is another cut of the data and a CNN of 213,630 "
    "parameters: the printed figures stand here for orientation, the re-run peers are the comparison. Clip and step were chosen on other rows, for all methods alike, and that choice is not charged.",
    seeds=SEEDS["test"],
    published=tuple(Published("PMTL", value, epsilon) for epsilon, value in PRINTED.items()),
    entries=(
        *(entry for epsilon in PRINTED for entry in _private(epsilon)),
        _entry("alone", OURS, "mean", "alone", None, rounds=1),
        _entry("mean, chosen by each writer", OURS, "mean", "choose", None),
    ),
    bars=(
        Bar(
            "`mean` is not below PMTL re-run at the same guarantee at any epsilon, nor below alone",
            lambda s: all(
                s[f"mean, chosen by each writer, epsilon {e:g}"]
                >= max(s[f"PMTL, Algorithm 1, sound cohorts, epsilon {e:g}"], s["alone"])
                for e in PRINTED
            ),
        ),
        Bar(
            "`mean` is not below PMTL as printed, whose epsilon promises less, at any stated epsilon",
            lambda s: all(
                s[f"mean, chosen by each writer, epsilon {e:g}"]
                >= max(s[f"PMTL, as printed, epsilon {e:g}"], s[f"PMTL, as printed, chosen by each writer, epsilon {e:g}"])
                for e in PRINTED
            ),
        ),
        Bar(
            "`mean` is not below the figure printed for PMTL at epsilon 2 (another cut, a larger model)",
            lambda s: s["mean, chosen by each writer, epsilon 2"] >= 0.621,
        ),
    ),
    remarks=(
        "PMTL as printed draws exactly 100 writers a round and counts that as Poisson sampling of replaced data at a sensitivity of one clip: what its "
        "epsilon protects is less than that of the other rows (experiments/hu_2023 says how much less, fig3). Its settings are the best of its whole grid "
        "at every epsilon on validation rows; the other rows have one setting for all. Its figures are those of experiments/hu_2023.",
    ),
    peers="Re-run peers are ours: the authors' PyTorch scripts (s-huu/PMTL 9e849ad) train on a file that is not available here; these writers are those of their test file, split again.",
)
