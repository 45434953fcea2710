"""All tasks in one process, batched: every round of runtime/round.py, one after the other.

Sums that a device computes while their noise is drawn here take `released_alongside`: charged first, durably; then the
computation is sent off, the noise and the next cohort are drawn, and only then is the sum waited for. A run that is killed in
between has paid for a round it never saw.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from taskveil.errors import BudgetExceeded
from taskveil.faults import point
from taskveil.methods.base import Billboard, Method, Models, PublicInfo, State, TaskSide, View
from taskveil.methods.local import alone_models
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.randomness import again
from taskveil.privacy.release import release_alongside
from taskveil.runtime.round import ClippedShare, Position, Round, bounded, released, task_step
from taskveil.runtime.run import Run, RunRecord, unspent_words
from taskveil.solvers.solved_once import solved_once
from taskveil.tasks.block import TaskBlock

Schedule = list[np.ndarray | None]
Noisy = dict[str, np.ndarray]


class Tasks(Protocol):
    """Who does the tasks' part of a round: one block in this process, or partitions elsewhere (runtime/dask)."""

    def start(self) -> Any:
        """The state of all tasks before the first round."""

    def restored(self, state: State, boards: Callable[[int], Billboard], schedule: Schedule) -> Any:
        """The state after the rounds of `schedule`, from what `stored` gave or from what was published, `boards(round)`."""

    def stored(self, state: Any) -> State:
        """What a checkpoint keeps of a state."""

    def released(
        self, rounds: Round, at: Position, releases: Sequence[PlannedRelease], active: np.ndarray | None, tries: Counter[str]
    ) -> tuple[Any, Noisy]:
        """Steps 2 and 3 of a round: the next state, and the noisy sums of what all tasks send."""

    def finish(self, state: Any, board: Billboard) -> Any:
        """The personal models."""

    def alone(self) -> Any:
        """What every task learns by itself."""

    def extra(self) -> dict[str, Any]:
        """What owners may be told beside their models."""


class Block:
    """All tasks as one block of this process."""

    def __init__(self, run: Run, block: TaskBlock):
        self.block, self.public = block, run.public
        self.side, self.clipped = run.method.task_side(block, run.public, run.plan), ClippedShare(block.n_tasks)

    def start(self) -> State:
        return self.side.start()

    def restored(self, state: State, boards: Callable[[int], Billboard], schedule: Schedule) -> State:
        return state

    def stored(self, state: State) -> State:
        return state

    def released(
        self, rounds: Round, at: Position, releases: Sequence[PlannedRelease], active: np.ndarray | None, tries: Counter[str]
    ) -> tuple[State, Noisy]:
        view = at.billboards[-1].view(None).asking(active)
        if self.side.begins_ahead:
            return released_alongside(rounds, releases, self.side, at.tasks, view, tries)
        state, sent = task_step(self.side, at.tasks, view)
        message = dict(sent)  # whose messages go as they are clipped; who watches a task keeps what it sent
        del sent
        return state, released(rounds.run, releases, message, active, tries=tries, clipped=self.clipped)

    def finish(self, state: State, board: Billboard) -> Models:
        return self.side.finish(state, board.view(None))

    def alone(self) -> Models:
        return alone_models(self.block, self.public)

    def extra(self) -> dict[str, Any]:
        return {"clipped": self.clipped.shares()}


def run(run: Run, block: TaskBlock, checkpoint: Any | None = None) -> RunRecord:
    """Train all tasks of the block; returns models, billboards and what was charged.

    `checkpoint` (see runtime/checkpoint.py) may hand back an earlier position and is told after each server step.
    """
    if run.method.schedule == "asynchronous":
        from taskveil.runtime import virtual_clock

        return virtual_clock.run(run, block)
    if run.budget.aggregation == "secure":
        from taskveil.runtime import secure

        secure.install()
    with solved_once():
        return run_rounds(run, Block(run, block), checkpoint)


def run_rounds(run: Run, tasks: Tasks, checkpoint: Any | None = None) -> RunRecord:
    """The same wherever the tasks are."""
    started, rounds = time.perf_counter(), Round(run)
    before = checkpoint.load() if checkpoint is not None else None
    at = _begun(rounds, tasks, before, checkpoint)
    warnings = []
    run.account.reserve(run.plan)
    try:
        _to_the_end(rounds, tasks, at, checkpoint)
    except BudgetExceeded as refusal:
        if before is None:  # a new run was reserved whole; only a resumed one may end with what it has
            if checkpoint is None:
                run.account.finish()
            raise
        warnings.append(f"the run ended early after round {at.billboards[-1].round} of {len(rounds.releases)}: {refusal}")
    except BaseException:
        if checkpoint is None:
            run.account.finish()  # nobody can resume: what was never committed was never noised, and goes back
        raise
    # Where nothing was shared every task keeps what it can learn by itself.
    nothing = bool(warnings) and at.billboards[-1].round == 0
    models = tasks.alone() if nothing else tasks.finish(at.tasks, at.billboards[-1])
    returned = run.account.finish()
    if checkpoint is not None:
        at.executed = run.account.executed({p.id: p for p in run.plan.releases})  # type: ignore[attr-defined]
    return RunRecord(
        models, at.billboards, run.plan, run.public, at.executed, run.source.describe(), at.schedule,
        time.perf_counter() - started, tasks.stored(at.tasks), warnings,
        [] if warnings else unspent_words(run.plan, at.executed, returned), tasks.extra(),
    )  # fmt: skip


def _begun(rounds: Round, tasks: Tasks, before: Position | None, checkpoint: Any | None) -> Position:
    """Where the run goes on; of one that was killed in its first round, what was charged."""
    if before is not None and before.billboards:
        assert checkpoint is not None
        before.tasks = tasks.restored(before.tasks, checkpoint.billboard, before.schedule)
        return before
    at = rounds.start()
    at.tasks, at.executed = tasks.start(), [] if before is None else before.executed
    return at


def _to_the_end(rounds: Round, tasks: Tasks, at: Position, checkpoint: Any | None) -> None:
    run, everybody = rounds.run, [slice(None)]
    tries = Counter(release.id for release in at.executed)
    for possible in [] if at.billboards[-1].done else rounds.releases[at.billboards[-1].round :]:
        releases = rounds.chosen(at, possible)
        if not releases:
            break
        active = rounds.cohort(at, releases)  # 1
        state, noisy = tasks.released(rounds, at, releases, active, tries)  # 2, 3
        at.executed += releases
        cohort = None if active is None else np.flatnonzero(active)
        rounds.published(at, noisy, rounds.accepted(everybody, active), cohort)  # 4, 5
        at.tasks = state
        if checkpoint is not None:
            checkpoint.save(replace(at, tasks=tasks.stored(state)))
        if run.progress is not None:
            run.progress(releases[0].round, len(rounds.releases))
        if at.billboards[-1].done:
            break


def replay(method: Method, block: TaskBlock, public: PublicInfo, plan: Plan, billboards: list[Billboard]) -> Models:
    """What tasks learn from public billboards and their own rows, sending nothing: new tasks and held-out folds."""
    tasks = method.task_side(block, public, plan)
    state = tasks.start()
    walked = method.replayed(billboards, plan)
    for billboard in walked[:-1]:
        state, _ = tasks.step(state, billboard.view(None))
    return tasks.finish(state, walked[-1].view(None))


def released_alongside(
    rounds: Round, releases: Sequence[PlannedRelease], tasks: TaskSide, state: State, view: View, tries: Counter[str]
) -> tuple[State, dict[str, np.ndarray]]:
    """The tasks' next state and the noisy sums; `tries` counts earlier tries of a resumed run."""
    run, states = rounds.run, []

    def start() -> Callable[[], list[Bounded]]:
        new_state, wait = tasks.begin(state, view)
        states.append(new_state)

        def sums() -> list[Bounded]:
            if rounds.follows(releases):
                tasks.expect(releases[0].round, rounds.look_ahead(releases))
            message = wait()
            return [bounded(planned, message[planned.name], view.active, run.source) for planned in releases]

        return sums

    pairs, noisy = [(planned, again(run.source, tries[planned.id])) for planned in releases], {}
    for done in release_alongside(pairs, start, run.account):
        noisy[done.name] = done.value
        point("noise.drawn")
    tries.update(planned.id for planned in releases)
    return states[0], noisy
