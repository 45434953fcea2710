"""How settings of the printed side are chosen: by cross-validation on the training rows of all tasks, as in section 5.2.

One fold sorts the listed and the random settings. Around the best of them others are drawn, generation by generation and ever closer, with new
noise each time so that no lucky draw survives: what is chosen lies on no edge of a list. All folds judge the best few. Squared losses run many
settings at once (batch.py); others are fitted one by one, and without generations.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from experiments.liang_2020.batch import Batch, usable
from experiments.liang_2020.runs import LOWER_IS_BETTER, Options, as_printed
from taskveil.tasks.split import k_fold
from taskveil.tasks.task import TaskSet

KEPT = 10  # that one fold likes best are judged on all folds
WIDTHS = (0.5, 0.4, 0.3, 0.2, 0.15, 0.1)  # of the steps between generations, in logarithms
CYCLES, GAIN = 4, 0.01  # widths are gone through again while they bring this much
OFFSPRING = 40
MOST_ROUNDS = 1000


class Folds:
    """Five folds of the training rows; what a fold needs is computed once for all methods and epsilons."""

    def __init__(self, train: TaskSet, seed: int, metric: str = "nmse") -> None:
        self.train, self.seed, self.metric = train, seed, metric
        self._batches: dict[int, Batch] = {}

    @cached_property
    def parts(self) -> list[tuple[TaskSet, TaskSet]]:
        return list(k_fold(self.train, 5, self.seed))

    def scores(self, name: str, options: list[Options], epsilon: float, folds: int, noise: int = 0) -> np.ndarray:
        """Mean over the first folds, smaller is better."""
        one = self._many if usable(self.train, name) else self._each
        return np.mean([one(name, options, epsilon, n, self.seed + n + noise) for n in range(folds)], axis=0)

    def _many(self, name: str, options: list[Options], epsilon: float, fold: int, seed: int) -> np.ndarray:
        seen, held = self.parts[fold]
        if fold not in self._batches:
            self._batches[fold] = Batch(seen)
        return self._batches[fold].errors(name, options, epsilon, held, seed)

    def _each(self, name: str, options: list[Options], epsilon: float, fold: int, seed: int) -> np.ndarray:
        sign, worst = (1, 1e9) if self.metric in LOWER_IS_BETTER else (-1, 0.0)
        found = [as_printed(name, o, *self.parts[fold], epsilon, seed, self.metric) for o in options]
        return sign * np.nan_to_num(found, nan=worst, posinf=worst, neginf=worst)


def tuned(
    name: str, rows: Folds, epsilon: float, folds: int, grid: Iterable[Options], widths: tuple[float, ...] = WIDTHS
) -> Options:
    """The setting with the best cross-validated score among those given and those found around them."""
    options = list(grid)
    best = _best(options, rows.scores(name, options, epsilon, 1))
    for cycle in range(CYCLES if widths and usable(rows.train, name) else 0):
        before, best = best[0], _bred(name, rows, epsilon, best, widths, 1000 * (cycle + 1))
        old, new = rows.scores(name, [before, best[0]], epsilon, folds, noise=1000 * (cycle + 1) + 999)
        if new > (1 - GAIN) * old:
            break
    return best[int(np.argmin(rows.scores(name, best, epsilon, folds)))] if folds > 1 else best[0]


def _bred(name: str, rows: Folds, epsilon: float, best: list[Options], widths: tuple[float, ...], noise: int) -> list[Options]:
    """The best after a generation of every width."""
    rng = np.random.default_rng([rows.seed, noise])
    for generation, width in enumerate(widths):
        options = best + [nearby(best[rng.integers(len(best))], width, rng) for _ in range(OFFSPRING)]
        best = _best(options, rows.scores(name, options, epsilon, 1, noise=noise + 100 * generation))
    return best


def _best(options: list[Options], scores: np.ndarray) -> list[Options]:
    return [options[i] for i in np.argsort(scores, kind="stable")[:KEPT]]


def nearby(options: Options, width: float, rng: np.random.Generator) -> Options:
    """A setting of the same kind: every number moved by a random factor, an exponent by a random step."""
    moved = dict(options)
    for key in ("rounds", "step", "penalty", "clip", "strong_convexity"):
        if key in moved:
            moved[key] = float(moved[key] * np.exp(width * rng.standard_normal()))
    moved["rounds"] = int(np.clip(round(moved["rounds"]), 1, MOST_ROUNDS))
    if moved.get("allocation") == "power":
        moved["exponent"] = float(moved["exponent"] + 2 * width * rng.standard_normal())
    elif "exponent" in moved:
        moved["exponent"] = float(moved["exponent"] ** np.exp(width * rng.standard_normal()))
    return moved
