"""Few classes per client, after CENTAUR (Shen et al. 2023), by the code of experiments/shen_2023; split: few_classes_data.py."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from experiments.shen_2023.run import one, rows

from benchmarks.field.few_classes_data import split
from benchmarks.field.setting import OURS, REWRITTEN, Bar, Entry, Published, Setting

STORED = Path(__file__).parents[2] / "experiments" / "shen_2023" / "results.json"
SEEDS = (1, 2, 3)
EPSILONS = (0.125, 0.25, 0.5, 1.0)
PRINTED = {
    "CENTAUR": (0.656, 0.774, 0.918, 0.928), "PMTL": (0.574, 0.757, 0.848, 0.888), "PP-SGD": (0.574, 0.756, 0.890, 0.890),
}  # fmt: skip
CLIENTS = "all other clients together"
CHOSEN = "shared-representation with a public head"
PRIVATE = (
    ("PMTL, Algorithm 1", REWRITTEN, "pmtl"),
    ("PMTL on edge histograms", REWRITTEN, "pmtl on edges"),
    ("PP-SGD", REWRITTEN, "pp-sgd"),
    ("shared-representation, own heads alone, images", OURS, "own heads on images"),
    ("shared-representation, own heads alone, edge histograms", OURS, "own heads"),
    ("shared-representation with a public head, without the choice", OURS, "without the choice"),
    (CHOSEN, OURS, "ours"),
)
ALONE = (
    ("alone, method `local` on images", "local"),
    ("alone, heads solved on images", "local on images"),
    ("alone, heads solved on edge histograms", "local on edges"),
)


@cache
def data(seed: int) -> Any:
    return split(seed)


@cache
def grids() -> dict[tuple[str, float], dict[str, dict[int, float]]]:
    """Accuracy by seed of every point of a row's grid (as text), as experiments/shen_2023 found them."""
    found: dict[tuple[str, float], dict[str, dict[int, float]]] = defaultdict(lambda: defaultdict(dict))
    for r in json.loads(STORED.read_text()):
        found[r["row"], r["epsilon"]][_text(r["options"])][r["seed"]] = r["accuracy"]
    return found


def _text(options: dict[str, Any]) -> str:
    return json.dumps(options, sort_keys=True)


def measured(row: str, epsilon: float, seed: int) -> float:
    """The accuracy of a row; of a grid, at the point that is best over all seeds, on the test rows: that flatters the peers."""
    points = {_text(options): (name, options, variant) for name, options, variant in rows({})[row]}
    if len(points) > 1:
        best = {point: float(np.mean(list(scores.values()))) for point, scores in grids()[row, epsilon].items()}
        points = {point: points[point] for point in points if best.get(point) == max(best.values())}
    name, options, variant = next(iter(points.values()))
    return one(seed, name, options, variant, epsilon, data(seed))


def _entry(what: str, who: str, row: str, epsilon: float | None) -> Entry:
    return Entry(what, who, partial(measured, row, epsilon or EPSILONS[-1]), epsilon, CLIENTS if epsilon else "")


SETTING = Setting(
    name="few-classes",
    title="Few classes per client",
    source="Shen et al. 2023, Share Your Representation Only (CENTAUR)",
    measure="accuracy, mean over clients",
    guarantee="all images of one client, add-remove, delta 1/500",
    protocol="Printed: CIFAR-10, 500 clients of five classes. Here: 500 writers of MNIST digits who keep five digits each (few_classes_data.py says how), since CIFAR is not available: "
    "printed figures stand for orientation only. Settings of ours were frozen on another seed; peers are the best of a grid on the test rows, which flatters them.",
    seeds=SEEDS,
    published=(
        *(Published(what, v, e) for what, values in PRINTED.items() for e, v in zip(EPSILONS, values, strict=True)),
        Published("local", 0.907),
    ),
    entries=(
        *(_entry(what, who, row, e) for e in EPSILONS for what, who, row in PRIVATE),
        *(_entry(what, OURS, row, None) for what, row in ALONE),
    ),
    bars=(
        Bar(
            "`shared-representation` is 5 points over PMTL as published at epsilon 0.5 and 1",
            lambda s: all(s[f"{CHOSEN}, epsilon {e:g}"] >= s[f"PMTL, Algorithm 1, epsilon {e:g}"] + 0.05 for e in (0.5, 1.0)),
        ),
        Bar(
            "`shared-representation` is never more than 1 point under the best row that learns alone",
            lambda s: all(s[f"{CHOSEN}, epsilon {e:g}"] >= max(s[what] for what, _ in ALONE) - 0.01 for e in EPSILONS),
        ),
        Bar(
            "`shared-representation` is not below PMTL on the same edge histograms at any epsilon",
            lambda s: all(s[f"{CHOSEN}, epsilon {e:g}"] >= s[f"PMTL on edge histograms, epsilon {e:g}"] for e in EPSILONS),
        ),
    ),
    remarks=(
        "Edge histograms are a public map, made without data. Much of the distance to PMTL as published, whose networks see images, "
        "comes from them and not from the method: alone on them a client is 4 to 8 points above it already. The fair comparison is "
        "PMTL on the same histograms.",
        "The epsilon of PMTL treats cohorts of a fixed size as Poisson, as published: what it protects is less.",
        "A client chooses by its 2 to 14 left-out rows and one row more, of a class it has not met, about which alone is wrong: at most "
        "0.4 points below not choosing, and as good as alone where the public head is noise (epsilon 0.03).",
        "A representation that is learned below the heads (own heads alone, after CENTAUR) gains little here; a public head that own "
        "heads correct gains much, because it knows digits of which a client has no training image (8 % of its test images).",
    ),
    peers="Re-run peers are ours: CENTAUR's authors publish code (shenzebang/CENTAUR-Privacy-Federated-Representation-Learning 71e092e, with PMTL and PP-SGD), "
    "which loads CIFAR and EMNIST only and has not been run here.",
)
