"""Rounds to a duality gap, with everybody and with a quarter answering, and how far masks keep a run from the optimum."""

from __future__ import annotations

from typing import Any

import numpy as np

from experiments.ponomarenko_2023.clock import HAR, epoch_times, quality, run, sides
from experiments.ponomarenko_2023.compute_times import ComputeTimes, waiting_time
from experiments.ponomarenko_2023.data import Split, har_split
from taskveil.methods.svm.method import Svm
from taskveil.methods.svm.tasks import make_problems, settle
from taskveil.solvers.sequential_svm import solve_sequential

CONSTANTS = ((0.03, 5.0), (0.003, 1.0), (0.01, 2.0), (0.1, 10.0), (0.03, 30.0), (0.1, 0.5))
COORDINATORS = ("quasi-newton", "safe, adaptive s", "s = K")


class Watch:
    """Relative duality gap at every `every`-th round: P(w, best v for w) - best D so far, over the optimum."""

    def __init__(self, method: Svm, split: Split, every: int = 1) -> None:
        self.problem = make_problems(method, *sides(split))[0]
        self.optimum = solve_sequential(self.problem, tol=1e-6).primal
        self.every, self.count, self.best = every, 0, (np.inf, -np.inf)

    def __call__(self, tasks: Any, state: Any, view: Any) -> float:
        self.count += 1
        if (self.count - 1) % self.every:
            return float("nan")
        settled = settle(state, view.accepted)
        dual = self.problem.dual_value(tasks._flat(settled["dual"], 0), settled["sums"][:, 0])
        models = tasks.finish(state, view)
        w = tasks._shared(view, 0)
        points = np.concatenate([models.coef[:, 0], models.intercept], axis=1)
        self.best = (min(self.best[0], self.problem.primal(w, points - w)), max(self.best[1], dual))
        return (self.best[0] - self.best[1]) / self.optimum


def first_below(values: list[float], level: float) -> int | None:
    """Number of the first round whose figure is at most the level."""
    found = [i + 1 for i, v in enumerate(values) if v <= level]
    return found[0] if found else None


def rounds_table(quick: bool) -> dict[str, Any]:
    """Rounds to gap 1e-3 for several constants, with other coordinators beside; and with a quarter answering to 1e-2."""
    split = har_split(0, 20)
    table: dict[str, Any] = {"everybody": [], "quarter": []}
    for a, b in CONSTANTS[:1] if quick else CONSTANTS:
        constants = {**HAR, "C1": a, "C2": b}
        row: dict[str, Any] = {"C1": a, "C2": b}
        method = Svm(**constants, tol=1e-3, rounds=200)
        gaps = [float(x.values["gap"][0]) for x in run(method, split, ComputeTimes()).billboards[1:]]
        row["quasi-newton"] = {"rounds": first_below(gaps, 1e-3), "gaps": gaps}
        table["everybody"].append(row)
    for name, shrinks in (("safe, adaptive s", True), ("s = K", False)):  # slow: for the first constants only
        gaps = safe_gaps(split, HAR, 60 if quick else 120, shrinks)
        table["everybody"][0][name] = {"rounds": first_below(gaps, 1e-3), "gaps": gaps}
    for a, b in CONSTANTS[:1] if quick else CONSTANTS[:3]:
        table["quarter"].append(quarter_row(split, {**HAR, "C1": a, "C2": b}, 60 if quick else 200))
    return table


def quarter_row(split: Split, constants: dict[str, Any], rounds: int) -> dict[str, Any]:
    """A quarter of the participants answers in each round, on the virtual clock."""
    times = epoch_times(split, heterogeneous=False)
    method = Svm(**constants, rounds=rounds)
    wait = waiting_time(times, split.train.sizes, split.train.n_features, 0.25)
    every = 10
    record = run(method, split, times, wait, watcher=Watch(method, split, every))
    gaps = [g for g in record.watched if np.isfinite(g)]
    found = first_below(gaps, 1e-2)
    return {
        "C1": constants["C1"], "C2": constants["C2"], "answered": record.response_share,
        "rounds to 1e-2": None if found is None else every * (found - 1) + 1, "last gap": float(gaps[-1]), "rounds": record.rounds,
    }  # fmt: skip


def safe_gaps(split: Split, constants: dict[str, Any], rounds: int, shrinks: bool) -> list[float]:
    """Gaps of the safe coordinator; without shrinking s it is CoCoA+ as published: s = K in every round."""
    from taskveil.methods.svm import coordinator

    method = Svm(**constants, coordinator="safe", rounds=rounds, tol=1e-3)
    kept = coordinator.SHRINK
    try:
        coordinator.SHRINK = kept if shrinks else 1.0
        record = run(method, split, ComputeTimes(), watcher=Watch(method, split))
    finally:
        coordinator.SHRINK = kept
    return [float(g) for g in record.watched]


def mask_distances(quick: bool) -> list[dict[str, Any]]:
    """How far above the optimum masked runs end, masking the dual step (consistent) or dw alone (as in the paper)."""
    rounds, rows = 100 if quick else 1500, []
    for data, light in (("light HAR", 100),) if quick else (("HAR", None), ("light HAR", 100)):
        split = har_split(0, 20, light)
        for mask in (None, ("bernoulli", 0.5), ("beta", 2.0, 0.5)):
            for mode in ("consistent", "paper") if mask else ("consistent",):
                method = Svm(
                    **{**HAR, "C1": 0.01, "C2": 2.0}, mask=mask, mask_mode=mode, mask_seed=0, coordinator="safe",
                    local_passes=1, rounds=rounds, tol=0.0,
                )  # fmt: skip
                watch = Watch(method, split, 10**9)
                record = run(method, split, ComputeTimes())
                w = record.billboards[-1].values["shared"][0]
                points = np.concatenate([record.models.coef[:, 0], record.models.intercept], axis=1)
                excess = watch.problem.primal(w, points - w) / watch.optimum - 1.0
                rows.append(
                    {"data": data, "mask": "none" if mask is None else f"{mask[0]} {', '.join(map(str, mask[1:]))}",
                     "mode": mode, "above optimum": float(excess), "rounds": rounds,
                     "balanced accuracy": quality(record.models, split)}
                )  # fmt: skip
    return rows
