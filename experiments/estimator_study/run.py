"""How much of the gap between learning alone and learning together the private methods close.

    python -m experiments.estimator_study.run [--repeats 6] [--out FILE]

Every repeat is a fresh draw (synthetic data) or a fresh split (real data); noise is seeded. The gap of a repeat is the error
of `local` minus the best error without privacy in that repeat. See README.md for the results.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from experiments.estimator_study.tables import stored, synthetic

import taskveil as tv
from taskveil.estimators.metrics import evaluate

STUDIES: dict[str, dict[str, Any]] = {
    "low-rank": {"split": synthetic("low-rank"), "delta": 0.00054, "epsilons": (0.05, 0.3, 1.0, 3.0, 10.0)},
    "group-sparse": {"split": synthetic("group-sparse"), "delta": 0.00054, "epsilons": (0.3, 1.0, 3.0)},
    "hospitals": {"split": synthetic("hospitals"), "delta": 0.001, "epsilons": (1.0, 3.0, 10.0)},
    "tiny related": {"split": synthetic("tiny", relation="related"), "delta": 1e-3, "epsilons": (1.0, 10.0)},
    "tiny unrelated": {"split": synthetic("tiny", relation="unrelated"), "delta": 1e-3, "epsilons": (1.0, 10.0)},
    "tiny noise": {"split": synthetic("tiny", relation="noise"), "delta": 1e-3, "epsilons": (1.0, 10.0)},
    "school": {"split": stored("school", 0.3), "delta": 0.00146, "epsilons": (0.3, 1.0, 3.0, 10.0)},
    "readmission": {"split": synthetic("hospitals-readmission"), "delta": 0.001, "epsilons": (1.0, 10.0), "metric": "auc"},
    "vehicle": {"split": stored("vehicle", 0.5), "delta": 0.001, "epsilons": (1.0, 10.0), "metric": "auc"},
}
METHODS = ("subspace", "mean", "low-rank", "group-sparse")


def scores(study: dict[str, Any], seed: int) -> Iterator[tuple[str, float | None, float]]:
    """(method, epsilon, score) of one repeat."""
    train, test = study["split"](seed)
    kind = tv.TaskRegressor if train.kind == "regression" else tv.TaskClassifier
    metric = study.get("metric", "nmse")
    settings: list[tuple[str, float | None]] = [("local", None), ("pooled", None)]
    settings += [(m, e) for m in METHODS for e in (None, *study["epsilons"])]
    for method, epsilon in settings:
        est = kind(method, epsilon=epsilon, delta=study["delta"], insecure_noise_seed=seed).fit(train)
        yield method, epsilon, float(evaluate(est, test, metric))


def run(name: str, repeats: int) -> list[dict[str, Any]]:
    """One row per method and epsilon: mean and spread of the score, and of the share of the gap it closes."""
    study = STUDIES[name]
    table: dict[tuple[str, float | None], list[float]] = {}
    for seed in range(repeats):
        for method, epsilon, score in scores(study, seed):
            table.setdefault((method, epsilon), []).append(score)
    best = np.max if study.get("metric") == "auc" else np.min
    alone, plain = np.array(table["local", None]), best([v for (_, e), v in table.items() if e is None], axis=0)
    rows = []
    for (method, epsilon), values in table.items():
        share = (alone - values) / np.where(plain == alone, np.nan, alone - plain)
        rows.append(
            {
                "data": name, "method": method, "epsilon": epsilon, "mean": float(np.mean(values)),
                "std": float(np.std(values, ddof=1)), "over_local": float(np.mean(np.array(values) / alone)),
                "share": float(np.mean(share)), "share_std": float(np.std(share, ddof=1)),
            }
        )  # fmt: skip
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(STUDIES))
    parser.add_argument("--repeats", type=int, default=6)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    results = []
    for name in args.names:
        for row in run(name, args.repeats):
            results.append(row)
            epsilon = "none" if row["epsilon"] is None else row["epsilon"]
            print(
                f"| {name} | {row['method']} | {epsilon} | {row['mean']:.4f} +- {row['std']:.4f} "
                f"| {row['over_local']:.3f} | {100 * row['share']:.0f} +- {100 * row['share_std']:.0f} % |",
                flush=True,
            )
    if args.out is not None:
        args.out.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
