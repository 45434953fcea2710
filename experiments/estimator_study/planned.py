"""Does `plan` say beforehand what `compare` then shows? The default on drawn settings, unit task, replace-one, delta 1e-5.

    python -m experiments.estimator_study.planned [--settings 20] [--first 900]

A setting is 30 to 800 tasks of 6 to 40 rows with 3 to 30 features, numbers or labels, one model in common and own parts of
relative size 0.1 to 0.6, and an epsilon. Prints the ratio of noise to signal, the stated interval of the share of the gap that is
closed (from `local` to `together` without noise), and the share. The interval was made by seeds 100 to 159.
"""

from __future__ import annotations

import argparse
import io
import json
import warnings
from contextlib import redirect_stdout
from typing import Any

import numpy as np
from experiments.estimator_study.baselines import error
from experiments.estimator_study.strangers import drawn

import taskveil as tv
from taskveil.cli.main import run

LARGEST = 150_000  # numbers in a training table


def setting(seed: int) -> tuple[str, tv.TaskSet, tv.TaskSet, float]:
    """A name, rows to train and to test on, and epsilon."""
    rng = np.random.default_rng(seed)
    tasks, features, labels = int(10 ** rng.uniform(1.5, 2.9)), int(rng.integers(3, 31)), bool(rng.random() < 0.4)
    rows, own, noise = int(rng.integers(6, 41)), float(rng.choice([0.1, 0.3, 0.6])), float(rng.choice([0.5, 1.0, 2.0]))
    rows, epsilon = max(6, min(rows, LARGEST // (tasks * features))), float(rng.choice([0.3, 1.0, 3.0, 10.0]))
    train, test = drawn(tasks, rows, features, own=own, noise=noise, label=0.5 if labels else None)(seed)
    name = (
        f"{tasks} x {rows} x {features}, {'labels' if labels else 'numbers'}, own {own:g}, noise {noise:g}, epsilon {epsilon:g}"
    )
    return name, train, test, epsilon


def said(train: tv.TaskSet, epsilon: float) -> dict[str, Any]:
    """What `taskveil plan` prints."""
    sizes = f"--tasks {len(train)} --features {train.n_features} --epsilon {epsilon} --delta 1e-5 --kind {train.kind}"
    screen = io.StringIO()
    with redirect_stdout(screen):
        try:
            run(f"plan {sizes} --json".split())
        except SystemExit:
            pass
    return dict(json.loads(screen.getvalue()))


def shown(train: tv.TaskSet, test: tv.TaskSet, epsilon: float, seed: int) -> float:
    """The share of the gap that was closed."""
    kind = tv.TaskRegressor if train.kind == "regression" else tv.TaskClassifier
    alone, plain = (error(kind(method, epsilon=None).fit(train), test) for method in ("local", "together"))
    private = kind(epsilon=epsilon, delta=1e-5, insecure_noise_seed=seed).fit(train)
    return (alone - error(private, test)) / (alone - plain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=20)
    parser.add_argument("--first", type=int, default=900)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    inside = 0
    for seed in range(args.first, args.first + args.settings):
        name, train, test, epsilon = setting(seed)
        plan, share = said(train, epsilon), shown(train, test, epsilon, seed)
        least, most = plan["expected_share"]
        inside += least <= share <= most
        ratio, word = plan["noise_to_signal"], plan["verdict"].split()[0].strip(":")
        print(f"| {name} | {ratio:.2f} | {word} | {100 * least:.0f} to {100 * most:.0f} % | {100 * share:.0f} % |", flush=True)
    print(f"{inside} of {args.settings} inside")


if __name__ == "__main__":
    main()
