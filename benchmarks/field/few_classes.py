"""Few classes per client, after CENTAUR (Shen et al. 2023). Scores are those of experiments/shen_2023; split: few_classes_data.py."""

from __future__ import annotations

import json
from collections import defaultdict
from functools import cache, partial
from pathlib import Path

import numpy as np

from benchmarks.field.setting import OURS, REWRITTEN, Bar, Entry, Published, Setting

STORED, MEASURED = Path(__file__).parents[2] / "experiments" / "shen_2023" / "results.json", "2026-11-16"
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
def _rows() -> list[dict]:
    return json.loads(STORED.read_text()) if STORED.exists() else []


def stored(row: str, epsilon: float | None, seed: int) -> float:
    """The accuracy of a row; of a grid, the point that is best over all seeds, on the test rows: that flatters the peers."""
    points: dict[str, dict[int, float]] = defaultdict(dict)
    for found in _rows():
        if found["row"] == row and epsilon in (None, found["epsilon"]):
            points[json.dumps(found["options"], sort_keys=True)][found["seed"]] = found["accuracy"]
    return max(points.values(), key=lambda scores: float(np.mean(list(scores.values()))))[seed]


def _entry(what: str, who: str, row: str, epsilon: float | None) -> Entry:
    return Entry(what, who, partial(stored, row, epsilon), epsilon, CLIENTS if epsilon else "", MEASURED)


SETTING = Setting(
    name="few-classes",
    title="Few classes per client",
    source="Shen et al. 2023, Share Your Representation Only (CENTAUR)",
    measure="accuracy, mean over clients",
    guarantee="all images of one client, add-remove, delta 1/500",
    protocol="Printed: CIFAR-10, 500 clients of five classes. Here: 500 writers of MNIST digits who keep five digits each (few_classes_data.py says how), since CIFAR is not available: "
    "printed figures stand for orientation only. Settings of ours were frozen on another seed; peers are the best of a grid on the test rows, which flatters them.",
    seeds=tuple(sorted({found["seed"] for found in _rows()})),
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
    peers="Re-run peers are ours: the authors' PMTL scripts read their own data sets, and no code of CENTAUR was found.",
)
