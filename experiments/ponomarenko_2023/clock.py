"""Runs on the virtual clock: how long an epoch takes, and the quality of the models while the time passes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from experiments.ponomarenko_2023.accuracy import mean_r2
from experiments.ponomarenko_2023.compute_times import ComputeTimes, heterogeneous_hardware
from experiments.ponomarenko_2023.data import Split
from experiments.ponomarenko_2023.waiting_rounds import StragglerRecord, run_with_stragglers
from taskveil.estimators.metrics import evaluate
from taskveil.methods.base import Method, Models, PublicInfo
from taskveil.methods.svm.method import Svm
from taskveil.privacy.plan import Budget, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime.run import Run
from taskveil.tasks.block import TaskBlock

NONE = Budget(epsilon=None, delta=1e-5)
# Constants for the figures over time; on HAR as accurate as those that Fig. 5 chooses split by split, the others are chosen there most often.
HAR = {"C1": 0.03, "C2": 5.0, "class_weight": "balanced"}
LIGHT = {**HAR, "C1": 0.1, "C2": 100.0}
MOCHA = {**HAR, "C1": 0.003, "C2": 30.0}
REGRESSION = {"C1": 0.03, "C2": 10.0}
BASE_SECONDS, SECONDS_PER_CELL, SPREAD = 1e-3, 2e-8, 0.2


class EpochTimes(ComputeTimes):
    """The paper's clock: a round costs one epoch over a participant's rows."""

    def draw(self, round: int, rows: np.ndarray, n_features: int) -> np.ndarray:
        return super().draw(round, self.sizes, n_features)  # type: ignore[attr-defined]

    def for_sizes(self, sizes: np.ndarray) -> EpochTimes:
        object.__setattr__(self, "sizes", sizes)
        return self


def epoch_times(split: Split, heterogeneous: bool, seed: int = 0) -> EpochTimes:
    """Gaussian epochs; hardware factors 1 to 10 where heterogeneous (section 7.1)."""
    factor = heterogeneous_hardware(split.train.n_tasks) if heterogeneous else None
    return EpochTimes(BASE_SECONDS, SECONDS_PER_CELL, SPREAD, factor, seed).for_sizes(split.train.sizes)


def sides(split: Split) -> tuple[TaskBlock, PublicInfo]:
    block = TaskBlock.from_tasks(split.train)
    return block, PublicInfo(block.n_tasks, block.n_features, block.n_outputs, block.kind)


def run(method: Method, split: Split, times: ComputeTimes, wait: float = np.inf, **options: Any) -> StragglerRecord:
    block, public = sides(split)
    plan = make_plan(method.requests(public, NONE), NONE)
    return run_with_stragglers(Run(method, public, plan, source=insecure_seeded_noise(0)), block, times, wait, **options)


class Model:
    """Models as an estimator that `evaluate` accepts."""

    def __init__(self, models: Models) -> None:
        self.models = models

    def predict(self, test: Any) -> np.ndarray:
        scores = TaskBlock.from_tasks(test).scores(self.models.coef, self.models.intercept)[:, 0]
        return scores if test.kind == "regression" else test.classes[np.where(scores > 0, 1, 0)]


def quality(models: Models, split: Split) -> float:
    """Balanced accuracy or R^2 on the test part."""
    if split.test.kind == "regression":
        return mean_r2(Model(models), split.test)
    return evaluate(Model(models), split.test, "balanced-accuracy")


class Score:
    """Test quality of the models as they are, in rounds that grow by a factor, and in the last one."""

    def __init__(self, split: Split, last: int, growth: float) -> None:
        self.split, self.last, self.growth = split, last, growth
        self.count, self.due = 0, 1

    def __call__(self, tasks: Any, state: Any, view: Any) -> float:
        self.count += 1
        if self.count < self.due and self.count < self.last:
            return float("nan")
        self.due = max(self.count + 1, round(self.growth * self.count))
        return quality(tasks.finish(state, view), self.split)


def curve(method: Any, split: Split, times: ComputeTimes, wait: float = np.inf, growth: float = 1.15) -> dict[str, Any]:
    """Virtual seconds and quality of one run."""
    record = run(method, split, times, wait, watcher=Score(split, method.rounds, growth))
    points = [(t, v) for t, v in zip(record.seconds, record.watched) if np.isfinite(v)]
    return {
        "x": [float(t) for t, _ in points], "y": [float(v) for _, v in points],
        "answered": record.response_share, "rounds": record.rounds,
    }  # fmt: skip


def banded(runs: list[dict[str, Any]], points: int = 40) -> dict[str, list[float]]:
    """Mean and deviation of curves of several repeats over the time that all of them cover; each holds its last value until the next."""
    first, last = max(c["x"][0] for c in runs), min(c["x"][-1] for c in runs)
    x = np.linspace(first, last, points)
    y = np.stack([np.asarray(c["y"])[np.searchsorted(c["x"], x, side="right") - 1] for c in runs])
    return {"x": x.tolist(), "y": y.mean(axis=0).tolist(), "std": (y.std(axis=0, ddof=1) if len(runs) > 1 else 0 * x).tolist()}


def printed(split: Split, constants: dict[str, Any], rounds: int = 60) -> dict[str, Any]:
    """The equations as printed (`variant="paper"`): when it is called off, and how good its models were by then."""
    block, public = sides(split)
    budget = replace(NONE, variant="paper")
    method = Svm(**constants, rounds=rounds).under("task", "paper")
    plan = make_plan(method.requests(public, budget), budget)
    tasks, server = method.task_side(block, public, plan), method.server_side(public, plan)
    state, (server_state, billboard) = tasks.start(), server.start()
    objective, qualities = [], []
    for _ in range(rounds):
        state, message = tasks.step(state, billboard.view(None))
        sums = {k: v.sum(axis=0) for k, v in message.items()}
        server_state, billboard = server.step(server_state, sums, np.ones(block.n_tasks, bool))
        objective.append(float(billboard.values["objective"][0]))
        qualities.append(quality(_last_models(state, billboard.values["shared"][0], block.n_features), split))
        if billboard.done:
            break
    return {"diverged": bool(billboard.done), "rounds": len(objective), "objective": objective, "quality": qualities}


def _last_models(state: Any, shared: np.ndarray, d: int) -> Models:
    """w + v_k as they stand, which the method itself refuses to return once it has diverged."""
    wide = np.append(shared, np.zeros(d + 1 - shared.size))
    points = np.nan_to_num(state["own"] + wide)
    return Models(points[:, :, :d], points[:, :, d])
