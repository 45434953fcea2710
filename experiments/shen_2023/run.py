"""Few classes per client: `shared-representation` beside PMTL as published, PP-SGD and `local`, all on our engine.

    python -m experiments.shen_2023.run OUT.json [--seeds 1 2 3] [--epsilons 0.125 0.25 0.5 1] [--rows ours pmtl ...] [--ours JSON]

Unit client, neighbours add-remove, delta 1/500, observer the other clients, in every row. The split: benchmarks/field/few_classes_data.py.
`shared-representation` runs with one setting at every epsilon, frozen on seed 0. PMTL and PP-SGD are re-implementations, run over a
grid, and the best of the grid *on the test rows* is reported: that flatters them. PMTL is Algorithm 1 as printed (cohorts of exactly
100, no choice "alone"): its epsilon treats cohorts as Poisson, as published, which is too small for what it protects. It runs with
networks on images, as published, and as softmax regression on the public edge histograms that ours stands on.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.field.few_classes_data import split

from taskveil import methods
from taskveil.methods.base import PublicInfo
from taskveil.privacy.plan import Budget, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime import in_process
from taskveil.runtime.run import Run
from taskveil.tasks.block import TaskBlock

DELTA, CLASSES = 1 / 500, 10
EDGES = {"features": "gradients"}  # a public map, made without data: engine/features.py
SMALL = {"name": "cnn", "channels": (8, 16), "hidden": 0}
PUBLIC_HEAD = {"name": "rows", "public_head": True}
OURS: dict[str, Any] = {
    **EDGES, "model": PUBLIC_HEAD, "ridge": 0.1, "server_rate": 0.3, "options": (("alone", 1e-4), ("shared", 0.1)),
}  # fmt: skip
LEARNED: dict[str, Any] = {**EDGES, "model": {"name": "mlp", "hidden": (128,)}}
PAPER = {"local_steps": 10, "batch_size": 8, "personalise": "none"}
Row = tuple[str, dict[str, Any], str]


def rows(more: dict[str, Any]) -> dict[str, list[Row]]:
    """Every row of the table: method, options, variant; several: a grid. `more` are other options of ours."""
    ours, S, alone = OURS | more, "shared-representation", {"rounds": 1, "personalise": "alone", "ridge": 1e-4}
    return {
        "ours": [(S, ours, "sound")],
        "without the choice": [(S, {**ours, "personalise": "shared"}, "sound")],
        "own heads": [(S, {**LEARNED, "personalise": "shared", "ridge": 1e-4}, "sound")],
        "own heads on images": [(S, {"model": SMALL, "personalise": "shared", "ridge": 1e-4}, "sound")],
        "pmtl": pmtl_on_images(), "pmtl on edges": pmtl_on_edges(), "pp-sgd": pp_sgd(),
        "local": [("local", {}, "sound")], "local on images": [(S, {"model": SMALL, **alone}, "sound")],
        "local on edges": [(S, {**LEARNED, **alone}, "sound")],
    }  # fmt: skip


def pmtl_on_images() -> list[Row]:
    grid = product(({"name": "cnn"}, SMALL), (0.01, 0.1, 1.0), (20, 60, 200), (0.1, 0.3))
    return [
        ("mean", {**PAPER, "model": model, "strength": strength, "rounds": rounds, "learning_rate": rate}, "paper")
        for model, strength, rounds, rate in grid
    ]


def pmtl_on_edges() -> list[Row]:
    """A grid, and more of it where the best of it lay on its edge (epsilon 0.5 and 1)."""
    grid = {
        *product((0.003, 0.03), (200, 400), (3.0, 10.0), (1.0, 5.0)),
        *product((0.003, 0.01), (400, 800), (10.0, 30.0), (0.3, 1.0)),
    }
    named = [dict(zip(("strength", "rounds", "learning_rate", "clip"), point)) for point in sorted(grid)]
    return [("mean", {**PAPER, **EDGES, "model": "softmax", **point}, "paper") for point in named]


def pp_sgd() -> list[Row]:
    fixed = {"rate": 0.2, "rounds": 60, "clip": 0.2}
    return [
        ("pp-sgd", {**fixed, **features, "learning_rate": rate, "server_rate": server}, "sound")
        for features, rate, server in product(({}, EDGES), (0.1, 1.0, 10.0), (0.3, 3.0))
    ]


def accuracy(method: Any, record: Any, test: tuple[np.ndarray, ...]) -> float:
    """Mean over clients of the share of their test rows that is right."""
    X, y, client = test
    models = record.models
    if method.linear:
        scores = np.einsum("nd,nrd->nr", X, models.coef[client]) + models.intercept[client]
    else:
        scores = method.predict_scores(record, models, X, client)
    right = (np.argmax(scores, axis=1) == y).astype(float)
    return float((np.bincount(client, right) / np.bincount(client)).mean())


def one(seed: int, name: str, options: dict[str, Any], variant: str, epsilon: float, data: Any) -> float:
    X, y, client = data.train
    block = TaskBlock(X, np.where(np.arange(CLASSES) == y[:, None], 1.0, -1.0), offsets(client), kind="classification")
    method = methods.get(name, **options).under("task", variant)
    public = PublicInfo(block.n_tasks, X.shape[1], CLASSES, "classification", seed=seed)
    budget = Budget(epsilon, DELTA, neighbours="add-remove", variant=variant)
    method.check(public, budget)
    plan = make_plan(method.requests(public, budget), budget)
    record = in_process.run(Run(method, public, plan, source=insecure_seeded_noise(seed)), block)
    return accuracy(method, record, data.test)


def offsets(client: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(np.bincount(client))])


def results(seeds: list[int], epsilons: list[float], wanted: list[str], more: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for seed in seeds:
        data = split(seed)
        for row in wanted:
            for epsilon in epsilons[-1:] if row.startswith("local") else epsilons:  # nothing released enters their models
                for name, options, variant in rows(more)[row]:
                    began = time.perf_counter()
                    found = one(seed, name, options, variant, epsilon, data)
                    taken = round(time.perf_counter() - began, 2)
                    yield {"row": row, "seed": seed, "epsilon": epsilon, "accuracy": round(found, 4), "seconds": taken,
                           "method": name, "options": options, "variant": variant}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.125, 0.25, 0.5, 1.0])
    parser.add_argument("--rows", nargs="+", default=list(rows({})))
    parser.add_argument("--ours", type=json.loads, default={})
    asked = parser.parse_args()
    found = []
    for result in results(asked.seeds, asked.epsilons, asked.rows, asked.ours):
        found.append(result)
        print({k: v for k, v in result.items() if k != "method"}, flush=True)
        asked.out.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
