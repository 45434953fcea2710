"""Asynchronous arrivals: what one message costs the server, against a full decomposition at every arrival."""

from __future__ import annotations

import numpy as np

from benchmarks.timing import measured, take_turns_with_processor
from taskveil.methods.async_mtl import AsyncMTL
from taskveil.methods.base import PublicInfo
from taskveil.privacy.plan import Budget, make_plan

TASKS, FEATURES, ROWS = 1000, 100, 50
ARRIVALS = 20  # per turn


class _Stream:
    """A server fed with random gradients from random tasks."""

    def __init__(self) -> None:
        public = PublicInfo(TASKS, FEATURES, 1, "regression", fit_intercept=False, task_rows=(ROWS,) * TASKS)
        method = AsyncMTL("aso", rounds=1, step=0.5)
        budget = method.adjust(Budget(1.0, 1e-6, "record"))
        self.server = method.server_side(public, make_plan(method.requests(public, budget), budget))
        self.rng = np.random.default_rng(0)
        self.state, _ = self.server.start()
        for task in range(TASKS):  # every column is filled before the clock starts
            self.arrive(task)

    def arrive(self, task: int) -> None:
        accepted = np.zeros(TASKS, dtype=bool)
        accepted[task] = True
        gradient = ROWS * self.rng.standard_normal((1, 1, FEATURES))
        self.state, billboard = self.server.step(self.state, {"gradient": gradient}, accepted)
        billboard.view(np.array([task]))

    def incremental(self) -> None:
        for task in self.rng.integers(0, TASKS, ARRIVALS):
            self.arrive(int(task))

    def full(self) -> None:
        threshold = float(self.state["step"][0]) * 0.05
        for _ in range(ARRIVALS):
            U, s, V = np.linalg.svd(self.state["Z"], full_matrices=False)
            (U * np.maximum(s - threshold, 0.0)) @ V


def arrival_milliseconds(repeats: int) -> dict:
    """Processor time of one arrival, bookkeeping and the new column included."""
    stream = _Stream()
    times = take_turns_with_processor({"arrival": stream.incremental}, repeats)["arrival"]
    return measured(1e3 * times[:, 1] / ARRIVALS, at_most=3.0, unit="ms per arrival", shape=[TASKS, FEATURES])


def against_full_svd(repeats: int) -> dict:
    """How many arrivals fit into the time of one full SVD per arrival."""
    stream = _Stream()
    times = take_turns_with_processor({"arrival": stream.incremental, "svd": stream.full}, repeats)
    return measured(times["svd"][:, 1] / times["arrival"][:, 1], at_least=4.0, shape=[TASKS, FEATURES])


BENCHMARKS = {"async_arrival_ms": arrival_milliseconds, "async_arrival_against_svd": against_full_svd}
