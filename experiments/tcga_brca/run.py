"""Survival of breast-cancer patients by region: concordance alone, pooled and shared, without noise and with rows protected.

    python -m experiments.tcga_brca.run PATH/tcga_brca.csv [--splits 20]

FLamby's fixed split (the column `fold`) and random splits, 70 % of every region's events and of its other rows for training.
Figures are concordances within regions, averaged over them. Every split is added to results.json as soon as it is done.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

import taskveil as tv
from taskveil import methods
from taskveil.estimators.metrics import concordance, over_tasks

RESULTS = Path(__file__).parent / "results.json"
BOUNDS = {
    "features": {"age_at_index": [0, 100], "*": [0, 1]},
    "target": [0, 3650],
}  # from what the columns mean: years, yes or no
PUBLISHED = {"FedAdam": 0.815, "FedAdagrad": 0.813, "FedAvg": 0.732, "Scaffold": 0.687, "pooled": 0.676}  # FLamby, none private
PLAIN = ("local", "pooled", "mean", "together")


def load(path: str, bounds: dict | None) -> tv.TaskSet:
    columns = {"task": "region", "target": "days", "event": "event", "groups": ["fold"], "leave_out": ["site"]}
    return tv.load_tasks(path, bounds=bounds, **columns)


def stratified(tasks: tv.TaskSet, seed: int, fraction: float = 0.7) -> np.ndarray:
    """Which rows train: this share of the events and of the other rows of every region."""
    rng, train = np.random.default_rng(seed), np.zeros(tasks.n_rows, dtype=bool)
    for i in range(tasks.n_tasks):
        rows = np.arange(tasks.offsets[i], tasks.offsets[i + 1])
        for seen in (True, False):
            drawn = rng.permutation(rows[(tasks.y[rows] > 0) == seen])
            train[drawn[: round(fraction * drawn.size)]] = True
    return train


def figures(plain: tv.TaskSet, declared: tv.TaskSet, train: np.ndarray, seed: int) -> dict[str, float]:
    """Concordance of every method on one split."""
    found = {name: without_noise(plain, train, name) for name in PLAIN}
    for epsilon in (3.0, 1.0):
        both = with_noise(declared, train, seed, epsilon)
        found |= dict(zip((f"mean, record, epsilon {epsilon:g}", f"mean, record, epsilon {epsilon:g}, public model"), both))
    return found


def without_noise(plain: tv.TaskSet, train: np.ndarray, name: str) -> float:
    return tv.TaskSurvival(name, epsilon=None).fit(plain.select(train)).score(plain.select(~train))


def with_noise(declared: tv.TaskSet, train: np.ndarray, seed: int, epsilon: float) -> tuple[float, float]:
    """Of every region's own model, and of what the billboard alone ranks: no region's own rows enter that."""
    record = {"unit": "record", "epsilon": epsilon, "insecure_noise_seed": seed}
    est, held = tv.TaskSurvival(methods.get("mean"), **record).fit(declared.select(train)), declared.select(~train)
    risk = est.scaling_._rows(held.X, held.task_of_row()) @ est.record_.billboards[-1].values["mean"][0]
    return est.score(held), over_tasks(held.task_of_row(), lambda rows: concordance(risk[rows], held.y[rows]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--splits", type=int, default=20)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    plain, declared = load(given.data, None), load(given.data, BOUNDS)
    done = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"published on FLamby's split": PUBLISHED, "splits": {}}
    if "FLamby's split" not in done:
        done["FLamby's split"] = figures(plain, declared, plain.groups["fold"] == "train", 0)
    for seed in range(given.splits):
        if str(seed) not in done["splits"]:
            done["splits"][str(seed)] = figures(plain, declared, stratified(plain, seed), seed)
        table = pd.DataFrame(done["splits"]).T
        done["mean"], done["deviation"] = table.mean().round(4).to_dict(), table.std(ddof=1).round(4).to_dict()
        RESULTS.write_text(json.dumps(done, indent=1) + "\n")
    print(pd.DataFrame({"mean": done["mean"], "deviation": done["deviation"], "FLamby's split": done["FLamby's split"]}).round(3))


if __name__ == "__main__":
    main()
