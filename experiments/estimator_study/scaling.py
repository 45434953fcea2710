"""Own scaling against `scaling="private"` at epsilon 1: what common units are worth, and what they cost.

    python -m experiments.estimator_study.scaling [TABLE ...] [--repeats 5] [--method together]

Share of the gap from `local` to the best run without noise, unit task, replace-one, delta 1e-5; mean and spread over splits.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from experiments.estimator_study.baselines import error
from experiments.estimator_study.default import FIRST_SEED, TABLES

import taskveil as tv

SCALINGS = ("own", "private")


def shares(name: str, seed: int, method: str, epsilon: float) -> tuple[list[float], list[float]]:
    """Errors, and shares of the gap in per cent, of each scaling on one split."""
    train, test = TABLES[name](seed)
    kind = tv.TaskRegressor if train.kind == "regression" else tv.TaskClassifier
    alone = error(kind("local", epsilon=None).fit(train), test)
    plain = [error(kind(method, epsilon=None, scaling=s).fit(train), test) for s in SCALINGS if s != "private"]
    found = [
        error(kind(method, epsilon=epsilon, delta=1e-5, scaling=s, insecure_noise_seed=seed).fit(train), test) for s in SCALINGS
    ]
    return found, [100 * (alone - e) / (alone - min(plain)) for e in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["chem97", "school"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--method", default="together")
    parser.add_argument("--epsilon", type=float, default=1.0)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.names:
        runs = [shares(name, FIRST_SEED + k, args.method, args.epsilon) for k in range(args.repeats)]
        for i, scaling in enumerate(SCALINGS):
            errors, parts = [np.array([run[j][i] for run in runs]) for j in (0, 1)]
            print(
                f"| {name} | {args.method} | {scaling} | {errors.mean():.4f} +- {errors.std(ddof=1):.4f} | {parts.mean():.0f} +- {parts.std(ddof=1):.0f} % |"
            )


if __name__ == "__main__":
    main()
