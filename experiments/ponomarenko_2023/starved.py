"""Are the constants that Fig. 5 chose for a method worse than random ones? Judged on rows of the training part that chose neither.

    python -m experiments.ponomarenko_2023.starved fig5 [--settings 200]

The best of fresh constants is found as ours was (inner splits of the first split's training part; the first sorts out what is hopeless). What
comes out is kept in tuned.json, and `python -m experiments.random_settings` names every row in which the fresh one is better by more than 5 %.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from experiments.ponomarenko_2023.accuracy import SETTINGS, constants, inner_scores
from experiments.ponomarenko_2023.data import Split, har_split

HERE = Path(__file__).parent
ITEMS = {"fig5": "har-20", "har30": "har-30", "light": "light-20"}
COST = {"svm": (0.001, 3.0), "mocha": (1e-4, 0.1), "local": (0.001, 3.0), "pooled": (0.001, 3.0)}
SIMILARITY = (1.0, 1e4)
CHOICE, JUDGE = (0, 100), (1000, 1100, 1200, 1300)
KEPT = 10


def random_constants(name: str, count: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(count)
    cost, similarity = (np.exp(rng.uniform(*np.log(limits), count)) for limits in (COST[name], SIMILARITY))
    alone = name in ("local", "pooled")
    return [constants(name, float(a), 1.0 if alone else float(b)) for a, b in zip(cost, similarity, strict=True)]


def compared(name: str, split: Split, chosen: dict[str, float], count: int) -> dict[str, Any]:
    """Balanced accuracy of the chosen constants and of the best of `count` fresh ones."""
    fresh = random_constants(name, count)
    first = inner_scores(name, fresh, split, CHOICE[0])
    best = np.argsort(-first, kind="stable")[:KEPT]
    scores = first[best] + inner_scores(name, [fresh[i] for i in best], split, CHOICE[1])
    both = [constants(name, chosen["C1"], chosen["C2"]), fresh[best[int(np.argmax(scores))]]]
    ours, other = np.mean([inner_scores(name, both, split, seed) for seed in JUDGE], axis=0)
    told = {"constants": chosen, "fresh": {k: both[1][k] for k in ("C1", "C2")}}
    return {"tried": count, "chosen": float(ours), "best of random": float(other), **told}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("item", choices=list(ITEMS))
    parser.add_argument("--settings", type=int, default=200)
    asked, file = parser.parse_args(arguments), HERE / "tuned.json"
    chosen = json.loads((HERE / "results" / f"{asked.item}.json").read_text())["settings"]["table"]["chosen"]
    n_tasks, light = SETTINGS[ITEMS[asked.item]]
    split = har_split(0, n_tasks, light)
    for name in COST:
        row = compared(name, split, chosen[name][0], asked.settings if name == "svm" else asked.settings // 2)
        known = json.loads(file.read_text()) if file.exists() else {}
        known.setdefault(ITEMS[asked.item], {}).setdefault(f"random/{name}", {})["None"] = row
        file.write_text(json.dumps(known, indent=1))
        print(asked.item, name, row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
