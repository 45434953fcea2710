"""What the default does on every table at every epsilon, beside a constant, scikit-learn on all rows, and learning alone.

    python -m experiments.estimator_study.default [TABLE ...] [--repeats 3] [--method together]

Errors are nMSE or log-loss, lower is better. Seeds of splits start at 1000: none of them was looked at when options were chosen.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from experiments.estimator_study.baselines import Constant, Pooled, error
from experiments.estimator_study.tables import stored, synthetic

import taskveil as tv

TABLES = {
    "chem97": stored("chem97", 0.3),
    "chem97 failed": stored("chem97 failed", 0.3),
    "star": stored("star", 0.1),
    "school": stored("school", 0.3),
    "vehicle": stored("vehicle", 0.5),
    "low-rank": synthetic("low-rank"),
    "hospitals": synthetic("hospitals"),
    "readmission": synthetic("hospitals-readmission"),
    "tiny related": synthetic("tiny", relation="related"),
    "tiny unrelated": synthetic("tiny", relation="unrelated"),
}
EPSILONS = (0.05, 0.1, 0.3, 1.0, 3.0, 10.0, None)
FIRST_SEED = 1000


def errors(name: str, seed: int, method: str) -> dict[str, float]:
    """Errors of one split."""
    train, test = TABLES[name](seed)
    kind = tv.TaskRegressor if train.kind == "regression" else tv.TaskClassifier
    found = {"constant": error(Constant().fit(train), test), "scikit-learn": error(Pooled().fit(train), test)}
    found["local"] = error(kind("local", epsilon=None).fit(train), test)
    for epsilon in EPSILONS:
        fitted = kind(method, epsilon=epsilon, delta=1e-5, insecure_noise_seed=seed).fit(train)
        found["none" if epsilon is None else f"{epsilon:g}"] = error(fitted, test)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(TABLES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--method", default="together")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.names or list(TABLES):
        splits = [errors(name, FIRST_SEED + k, args.method) for k in range(args.repeats)]
        means = {key: float(np.mean([s[key] for s in splits])) for key in splits[0]}
        shown = [f"{means[key]:.4f}" for key in means]
        over = max(max(s[key] / s["local"] for key in list(s)[3:]) for s in splits)
        print(f"| {name} | {' | '.join(shown)} | {over:.3f} |", flush=True)


if __name__ == "__main__":
    main()
