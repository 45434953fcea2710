"""Synchronous rounds with a waiting time, on a virtual clock: late messages are dropped (Ponomarenko-Timofeev et al., 3.1, 7.2).

    billboard -> all compute -> the server waits T_wait -> sum of what arrived -> billboard lists whose messages it holds

A late participant interrupts, takes the new w and restarts; the billboard's list tells it to roll back (methods decide how).
MOCHA's rule is different: nobody is dropped, a slow node gets as many rows as fit into T_wait (`effort` in its view).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from experiments.ponomarenko_2023.compute_times import ComputeTimes
from taskveil.methods.base import Billboard, Models, State, TaskSide, View
from taskveil.runtime.round import Round, released
from taskveil.runtime.run import Run
from taskveil.tasks.block import TaskBlock

Watcher = Callable[[TaskSide, State, View], Any]


@dataclass
class StragglerRecord:
    """Models, and for each round the virtual time at its end, who answered, and what the watcher returned."""

    models: Models
    billboards: list[Billboard]
    seconds: list[float] = field(default_factory=list)
    answered: list[np.ndarray] = field(default_factory=list)
    watched: list[Any] = field(default_factory=list)

    @property
    def rounds(self) -> int:
        return len(self.seconds)

    @property
    def response_share(self) -> float:
        return float(np.mean([a.mean() for a in self.answered]))


def run_with_stragglers(
    run: Run,
    block: TaskBlock,
    times: ComputeTimes,
    wait: float = float("inf"),
    partial_work: bool = False,
    server_seconds: float = 0.0,
    watcher: Watcher | None = None,
) -> StragglerRecord:
    """The rounds of `run` with a clock. `partial_work`: slow nodes do less instead of being dropped."""
    tasks, rounds = run.method.task_side(block, run.public, run.plan), Round(run)
    state, at, now = tasks.start(), rounds.start(), 0.0
    run.account.reserve(run.plan)
    record = StragglerRecord(Models(np.zeros(0), np.zeros(0)), [at.billboards[0]])
    for releases in rounds.releases:
        view = at.billboards[-1].view(None)
        if partial_work and np.isfinite(wait):
            effort = times.rows_within(wait, block.n_features, block.n_tasks)
            view = replace(view, values={**view.values, "effort": effort})
        state, message = tasks.step(state, view)
        taken = times.draw(releases[0].round, getattr(tasks, "work", block.sizes), block.n_features)
        arrived = np.ones(block.n_tasks, dtype=bool) if partial_work else taken <= wait
        billboard = rounds.published(at, released(run, releases, message, arrived), arrived, None)
        now += min(wait, float(taken.max(initial=0.0))) + server_seconds
        record.billboards.append(billboard)
        record.seconds.append(now)
        record.answered.append(arrived)
        if watcher is not None:
            record.watched.append(watcher(tasks, state, billboard.view(None)))
        if billboard.done:
            break
    record.models = tasks.finish(state, at.billboards[-1].view(None))
    run.account.finish()
    return record
