"""Is "as printed, tuned" held back by its tuning? Fresh random settings against the one that was chosen, on draws of the data of their own.

    python -m experiments.xie_2017.starved [--settings 200]

The best fresh setting is found as ours was (runs.best_setting); then both are judged on the same draws, which chose neither. What comes out is kept
in tuned.json, and `python -m experiments.random_settings` names every row in which the fresh one is better by more than 5 %.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

from experiments.xie_2017.data import SETTINGS
from experiments.xie_2017.runs import FULL, best_setting, random_settings, trial_errors

HERE = Path(__file__).parent
FIGURES = {f"fig{n}": name for n, name in zip((3, 4, 5, 6), (
    "synthetic, classification", "ADNI-like, classification", "synthetic, regression", "ADNI-like, regression"), strict=True)}  # fmt: skip
OTHERS, JUDGE = 2000, (1003, 1004, 1005, 1006)


def compared(name: str, epsilon: float, chosen: dict[str, Any], count: int) -> dict[str, Any]:
    """Errors of the chosen setting and of the best of `count` fresh ones."""
    setting, messages = SETTINGS[name], FULL.tried_messages
    both = [chosen, best_setting(setting, epsilon, *random_settings(setting, count, OTHERS), messages)]
    step, penalty = (np.array([s[k] for s in both]) for k in ("step", "penalty"))
    at = [s["messages"] - 1 for s in both]
    ours, fresh = np.mean([trial_errors(setting, epsilon, step, penalty, draw, messages)[[0, 1], at] for draw in JUDGE], axis=0)
    return {"tried": count, "chosen": float(ours), "best of random": float(fresh), "lower is better": True}


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
