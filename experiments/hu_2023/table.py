"""Accuracies behind the items: measured.json for full items, a small simulation for quick ones.

Every number is the accuracy over all judged rows of one run, (splits, noise draws). `sound, add-remove` are runs of the library itself with
the settings it shipped with, one draw a split; the other two sides come from tune.py, on the same splits.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from experiments.hu_2023 import grid
from experiments.hu_2023.grid import PAPER_COHORT, PRINTED

HERE = Path(__file__).parent
QUICK_TASKS, QUICK_EPSILONS, QUICK_SPLITS = 110, (0.1, 4.0), 2
CLASSES = {"femnist": 62, "tags": 20}


@cache
def read(name: str) -> dict[str, Any]:
    return json.loads((HERE / f"{name}.json").read_text())


class Table:
    """What was measured; a quick one measures the published models of `mean` and `fedavg`, few tasks, few rounds, when asked."""

    def __init__(self, quick: bool, seed: int):
        self.quick, self.seed = quick, seed
        self.made: dict[tuple, np.ndarray] = {}

    @property
    def epsilons(self) -> tuple[float, ...]:
        return QUICK_EPSILONS if self.quick else tuple(e for e in grid.EPSILONS if e is not None)

    def get(self, data: str, side: str, method: str, epsilon: float | None, column: str = "published") -> np.ndarray | None:
        """(splits, draws), or None where it was not measured."""
        if self.quick:
            known = f"chosen/{side}/{method}" in read("tuned")[data] and method in ("mean", "fedavg")
            return self._simulated(data, side, method, epsilon) if known and column == "published" else None
        found = read("measured")[data].get(f"{side}/{method}", {}).get(str(epsilon), {}).get(column)
        return None if found is None else np.asarray(found)

    def alone(self, data: str) -> np.ndarray:
        """(splits, 1)"""
        return (
            self._simulated(data, PRINTED, "alone", None) if self.quick else np.asarray(read("measured")[data]["alone"])[:, None]
        )

    def _simulated(self, data: str, side: str, method: str, epsilon: float | None) -> np.ndarray:
        key = data, side, method, epsilon
        if key not in self.made:
            self.made[key] = simulated(data, side, method, epsilon, self.seed)
        return self.made[key]


def simulated(data: str, side: str, method: str, epsilon: float | None, seed: int) -> np.ndarray:
    """Published models of a few tasks after at most 20 rounds of at most 5 steps, (splits, 1)."""
    import jax

    from experiments.hu_2023.simulate import Rows, accuracy, fine_tuned, scores

    stored = quick_splits(data)
    rows, judged = (Rows(*(stored[f"test{part}_{a}"] for a in ("X", "y", "weight"))) for part in ("", "_judged"))
    if method == "alone":
        zero = np.zeros((*rows.X.shape[1:2], rows.X.shape[3], CLASSES[data]), np.float32)
        return np.array([[float(accuracy(fine_tuned("vanilla", zero, zero, Rows(*r)), Rows(*j)))]
                         for r, j in zip(zip(*rows, strict=True), zip(*judged, strict=True), strict=True)])  # fmt: skip
    setting = chosen(data, side, method, epsilon, "published")["setting"]
    setting = setting | {"rounds": min(setting["rounds"], 20), "steps": min(setting["steps"], 5)}
    noise = grid.noise_on_sum(side, QUICK_TASKS, epsilon, setting, quick_multipliers())
    knobs = grid.knobs(side, method, [setting] * QUICK_SPLITS, [noise] * QUICK_SPLITS)
    keys = jax.vmap(jax.random.key)(np.arange(QUICK_SPLITS, dtype=np.uint32) + 100 * seed)
    cohort = PAPER_COHORT if side == PRINTED else QUICK_TASKS
    return np.asarray(scores(
        "steps", (rows, judged, stored["test_folds"]), np.arange(QUICK_SPLITS), CLASSES[data], cohort, np.int32(setting["rounds"]),
        np.int32(setting["steps"]), knobs, keys, False,
    ))  # fmt: skip


@cache
def quick_splits(data: str) -> dict[str, np.ndarray]:
    from experiments.hu_2023.data import SEEDS, prepared

    return prepared(data, QUICK_TASKS, {"test": SEEDS["test"][:QUICK_SPLITS]})


def quick_multipliers() -> dict[str, float]:
    """For 110 tasks the multipliers of 206 stand in: a quick run shows that things run, its epsilon is not stated."""
    return {f"{QUICK_TASKS}/{k.partition('/')[2]}": v for k, v in read("multipliers").items() if k.startswith("206/")}


def chosen(data: str, side: str, method: str, epsilon: float | None, column: str) -> dict[str, Any]:
    """Setting and validation accuracy."""
    return read("tuned")[data][f"chosen/{side}/{method}"][str(epsilon)][column]


def true_epsilons(data: str, epsilon: float, method: str = "mean") -> dict[str, float]:
    """What the noise of the printed setting is worth to a task, replace-one, for observers who know the cohorts and who do not.

    Known cohorts: one plain Gaussian release for each of a task's rounds, all T of them at worst, about T q / m of them typically.
    Sensitivity 2 gamma where one task's rows are replaced by others (section 3.2), gamma where it comes or goes.
    """
    from experiments.hu_2023.data import TASKS
    from taskveil.privacy.guarantees import gaussian_epsilon

    m, rounds = TASKS[data], int(chosen(data, PRINTED, method, epsilon, "published")["setting"]["rounds"])
    multiplier = read("multipliers")[f"{m}/{epsilon}/{rounds}"]
    usual = max(1, round(rounds * PAPER_COHORT / m))
    return {
        "rounds": rounds,
        "known cohorts, replace-one, every round": gaussian_epsilon(1 / m, 2 * math.sqrt(rounds) / multiplier),
        "known cohorts, replace-one, usual number": gaussian_epsilon(1 / m, 2 * math.sqrt(usual) / multiplier),
        "known cohorts, add-remove, usual number": gaussian_epsilon(1 / m, math.sqrt(usual) / multiplier),
    }
