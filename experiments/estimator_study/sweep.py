"""A quick sweep: the default on many small tables, at every epsilon and both units, beside learning alone and a constant.

    python -m experiments.estimator_study.sweep [TABLE ...] [--seeds 3] [--first 5000] [--methods together] [--ways task,record]

Prints a line for every table and way where the promise breaks (2 % in the mean of the splits, 5 % on a single one, against the
better of learning alone and a constant; without noise 1 % against the better of learning alone and scikit-learn on all rows),
and one line of errors for every table. Ways: unit task, unit record with ranges a little wider than the rows', and unit record
without any.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from experiments.estimator_study.baselines import Constant, Pooled, error
from experiments.estimator_study.default import EPSILONS, TABLES
from experiments.estimator_study.newcomers import NEWCOMERS
from experiments.estimator_study.oddities import ODDITIES
from experiments.estimator_study.strangers import STRANGERS

import taskveil as tv
from taskveil.errors import TaskveilError

ALL = {**STRANGERS, **NEWCOMERS, **ODDITIES, **TABLES}
MEAN, SPLIT, PLAIN = 1.02, 1.05, 1.01
DELTA = 1e-5


def ranges(train: tv.TaskSet) -> dict[str, Any]:
    """What somebody might declare who knows his columns: the rows' ranges and a quarter more."""
    low, high = train.X.min(axis=0), train.X.max(axis=0)
    wide = 0.125 * np.where(high > low, high - low, 1.0)
    found: dict[str, Any] = {
        "features": {n: [float(a - w), float(b + w)] for n, a, b, w in zip(train.feature_names, low, high, wide, strict=True)}
    }
    if train.kind == "regression":
        a, b = float(train.y.min()), float(train.y.max())
        found["target"] = [a - 0.125 * (b - a), b + 0.125 * (b - a) + (a == b)]
    else:
        found["classes"] = [str(c) if isinstance(c, str) else c for c in train.classes.tolist()]
    return found


def options(way: str, train: tv.TaskSet) -> dict[str, Any]:
    if way == "task":
        return {}
    return {"unit": "record", "bounds": ranges(train) if way == "record" else None}


def split_errors(name: str, seed: int, methods: list[str], ways: list[str], epsilons: list[float | None]) -> dict[str, float]:
    """Errors of one split, by 'what' or 'method way epsilon'."""
    train, test = ALL[name](seed)
    kind = tv.TaskRegressor if train.kind == "regression" else tv.TaskClassifier
    found = {"constant": error(Constant().fit(train), test), "scikit-learn": error(Pooled().fit(train), test)}
    found["local"] = error(kind("local", epsilon=None).fit(train), test)
    for method in methods:
        for way in ways:
            for epsilon in epsilons:
                key = f"{method} {way} {'none' if epsilon is None else f'{epsilon:g}'}"
                try:
                    fitted = kind(method, epsilon=epsilon, delta=DELTA, insecure_noise_seed=seed, **options(way, train)).fit(
                        train
                    )
                    found[key] = error(fitted, test)
                except TaskveilError as refused:
                    print(f"# {name} {key}: {refused}", file=sys.stderr, flush=True)
    return found


def judged(splits: list[dict[str, float]]) -> tuple[dict[str, float], list[str]]:
    """Mean errors, and what breaks the promise."""
    table = {key: np.array([s[key] for s in splits]) for key in splits[0] if all(key in s for s in splits)}
    means, broken = {key: float(values.mean()) for key, values in table.items()}, []
    for key in list(table)[3:]:
        rivals = ["local", "scikit-learn"] if key.endswith("none") else ["local", "constant"]
        least = min(means[r] for r in rivals)
        single = float(np.max(table[key] / np.minimum(table["local"], table["constant"])))
        if means[key] / least > (PLAIN if key.endswith("none") else MEAN) or (single > SPLIT and not key.endswith("none")):
            broken.append(f"{key}: mean {means[key] / least:.3f}, worst split {single:.3f}")
    return means, broken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[*STRANGERS, *NEWCOMERS, *ODDITIES])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first", type=int, default=5000)
    parser.add_argument("--methods", default="together")
    parser.add_argument("--ways", default="task,record,record undeclared")
    parser.add_argument("--epsilons", default=",".join("none" if e is None else f"{e:g}" for e in EPSILONS))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    epsilons = [None if e == "none" else float(e) for e in args.epsilons.split(",")]
    for name in args.names:
        started = time.process_time()
        splits = [
            split_errors(name, args.first + k, args.methods.split(","), args.ways.split(","), epsilons) for k in range(args.seeds)
        ]
        means, broken = judged(splits)
        print(
            f"{name} ({time.process_time() - started:.0f} s): " + ", ".join(f"{k} {v:.4f}" for k, v in means.items()), flush=True
        )
        for line in broken:
            print(f"    BROKEN {name}: {line}", flush=True)
        if args.json:
            with args.json.open("a") as file:
                file.write(json.dumps({"table": name, "splits": splits}) + "\n")


if __name__ == "__main__":
    main()
