"""All tasks in one process, batched: the loop of THEORY section 0, step by step.

    view -> task step -> clip -> sum -> charge -> noise -> server step -> billboard

Clipping is done by the release's contribution, charging and noise by `privacy.release`; nothing else a task computes is
handed to the server side.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from taskveil.methods.base import Billboard, Message, Method, Models, PublicInfo, State, TaskSide, View
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.randomness import NoiseSource
from taskveil.privacy.release import release
from taskveil.privacy.spending import Account
from taskveil.runtime.record import RunRecord, merge_states
from taskveil.tasks.block import TaskBlock

Progress = Callable[[int, int], None]


def run(
    method: Method,
    block: TaskBlock,
    public: PublicInfo,
    plan: Plan,
    account: Account,
    source: NoiseSource,
    progress: Progress | None = None,
    checkpoint: Any | None = None,
) -> RunRecord:
    """Train all tasks of the block; returns models, billboards and what was charged.

    `checkpoint` (see runtime/checkpoint.py) may hand back an earlier position and is told after each server step.
    """
    if method.schedule == "asynchronous":
        from taskveil.runtime import virtual_clock

        return virtual_clock.run(method, block, public, plan, account, source, progress, checkpoint)
    started = time.perf_counter()
    if plan.budget.aggregation == "secure":
        from taskveil.runtime import secure

        secure.install()
    tasks, server = method.task_side(block, public, plan), method.server_side(public, plan)
    position = checkpoint.load() if checkpoint is not None else None
    if position is None:
        state = tasks.start()
        server_state, billboard = server.start()
        billboards, executed, schedule = [billboard], [], []
        account.reserve(plan)
    else:
        state, server_state, billboards, executed, schedule = position
    rounds = plan.rounds()
    for number, releases in rounds[billboards[-1].round :]:
        active = draw_cohort(releases, block.n_tasks, source, number)
        view = billboards[-1].view(None).asking(active)
        state, message = task_step(tasks, state, view)
        noisy = {}
        for planned in releases:
            bounded = bounded_message(planned, message, active)
            noisy[planned.name] = release(planned, bounded, account, source, plan.budget.aggregation).value
            executed.append(planned)
        accepted = np.ones(block.n_tasks, dtype=bool) if active is None else active
        server_state, billboard = server.step(server_state, noisy, accepted)
        if not method.keeps_history(plan):
            del billboards[1:]
        billboards.append(billboard)
        schedule.append(None if active is None else np.flatnonzero(active))
        if checkpoint is not None:
            checkpoint.save(state, server_state, billboards, executed, schedule)
        if progress is not None:
            progress(number, len(rounds))
        if billboard.done:
            break
    models = tasks.finish(state, billboards[-1].view(None))
    account.finish()
    return RunRecord(
        models, billboards, plan, public, executed, source.describe(), schedule, time.perf_counter() - started, state
    )


def task_step(tasks: TaskSide, state: State, view: View) -> tuple[State, Message]:
    """One step of a block; tasks that are not asked keep their state."""
    new_state, message = tasks.step(state, view)
    if view.active is not None and not tasks.merges_inactive:
        new_state = merge_states(state, new_state, view.active)
    return new_state, message


def bounded_message(planned: PlannedRelease, message: Message, active: np.ndarray | None) -> Bounded:
    """Clip what the tasks want to send; tasks outside the cohort contribute nothing."""
    raw = message[planned.name]
    if isinstance(raw, Bounded):
        return raw  # release() refuses what was clipped for another contribution
    if active is not None:
        raw = np.where(active.reshape((-1,) + (1,) * (raw.ndim - 1)), raw, 0.0)
    return planned.contribution.clip(raw)


def draw_cohort(
    releases: list[PlannedRelease], n_tasks: int, source: NoiseSource, number: int
) -> np.ndarray | None:
    """Poisson cohort of a round, from the one randomness source; None when everybody is asked."""
    rates = {planned.rate for planned in releases}
    if rates <= {None}:
        return None
    (rate,) = rates
    return source.at(number, "cohort").bernoulli(rate, n_tasks)


def replay(
    method: Method, block: TaskBlock, public: PublicInfo, plan: Plan, billboards: list[Billboard]
) -> Models:
    """What tasks learn from public billboards and their own rows, sending nothing: new tasks and held-out folds."""
    tasks = method.task_side(block, public, plan)
    state = tasks.start()
    walked = method.replayed(billboards, plan)
    for billboard in walked[:-1]:
        state, _ = tasks.step(state, billboard.view(None))
    return tasks.finish(state, walked[-1].view(None))
