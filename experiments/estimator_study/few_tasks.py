"""Few tasks: what unit record closes of the gap, and at epsilon 0.3 what a public prior made from other tasks does for unit task.

    python -m experiments.estimator_study.few_tasks [TABLE ...] [--tasks 15] [--repeats 5]

The gap is from learning alone to the best of our methods without noise, in mean errors over draws of tasks and splits of rows.
Replace-one, delta 1e-5. Record level needs declared ranges: those of the table, for star 0 to 50 years of teaching and its printed
scores. The prior is the billboard's model of a run without noise on tasks that were not drawn, as if those were public.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from itertools import product

import numpy as np
from experiments.estimator_study.baselines import error
from experiments.estimator_study.tables import _loaded

import taskveil as tv

FRACTION = {"school": 0.3, "star": 0.1, "vehicle": 0.5}
RANGES = {"star": {"features": {"exp": [0, 50], "*": [0, 1]}, "target": [300, 800]}}
PLAIN = ("together", "mean", "pooled", "low-rank")
EPSILONS = (0.3, 1.0, 3.0)
FIRST_SEED = 2000


def draw(name: str, seed: int, tasks: int) -> tuple[tv.TaskSet, tv.TaskSet, tv.TaskSet]:
    """Training rows, test rows, and the tasks that were not drawn."""
    whole = _loaded(name)
    order = np.random.default_rng(seed).permutation(len(whole))
    train, test = tv.split_rows(whole.take_tasks(np.sort(order[:tasks])), FRACTION[name], seed)
    return train, test, whole.take_tasks(np.sort(order[tasks:]))


def errors(name: str, seed: int, tasks: int) -> dict[str, float]:
    train, test, others = draw(name, seed, tasks)
    kind = tv.TaskRegressor if train.kind == "regression" else tv.TaskClassifier
    found = {"local": error(kind("local", epsilon=None).fit(train), test)}
    for method in PLAIN:
        found[f"{method} none"] = error(kind(method, epsilon=None).fit(train), test)
    for method, epsilon in product(("together", "mean", "pooled"), EPSILONS):
        options = {"unit": "record", "bounds": RANGES.get(name), "epsilon": epsilon, "delta": 1e-5, "insecure_noise_seed": seed}
        found[f"{method} record {epsilon:g}"] = error(kind(method, **options).fit(train), test)
    if len(others) == 0:
        return found
    with tempfile.TemporaryDirectory() as folder:
        kind("subspace", epsilon=None).fit(others).save(folder)
        for method in ("together", "mean"):
            est = kind(method, epsilon=0.3, delta=1e-5, prior=folder, insecure_noise_seed=seed).fit(train)
            found[f"{method} prior 0.3"] = error(est, test)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=list(FRACTION))
    parser.add_argument("--tasks", type=int, default=15)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in args.names:
        runs = [errors(name, FIRST_SEED + k, args.tasks) for k in range(args.repeats)]
        table = {key: np.array([run[key] for run in runs]) for key in runs[0]}
        alone, best = table["local"].mean(), min(v.mean() for k, v in table.items() if k.endswith("none"))
        for key, values in table.items():
            print(
                f"| {name} | {key} | {values.mean():.4f} +- {values.std(ddof=1):.4f} | {100 * (alone - values.mean()) / (alone - best):.0f} % |",
                flush=True,
            )


if __name__ == "__main__":
    main()
