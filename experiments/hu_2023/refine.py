"""Goes on from the printed settings that were chosen: one step along an axis of the grid at a time, until none is better.

    python -m experiments.hu_2023.refine FOLDER DATA/METHOD EPSILON ... [--fresh 30]

FOLDER is tune.py's. The chosen setting is set beside fresh random ones of its grid, on validation rows; where one of them is better, the search
goes on from what is chosen (FedProx: from what FedAvg chose, with every pull). What it finds for the published model is measured on the test
rows. Needs minutes of one processor, where a sweep of random settings needs a GPU.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np

from experiments.hu_2023 import grid, tune
from experiments.hu_2023.grid import PRINTED, PULLS
from experiments.hu_2023.table import read
from experiments.hu_2023.tune import DRAWS, SPLITS, Sweep

Setting = dict[str, float]
MOST_WORK = 4000  # rounds times local steps: twice that of the random settings
MOST_MOVES = 6
MANY = SPLITS["validation"]


def neighbours(setting: Setting, method: str, epsilon: float | None) -> list[Setting]:
    """Settings one step away along one axis."""
    axes = grid.axes_of(PRINTED, method, epsilon)
    found = []
    for name, values in axes.items():
        at = values.index(setting[name]) if setting[name] in values else None
        steps = () if at is None else (at - 1, at + 1)
        found += [setting | {name: values[i]} for i in steps if 0 <= i < len(values)]
    return [s for s in found if s["rounds"] * s["steps"] <= MOST_WORK and s["rate"] * s["pull"] < 2]


class Climb:
    """One method at one epsilon."""

    def __init__(self, sweep: Sweep, method: str, epsilon: float | None):
        self.sweep, self.method, self.epsilon = sweep, method, epsilon

    def published(self, settings: list[Setting], splits: range) -> np.ndarray:
        """Mean accuracy of the published models over validation splits; a split and its noise are those of tune.choose."""
        jobs = [(self.epsilon, s, k, 900 + k) for s in settings for k in splits]
        values = self.sweep.scores(PRINTED, self.method, jobs, "validation", all_columns=False)
        return values.reshape(len(settings), len(splits)).mean(axis=1)

    def best(self, starts: list[Setting], moves: int, enough: float) -> tuple[Setting, float]:
        """The first split sorts; the best two are judged on all of them, beside where we stand."""
        here, score = starts[0], -np.inf
        tried: list[Setting] = []
        around = starts
        for _ in range(moves):
            new = [s for s in around if s not in tried]
            if not new:
                break
            tried += new
            first = self.published(new, range(1))
            few = [new[i] for i in np.argsort(-first)[:2]]
            whole = self.published(few, range(MANY))
            if whole.max() <= score:
                break
            here, score = few[int(whole.argmax())], float(whole.max())
            print(f"{self.method} {self.epsilon}: {score:.4f} {here}", flush=True)
            if score >= enough:
                break
            around = neighbours(here, self.method, self.epsilon)
        return here, score


def refine(sweep: Sweep, method: str, epsilon: float | None, moves: int = MOST_MOVES, enough: float = 1.0) -> None:
    """A better setting for the published model, where one is found, with its test accuracies."""
    name, at = f"{PRINTED}/{method}", str(epsilon)
    chosen: dict[str, Any] = sweep.done.setdefault(f"chosen/{name}", {}).setdefault(at, {})
    measured: dict[str, Any] = sweep.done.setdefault(f"measured/{name}", {}).setdefault(at, {})
    setting, score = Climb(sweep, method, epsilon).best(starts(sweep, method, at), moves, enough)
    if score > chosen.get("published", {"validation": 0.0})["validation"]:
        chosen["published"] = {"setting": setting, "validation": round(score, 5)}
        measured["published"] = tested(sweep, method, epsilon, setting)
    sweep.keep(f"chosen/{name}", sweep.done[f"chosen/{name}"])


def starts(sweep: Sweep, method: str, at: str) -> list[Setting]:
    """What is chosen already, here and on the other data, and some random ones that cost little; for FedProx FedAvg's, with a pull."""
    if method == "fedprox":
        begun = sweep.done[f"chosen/{PRINTED}/fedavg"][at]["published"]["setting"]
        return [begun | {"pull": pull} for pull in PULLS if begun["rate"] * pull < 2]
    known = sweep.done[f"chosen/{PRINTED}/{method}"]
    own = [cell["setting"] for cell in known[at].values()]
    elsewhere = [
        table.get(f"chosen/{PRINTED}/{method}", {}).get(at, {}) for name, table in read("tuned").items() if name != sweep.name
    ]
    short = [
        s for s in grid.draw(PRINTED, method, None if at == "None" else float(at), 60, seed=3) if s["rounds"] * s["steps"] <= 500
    ]
    found = [*own, *(cell["setting"] for cells in elsewhere for cell in cells.values()), *short]
    return [s for i, s in enumerate(found) if s not in found[:i]]


def tested(sweep: Sweep, method: str, epsilon: float | None, setting: Setting) -> list[list[float]]:
    """Test accuracies (splits, draws)."""
    jobs = [(epsilon, setting, split, 5000 + 10 * split + d) for split in range(SPLITS["test"]) for d in range(DRAWS)]
    values = sweep.scores(PRINTED, method, jobs, "test", all_columns=False)
    return values.reshape(SPLITS["test"], DRAWS).round(5).tolist()


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("what")
    parser.add_argument("epsilons", nargs="+")
    parser.add_argument("--fresh", type=int, default=30, help="random settings where no check is known")
    asked = parser.parse_args(arguments)
    data, method = asked.what.split("/")
    tune.TOGETHER, tune.FRESH = 1, asked.fresh  # a processor gains nothing from runs side by side
    sweep = Sweep(asked.folder, data)
    for e in (None if word == "None" else float(word) for word in asked.epsilons):
        if str(e) not in sweep.done.get(f"chosen/{PRINTED}/{method}", {}):
            refine(sweep, method, e, moves=1)
        sweep.check(method, (e,))
        row = sweep.done[f"random/{PRINTED}/{method}"][str(e)]
        if row["chosen"] < row["best of random"]:
            refine(sweep, method, e, enough=row["best of random"])
            sweep.check(method, (e,))


if __name__ == "__main__":
    main(sys.argv[1:])
