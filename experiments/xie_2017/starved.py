"""Is "as printed, tuned" held back by its tuning? Fresh random settings against the one that was chosen, on draws of the data of their own.

    python -m experiments.xie_2017.starved [--settings 200]

The best five of the fresh settings are found as ours was (runs.tuned: steps, thresholds and numbers of messages on the tuning draw), and the best
of them on two more; then it and the chosen one are judged on the same draws that chose neither. What comes out is kept in tuned.json, and
`python -m experiments.random_settings` names every row in which the fresh one is better by more than 5 %.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from experiments.xie_2017.algorithm1 import Runs
from experiments.xie_2017.data import SETTINGS, Setting
from experiments.xie_2017.runs import FULL, TUNING_DRAW, one_batch, random_settings

HERE = Path(__file__).parent
FIGURES = {f"fig{n}": name for n, name in zip((3, 4, 5, 6), (
    "synthetic, classification", "ADNI-like, classification", "synthetic, regression", "ADNI-like, regression"), strict=True)}  # fmt: skip
OTHERS, CHOOSE, JUDGE, BEST = 2000, (1001, 1002), (1003, 1004, 1005, 1006), 5


def errors(setting: Setting, epsilon: float, step: np.ndarray, penalty: np.ndarray, draw: int) -> np.ndarray:
    """Error of the published models, (settings, messages 1 to 20)."""
    many = len(step)
    runs = Runs.of(step, step * penalty, [setting.first_of(epsilon)] * many, [epsilon] * many)
    found = one_batch(setting, runs, draw, FULL.tried_messages, forms=False)
    assert found["messages"] == list(range(FULL.tried_messages + 1))
    return np.nan_to_num(found["error"][:, 1:], nan=np.inf)


def compared(name: str, epsilon: float, chosen: dict[str, Any], count: int) -> dict[str, Any]:
    """Errors of the chosen setting and of the best of `count` fresh ones."""
    setting = SETTINGS[name]
    step, penalty = random_settings(setting, count, OTHERS)
    first = errors(setting, epsilon, step, penalty, TUNING_DRAW)
    few = np.argsort(first.min(axis=1))[:BEST]
    messages = np.append(first[few].argmin(axis=1), chosen["messages"] - 1)
    both = np.append(step[few], chosen["step"]), np.append(penalty[few], chosen["penalty"])
    again = [errors(setting, epsilon, *both, draw)[np.arange(BEST + 1), messages] for draw in (*CHOOSE, *JUDGE)]
    best = int(np.mean(again[: len(CHOOSE)], axis=0)[:BEST].argmin())
    last = np.mean(again[len(CHOOSE) :], axis=0)
    return {"tried": count, "chosen": float(last[BEST]), "best of random": float(last[best]), "lower is better": True}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--settings", type=int, default=200)
    count, file = parser.parse_args(arguments).settings, HERE / "tuned.json"
    known = json.loads(file.read_text()) if file.exists() else {}
    for item, name in FIGURES.items():
        chosen = json.loads((HERE / "results" / f"{item}.json").read_text())["settings"]["tuned"]
        rows = known.setdefault(name, {}).setdefault("random/as printed, tuned", {})
        for label, setting in chosen.items():
            epsilon = label.removeprefix("epsilon ")
            if epsilon not in rows:
                rows[epsilon] = compared(name, float(epsilon), setting, count)
                file.write_text(json.dumps(known, indent=1))
                print(name, label, rows[epsilon], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
