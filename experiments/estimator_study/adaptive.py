"""What `spending="adaptive"` costs and returns: `subspace` beside itself with fixed spending, over fresh splits and two draws of noise.

    python -m experiments.estimator_study.adaptive [TABLE ...] [--seeds 6] [--first 8100]

Unit task, replace-one, delta 1e-5. Errors over that of `local`; how many runs ended after their probe. "Unrelated" tables have models
drawn apart (tasks x rows x features): nothing is in common. See README.md for results.
"""

from __future__ import annotations

import argparse
import warnings
from typing import Any

import numpy as np
import pandas as pd
from experiments.estimator_study.baselines import error
from experiments.estimator_study.tables import Split, stored, synthetic

import taskveil as tv


def unrelated(m: int, n: int, d: int) -> Any:
    def draw(seed: int) -> Split:
        rng = np.random.default_rng(seed)
        W, parts = rng.standard_normal((m, d)) / np.sqrt(d), []
        for k in (n, 30):
            X, task = rng.standard_normal((m * k, d)), np.repeat(np.arange(m), k)
            y = (X * W[task]).sum(axis=1) + 0.5 * rng.standard_normal(m * k)
            frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(d)]).assign(y=y, task=task)
            parts.append(tv.load_tasks(frame, task="task", target="y"))
        return parts[0], parts[1]

    return draw


TABLES = {
    **{f"tiny {r}": synthetic("tiny", relation=r) for r in ("related", "unrelated", "noise")},
    **{name: synthetic(name) for name in ("hospitals", "low-rank")},
    **{name: stored(name, fraction) for name, fraction in (("star", 0.3), ("school", 0.3), ("vehicle", 0.5), ("chem97", 0.5))},
    **{f"unrelated {m}x{n}x{d}": unrelated(m, n, d) for m, n, d in ((320, 12, 10), (1500, 8, 6))},
}


def split(name: str, seed: int, epsilon: float) -> tuple[float, float, int]:
    """Error over that of learning alone, fixed and adaptive; how many of the two adaptive runs ended after their probe."""
    train, test = TABLES[name](seed)
    kind = tv.TaskRegressor if train.kind == "regression" else tv.TaskClassifier
    alone, found, ended = error(kind("local", epsilon=None).fit(train), test), [], 0
    for spending in ("fixed", "adaptive"):
        runs = [
            kind(tv.methods.get("subspace", spending=spending), epsilon=epsilon, delta=1e-5, insecure_noise_seed=s).fit(train)
            for s in (seed, seed + 100_000)
        ]
        found.append(float(np.mean([error(est, test) for est in runs])) / alone)
        ended += sum(spending == "adaptive" and est.record_.rounds == 1 for est in runs)
    return found[0], found[1], ended


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", nargs="*", default=list(TABLES))
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first", type=int, default=8100)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.tables:
        for epsilon in (0.3, 1.0, 3.0):
            fixed, adaptive, ended = np.array([split(name, args.first + k, epsilon) for k in range(args.seeds)]).T
            change = adaptive - fixed
            print(
                f"| {name} | {epsilon:g} | {fixed.mean():.3f} | {adaptive.mean():.3f} | {change.mean():+.3f} +- {change.std(ddof=1):.3f} "
                f"| {int(ended.sum())} of {2 * args.seeds} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
