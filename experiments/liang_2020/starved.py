"""Is a printed method held back by its tuning? Fresh random settings against the one that was chosen, on validation rows.

    python -m experiments.liang_2020.starved low-rank --settings 200

The best of fresh settings is found by the rule that chose ours (the tuning draw, without the generations); then both are judged again on all five folds with
the same new noise. What comes out is kept in tuned.json, and `python -m experiments.random_settings` names every row in which the
fresh one is better by more than 5 %.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from typing import Any

from experiments.liang_2020 import curves, runs
from experiments.liang_2020.choosing import Folds, tuned
from experiments.liang_2020.tradeoff import EVERY_EPSILON, GROUP, LOW_RANK, PRINTED
from experiments.liang_2020.tuning import kept, read

DRAWS = {
    "low-rank": (partial(curves.synthetic, "low-rank", 0), "nmse"),
    "group-sparse": (partial(curves.synthetic, "group-sparse", 0), "nmse"),
    "school 30%": (partial(curves.school, 0.3, 0), "nmse"),
    "stand-in 30%": (partial(curves.stand_in, 0.3, 0), "auc"),
}
TUNING_DRAW, OTHER_SETTINGS, NEW_NOISE = 1000, 1, 2000


def check(data: str, count: int) -> None:
    """Every tuned cell of the two printed algorithms on one data set that was not checked yet."""
    make, metric = DRAWS[data]
    train, _ = make()(TUNING_DRAW)
    choice, judge = Folds(train, TUNING_DRAW, metric), Folds(train, NEW_NOISE, metric)
    for name in (LOW_RANK, GROUP):
        known = read().get(data, {}).get(f"chosen/{name}", {})
        for epsilon in (e for e in EVERY_EPSILON if f"{e:g}" in known):
            row = kept(
                data, f"random/{name}", epsilon, partial(compared, choice, judge, name, known[f"{epsilon:g}"], epsilon, count)
            )
            print(
                f"{name}, epsilon {epsilon:g}: {row['chosen']:.4f}, best of {row['tried']} others {row['best of random']:.4f}",
                flush=True,
            )


def compared(choice: Folds, judge: Folds, name: str, chosen: runs.Options, epsilon: float, count: int) -> dict[str, Any]:
    """Scores of the chosen setting and of the best of `count` fresh ones."""
    method, fresh = PRINTED[name], runs.random_proximal(count, 300, OTHER_SETTINGS)
    best = tuned(method, choice, epsilon, 5, fresh, widths=())
    ours, other = abs(judge.scores(method, [chosen, best], epsilon, 5))
    return {
        "tried": count,
        "chosen": float(ours),
        "best of random": float(other),
        "lower is better": judge.metric in runs.LOWER_IS_BETTER,
    }


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", choices=list(DRAWS))
    parser.add_argument("--settings", type=int, default=200)
    asked = parser.parse_args(arguments)
    check(asked.data, asked.settings)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
