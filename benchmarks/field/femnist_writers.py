"""FEMNIST writers at client level (Hu, Wu, Smith 2023). Scores are those of experiments/hu_2023, which see for the protocol."""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path

from benchmarks.field.setting import OURS, REWRITTEN, Bar, Entry, Published, Setting

STORED, MEASURED = Path(__file__).parents[2] / "experiments" / "hu_2023" / "results.json", "2026-11-15"
PRINTED = {0.1: 0.371, 0.8: 0.498, 2.0: 0.621}
WRITERS = "all other writers together"


@cache
def _rows() -> dict[tuple[str, float | None, int], dict[str, float]]:
    return {
        (r["method"], r["epsilon"], r["seed"]): r["accuracy"] for r in json.loads(STORED.read_text()) if r["data"] == "femnist"
    }


def stored(method: str, column: str, epsilon: float | None, seed: int) -> float:
    return float(_rows()[method, epsilon, seed][column])


def _entry(what: str, who: str, method: str, column: str, epsilon: float | None) -> Entry:
    return Entry(what, who, partial(stored, method, column, epsilon), epsilon, WRITERS if epsilon is not None else "", MEASURED)


def _private(epsilon: float) -> tuple[Entry, ...]:
    return (
        _entry("PMTL, Algorithm 1", REWRITTEN, "mean", "algorithm-1", epsilon),
        _entry("FedAvg, one model", REWRITTEN, "fedavg", "none", epsilon),
        _entry("PP-SGD", REWRITTEN, "pp-sgd", "none", epsilon),
        _entry("mean, chosen by each writer", OURS, "mean", "chosen", epsilon),
    )


SETTING = Setting(
    name="femnist-writers",
    title="FEMNIST writers",
    source="Hu, Wu, Smith 2023, Private Multi-Task Learning, Table 1",
    measure="accuracy over all test images",
    guarantee="all images of one writer, add-remove, delta 1/206",
    protocol="206 writers, 62 classes, 70/30 inside every writer, six seeds; softmax regression on 32 features made without data. Theirs is another cut of the data and a CNN of 213,630 "
    "parameters: the printed figures stand here for orientation, the re-run peers are the comparison. Clip and step were chosen on other rows, for all methods alike, and that choice is not charged.",
    seeds=tuple(range(200, 206)),
    published=tuple(Published("PMTL", value, epsilon) for epsilon, value in PRINTED.items()),
    entries=(
        *(entry for epsilon in PRINTED for entry in _private(epsilon)),
        _entry("alone", OURS, "local", "none", None),
        _entry("mean, chosen by each writer", OURS, "mean", "chosen", None),
    ),
    bars=(
        Bar(
            "`mean` is not below PMTL re-run at any epsilon, nor below alone",
            lambda s: all(
                s[f"mean, chosen by each writer, epsilon {e:g}"] >= max(s[f"PMTL, Algorithm 1, epsilon {e:g}"], s["alone"])
                for e in PRINTED
            ),
        ),
        Bar(
            "`mean` is not below the figure printed for PMTL at epsilon 2 (another cut, a larger model)",
            lambda s: s["mean, chosen by each writer, epsilon 2"] >= 0.621,
        ),
    ),
    peers="Re-run peers are ours: the authors' PyTorch scripts (s-huu/PMTL) read their own cut of the data, and run there only.",
)
