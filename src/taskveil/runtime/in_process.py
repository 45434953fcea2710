"""All tasks in one process, batched: every round of runtime/round.py, one after the other."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import numpy as np

from taskveil.errors import BudgetExceeded
from taskveil.methods.alone import alone_models
from taskveil.methods.base import Billboard, Method, Models, PublicInfo, TaskSide
from taskveil.privacy.plan import Plan
from taskveil.runtime.alongside import released_alongside
from taskveil.runtime.clipped import ClippedShare
from taskveil.runtime.record import RunRecord
from taskveil.runtime.round import Position, Round, released, task_step
from taskveil.runtime.run import Run
from taskveil.tasks.block import TaskBlock


def run(run: Run, block: TaskBlock, checkpoint: Any | None = None) -> RunRecord:
    """Train all tasks of the block; returns models, billboards and what was charged.

    `checkpoint` (see runtime/checkpoint.py) may hand back an earlier position and is told after each server step.
    """
    if run.method.schedule == "asynchronous":
        from taskveil.runtime import virtual_clock

        return virtual_clock.run(run, block)
    started = time.perf_counter()
    if run.budget.aggregation == "secure":
        from taskveil.runtime import secure

        secure.install()
    rounds, tasks = Round(run), run.method.task_side(block, run.public, run.plan)
    before = checkpoint.load() if checkpoint is not None else None
    at = before if before is not None and before.billboards else _begun(rounds, tasks, before)
    warnings, clipped = [], ClippedShare(block.n_tasks)
    run.account.reserve(run.plan)
    try:
        _to_the_end(rounds, tasks, at, clipped, checkpoint)
    except BudgetExceeded as refusal:
        if before is None:
            raise  # a new run was reserved whole; only a resumed one may end with what it has
        warnings.append(f"the run ended early after round {at.billboards[-1].round} of {len(rounds.releases)}: {refusal}")
    except BaseException:
        if checkpoint is None:
            run.account.finish()  # nobody can resume: what was never committed was never noised, and goes back
        raise
    if warnings and at.billboards[-1].round == 0:
        models = alone_models(block, run.public)  # nothing was shared: every task keeps what it can learn by itself
    else:
        models = tasks.finish(at.tasks, at.billboards[-1].view(None))
    run.account.finish()
    if checkpoint is not None:
        at.executed = run.account.executed({p.id: p for p in run.plan.releases})  # type: ignore[attr-defined]
    return RunRecord(
        models, at.billboards, run.plan, run.public, at.executed, run.source.describe(), at.schedule,
        time.perf_counter() - started, at.tasks, warnings, {"clipped": clipped.shares()},
    )  # fmt: skip


def _begun(rounds: Round, tasks: TaskSide, before: Position | None) -> Position:
    """Before the first round; of a run that was killed in it, what was charged."""
    at = rounds.start()
    at.tasks, at.executed = tasks.start(), [] if before is None else before.executed
    return at


def _to_the_end(rounds: Round, tasks: TaskSide, at: Position, clipped: ClippedShare, checkpoint: Any | None) -> None:
    run, everybody = rounds.run, [slice(None)]
    made = Counter(done.id for done in at.executed)
    for releases in [] if at.billboards[-1].done else rounds.releases[at.billboards[-1].round :]:
        active = rounds.cohort(at, releases)  # 1
        view = at.billboards[-1].view(None).asking(active)
        if tasks.begins_ahead:
            state, noisy = released_alongside(rounds, releases, tasks, at.tasks, view, made)  # 2, 3
        else:
            state, message = task_step(tasks, at.tasks, view)
            noisy = released(run, releases, message, active, made=made, clipped=clipped)  # 2, 3
        at.executed += releases
        asked = None if active is None else np.flatnonzero(active)
        rounds.published(at, noisy, rounds.accepted(everybody, active), asked)  # 4, 5
        at.tasks = state
        if checkpoint is not None:
            checkpoint.save(at)
        if run.progress is not None:
            run.progress(releases[0].round, len(rounds.releases))
        if at.billboards[-1].done:
            break


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
