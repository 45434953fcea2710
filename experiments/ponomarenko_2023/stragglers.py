"""Fig. 6-10: quality against virtual time for several waiting times, and the claims as inequalities over repeats."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from experiments.common import Check, below, not_above
from experiments.ponomarenko_2023.clock import HAR, REGRESSION, banded, curve, epoch_times
from experiments.ponomarenko_2023.compute_times import waiting_time
from experiments.ponomarenko_2023.data import Split, har_split, synthetic_regression
from taskveil.methods.svm.method import Svm

ALL = "All"
LEVEL = 0.99  # "converged": this share of what waiting for all reaches in the end


@dataclass(frozen=True)
class Setting:
    """One of the figures."""

    shares: tuple[float, ...]
    regression: bool
    heterogeneous_data: bool
    heterogeneous_hardware: bool

    def split(self, seed: int) -> Split:
        return synthetic_regression(seed, self.heterogeneous_data) if self.regression else har_split(seed, 20)

    @property
    def constants(self) -> dict[str, Any]:
        return REGRESSION if self.regression else HAR


SETTINGS = {
    "fig6": Setting((0.10, 0.25, 0.45, 1.0), False, False, False),
    "fig7": Setting((0.20, 0.45, 0.75, 1.0), False, False, True),
    "fig8": Setting((0.10, 0.25, 0.45, 1.0), True, False, False),
    "fig9": Setting((0.10, 0.25, 0.45, 1.0), True, True, False),
    "fig10": Setting((0.20, 0.45, 0.75, 1.0), True, True, True),
}


def label(share: float) -> str:
    return ALL if share == 1.0 else f"{share:.0%}"


def curves(setting: Setting, seed: int, rounds: int) -> dict[str, Any]:
    """One curve per waiting time, all over the virtual time that `rounds` rounds of waiting for everybody take."""
    split = setting.split(seed)
    times = epoch_times(split, setting.heterogeneous_hardware, seed)
    found: dict[str, Any] = {}
    horizon = np.inf
    for share in sorted(setting.shares, reverse=True):
        wait = waiting_time(times, split.train.sizes, split.train.n_features, share)
        count = rounds if share == 1.0 else int(np.ceil(horizon / wait))
        method = Svm(**setting.constants, rounds=count, tol=0.0, coordinator="safe", local_passes=1)
        found[label(share)] = curve(method, split, times, wait)
        horizon = min(horizon, found[label(share)]["x"][-1]) if share == 1.0 else horizon
    return found


def figures(found: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Per waiting time: seconds to the level, final quality, lowest and spread over the last third."""
    level = LEVEL * found[ALL]["y"][-1]
    out = {}
    for name, c in found.items():
        reached = crossing(c["x"], c["y"], level)
        tail = c["y"][-max(len(c["y"]) // 3, 1) :]
        out[name] = {
            "seconds": 2.0 * c["x"][-1] if reached is None else reached,
            "reached": float(reached is not None),
            "final": c["y"][-1],
            "spread": float(np.std(tail)),
            "fallen": max(c["y"]) - c["y"][-1],
            "answered": c["answered"],
        }
    return out


def crossing(x: list[float], y: list[float], level: float) -> float | None:
    """Where a curve first reaches the level, on the straight line between its points; None where it never does."""
    for i, value in enumerate(y):
        if value >= level:
            if i == 0:
                return x[0]
            return x[i - 1] + (x[i] - x[i - 1]) * (level - y[i - 1]) / (value - y[i - 1])
    return None


def repeated(name: str, seeds: int, rounds: int) -> tuple[dict[str, Any], dict[str, dict[str, list[float]]]]:
    """(curves with their bands over repeats, waiting time -> figure -> values over repeats)."""
    setting = SETTINGS[name]
    runs = [curves(setting, seed, rounds) for seed in range(seeds)]
    tables = [figures(r) for r in runs]
    table = {share: {f: [t[share][f] for t in tables] for f in tables[0][share]} for share in runs[0]}
    return {share: banded([r[share] for r in runs]) for share in runs[0]}, table


def sooner(a: str, b: str, table: dict[str, Any], note: str = "") -> Check:
    return below(f"waiting for {a} converges sooner than for {b}{note}", table[a]["seconds"], table[b]["seconds"])


def claims(name: str, table: dict[str, Any], homogeneous: dict[str, Any] | None = None) -> list[Check]:
    """What the paper says about each figure. `homogeneous`: the table it compares itself with."""
    everybody = table[ALL]
    level = 0.99 * np.array(everybody["final"])
    ours = [
        below(f"waiting for {share} ends within 1 % of waiting for all", level, found["final"], about="ours")
        for share, found in table.items()
        if share != ALL
    ]
    if name == "fig6":
        said = [
            sooner("45%", ALL, table),
            below("10 % is less stable than waiting for all", everybody["spread"], table["10%"]["spread"]),
            below("10 % ends clearly lower (more than a point)", table["10%"]["final"], np.array(everybody["final"]) - 0.01),
        ]
    elif name == "fig7":
        said = [
            sooner("20%", ALL, table),
            below("20 % is less stable than waiting for all", everybody["spread"], table["20%"]["spread"]),
            not_above("all end alike (within a point)", np.array(everybody["final"]) - 0.01, table["20%"]["final"]),
        ]
    elif name == "fig8":
        said = [
            sooner("45%", ALL, table),
            below("25 % converges later than 45 %", table["45%"]["seconds"], table["25%"]["seconds"]),
            below("10 % is less stable than waiting for all", everybody["spread"], table["10%"]["spread"]),
            below(
                "all end at a high R^2 (above 0.9)",
                [0.9] * len(everybody["final"]),
                np.min([t["final"] for t in table.values()], axis=0),
            ),
        ]
    elif name == "fig9":
        said = [
            sooner("45%", ALL, table),
            sooner("25%", ALL, table),
            below("10 % converges later than 45 %", table["45%"]["seconds"], table["10%"]["seconds"]),
            below("10 %: R^2 declines in the end (by more than 0.01)", [0.01] * len(everybody["final"]), table["10%"]["fallen"]),
        ]
    else:
        said = [
            below("waiting for 45% is not sooner than for All", everybody["seconds"], table["45%"]["seconds"]),
            sooner("75%", ALL, table),
            below("20 % ends lower than waiting for all", table["20%"]["final"], np.array(everybody["final"]) - 0.01),
        ]
    if homogeneous is not None:
        said.append(below("R^2 is lower than with homogeneous data", everybody["final"], homogeneous[ALL]["final"]))
    return said + ours
