"""Is a printed method held back by its tuning? Fresh random settings against the one that a figure chose, on validation rows.

python -m experiments.liang_2020.starved fig6 --settings 200

Reads what `results/FIGURE.json` chose, scores it and as many other random settings of the same method by cross-validation on the tuning
draw, and names every row in which the best of them is better by more than 5 %. Exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from experiments.liang_2020 import curves, runs
from experiments.liang_2020.tradeoff import GROUP, LOW_RANK, PRINTED

ALLOWED = 0.05
DRAWS = {
    "fig6": (lambda: curves.synthetic("low-rank", 0), "nmse"),
    "fig6b": (lambda: curves.synthetic("group-sparse", 0), "nmse"),
    "fig9": (lambda: curves.school(0.3, 0), "nmse"),
    "fig9b": (lambda: curves.stand_in(0.3, 0), "auc"),
}
TUNING_DRAW, OTHER_SEED = 1000, 1


def rows(figure: str, count: int, folds: int = 1) -> list[dict[str, Any]]:
    """Method and epsilon -> validation score of the chosen setting and of the best of `count` fresh ones."""
    make, metric = DRAWS[figure]
    train, _ = make()(TUNING_DRAW)
    chosen = json.loads((Path(__file__).parent / "results" / f"{figure}.json").read_text())["settings"][
        "chosen by cross-validation"
    ]
    found = []
    for name in (LOW_RANK, GROUP):
        for epsilon, options in chosen.get(name, {}).items():

            def score(o: runs.Options, method: str = PRINTED[name], e: float = float(epsilon)) -> float:
                return runs.cross_validated(train, method, o, e, TUNING_DRAW, metric, folds)

            others = [score(o) for o in runs.random_proximal(count, 300, OTHER_SEED)]
            found.append(
                {
                    "method": name,
                    "epsilon": epsilon,
                    "chosen": score(options),
                    "best of others": (min if metric == "nmse" else max)(others),
                }
            )
    return found


def starved(row: dict[str, Any], metric: str) -> bool:
    """Whether the best of the others is better by more than is allowed."""
    better = row["chosen"] - row["best of others"] if metric == "nmse" else row["best of others"] - row["chosen"]
    return better > ALLOWED * abs(row["best of others"])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figure", choices=list(DRAWS))
    parser.add_argument("--settings", type=int, default=200)
    asked = parser.parse_args(arguments)
    found = rows(asked.figure, asked.settings)
    for row in found:
        print(f"{row['method']}, epsilon {row['epsilon']}: {row['chosen']:.4f}, best of {asked.settings} others {row['best of others']:.4f}"
              + (" STARVED" if starved(row, DRAWS[asked.figure][1]) else ""))  # fmt: skip
    return int(any(starved(row, DRAWS[asked.figure][1]) for row in found))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
