"""All tasks in one process, batched: the loop (docs/theory/index.md#loop), step by step.

    view -> task step -> clip -> sum -> charge -> noise -> server step -> billboard

Clipping is done by the release's contribution, charging and noise by `privacy.release`; nothing else a task computes is
handed to the server side.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from taskveil.errors import BudgetExceeded, OptionError
from taskveil.faults import point
from taskveil.methods.alone import alone_models
from taskveil.methods.base import Billboard, Message, Method, Models, PublicInfo, State, TaskSide, View
from taskveil.methods.row_gradients import RowGradients
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.events import SampledGaussianEvent
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.randomness import NoiseSource, again
from taskveil.privacy.release import release_together
from taskveil.privacy.spending import Account
from taskveil.privacy.units import Unit
from taskveil.runtime.record import RunRecord, merge_states
from taskveil.runtime.rows import bounded_rows
from taskveil.tasks.block import TaskBlock

Progress = Callable[[int, int], None]
Wanted = list[tuple[PlannedRelease, NoiseSource]]  # the releases of a round, and who draws rows' coins and noise for each
Schedule = list[np.ndarray | None]


class Tasks(Protocol):
    """Who does the tasks' part of a round: one block in this process, or partitions elsewhere (runtime/dask)."""

    n_tasks: int

    def start(self) -> Any:
        """The state of all tasks before the first round."""

    def restored(self, state: State, boards: Callable[[int], Billboard], schedule: Schedule) -> Any:
        """The state after the rounds of `schedule`, from what `stored` gave or from what was published, `boards(round)`."""

    def stored(self, state: Any) -> State:
        """What a checkpoint keeps of a state."""

    def answer(self, state: Any, board: Billboard, active: np.ndarray | None, wanted: Wanted) -> tuple[Any, list[Bounded]]:
        """One round: the next state, and what all tasks send for every wanted release, clipped."""

    def finish(self, state: Any, board: Billboard) -> Any:
        """The personal models."""

    def alone(self) -> Any:
        """What every task learns by itself."""


class Block:
    """All tasks as one block of this process."""

    def __init__(self, method: Method, block: TaskBlock, public: PublicInfo, plan: Plan):
        self.block, self.public, self.n_tasks = block, public, block.n_tasks
        self.side = method.task_side(block, public, plan)

    def start(self) -> State:
        return self.side.start()

    def restored(self, state: State, boards: Callable[[int], Billboard], schedule: Schedule) -> State:
        return state

    def stored(self, state: State) -> State:
        return state

    def answer(self, state: State, board: Billboard, active: np.ndarray | None, wanted: Wanted) -> tuple[State, list[Bounded]]:
        new_state, message = task_step(self.side, state, board.view(None).asking(active))
        return new_state, [bounded_message(planned, message, active, source) for planned, source in wanted]

    def finish(self, state: State, board: Billboard) -> Models:
        return self.side.finish(state, board.view(None))

    def alone(self) -> Models:
        return alone_models(self.block, self.public)


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
    if plan.budget.aggregation == "secure":
        from taskveil.runtime import secure

        secure.install()
    return run_rounds(method, Block(method, block, public, plan), public, plan, account, source, progress, checkpoint)


def run_rounds(
    method: Method,
    tasks: Tasks,
    public: PublicInfo,
    plan: Plan,
    account: Account,
    source: NoiseSource,
    progress: Progress | None = None,
    checkpoint: Any | None = None,
) -> RunRecord:
    """The loop, wherever the tasks are. Only what `tasks` answers reaches the server side, through `release_together`."""
    started, server = time.perf_counter(), method.server_side(public, plan)
    position = checkpoint.load() if checkpoint is not None else None
    executed = list(position[3]) if position is not None else []
    if checkpoint is not None and position is not None and position[2]:
        state, server_state, billboards, _, schedule = position
        state = tasks.restored(state, checkpoint.billboard, schedule)
    else:
        state, (server_state, billboard) = tasks.start(), server.start()
        billboards, schedule = [billboard], []
    size, made = fixed_cohort(method, public, plan), Counter(done.id for done in executed)
    account.reserve(plan)
    rounds, warnings = plan.rounds(), []
    try:
        for number, releases in [] if billboards[-1].done else rounds[billboards[-1].round :]:
            active = within_cap(
                draw_cohort(releases, tasks.n_tasks, source, number, size), plan.most_participations, schedule
            )
            wanted = wanted_releases(releases, made, source)
            new_state, messages = tasks.answer(state, billboards[-1], active, wanted)
            noisy = _released(wanted, messages, executed, made, account, plan)
            accepted = np.ones(tasks.n_tasks, dtype=bool) if active is None else active
            state, (server_state, billboard) = new_state, server.step(server_state, noisy, accepted)
            if not method.keeps_history(plan):
                del billboards[1:]
            billboards.append(billboard)
            schedule.append(None if active is None else np.flatnonzero(active))
            if checkpoint is not None:
                checkpoint.save(tasks.stored(state), server_state, billboards, executed, schedule)
            if progress is not None:
                progress(number, len(rounds))
            if billboard.done:
                break
    except BudgetExceeded as refusal:
        if position is None:
            raise  # a new run was reserved whole; only a resumed one may end with what it has
        warnings.append(f"the run ended early after round {billboards[-1].round} of {len(rounds)}: {refusal}")
    except BaseException:
        if checkpoint is None:
            account.finish()  # nobody can resume: what was never committed was never noised, and goes back
        raise
    # Where nothing was shared every task keeps what it can learn by itself.
    models = tasks.alone() if warnings and billboards[-1].round == 0 else tasks.finish(state, billboards[-1])
    account.finish()
    if checkpoint is not None:
        executed = account.executed({p.id: p for p in plan.releases})  # type: ignore[attr-defined]
    return RunRecord(
        models, billboards, plan, public, executed, source.describe(), schedule, time.perf_counter() - started,
        tasks.stored(state), warnings,
    )  # fmt: skip


def wanted_releases(releases: list[PlannedRelease], made: Counter[str], source: NoiseSource) -> Wanted:
    """The releases of a round; one that was made before (a resumed run) gets fresh noise."""
    return [(planned, again(source, made[planned.id])) for planned in releases]


def _released(
    wanted: Wanted, messages: list[Bounded], executed: list[PlannedRelease], made: Counter[str], account: Account, plan: Plan
) -> dict[str, np.ndarray]:
    """Charge and noise every release of a round."""
    noisy = {}
    together = [(planned, message, source) for (planned, source), message in zip(wanted, messages, strict=True)]
    for (planned, _), done in zip(wanted, release_together(together, account, plan.budget.aggregation), strict=True):
        noisy[planned.name] = done.value
        point("noise.drawn")
        executed.append(planned)
        made[planned.id] += 1
    return noisy


def task_step(tasks: TaskSide, state: State, view: View) -> tuple[State, Message]:
    """One step of a block; tasks that are not asked keep their state."""
    new_state, message = tasks.step(state, view)
    if view.active is not None and not tasks.merges_inactive:
        new_state = merge_states(state, new_state, view.active)
    return new_state, message


def bounded_message(
    planned: PlannedRelease, message: Message, active: np.ndarray | None, source: NoiseSource | None = None, first: int = 0
) -> Bounded:
    """Clip what the tasks want to send; tasks outside the cohort contribute nothing. `source` draws rows' coins.

    `first`: the place of the block's first task among all tasks.
    """
    raw = message[planned.name]
    if isinstance(raw, RowGradients):
        assert source is not None, "row gradients need the randomness source for their coins"
        return bounded_rows(planned, raw, source, range(first, first + len(raw.offsets) - 1))
    if isinstance(raw, Bounded):
        return raw  # release() refuses what was clipped for another contribution
    if active is not None:
        raw = np.where(active.reshape((-1,) + (1,) * (raw.ndim - 1)), raw, 0.0)
    return planned.contribution.clip(raw)


def fixed_cohort(method: Method, public: PublicInfo, plan: Plan) -> int | None:
    """Size of the cohorts where a paper fixes it; refused where the plan accounts for Poisson cohorts and claims to hold."""
    size = method.cohort_size(public, plan.budget.variant)
    sampled = any(isinstance(p.event, SampledGaussianEvent) for p in plan.releases)
    if size is not None and sampled and not method.refutations(public, plan):
        raise OptionError(
            f"cohorts of exactly {size} tasks cannot be accounted as Poisson samples: tasks that count their own "
            "participations learn who was drawn. Use Poisson cohorts, or charge every round in full."
        )
    return size


def draw_cohort(
    releases: list[PlannedRelease], n_tasks: int, source: NoiseSource, number: int, size: int | None = None
) -> np.ndarray | None:
    """Poisson cohort of a round, from the one randomness source; None when everybody is asked; `size` fixes how many.

    Where the unit is the record, the coins are drawn for rows inside every task instead (runtime/rows.py).
    """
    if size is not None:
        drawn = np.argsort(source.at(number, "cohort").uniform(n_tasks), kind="stable")[:size]
        return np.isin(np.arange(n_tasks), drawn)
    rates = {p.rate for p in releases if p.rate is not None and p.contribution.unit is Unit.TASK}
    if not rates:
        return None
    (rate,) = rates
    return source.at(number, "cohort").bernoulli(rate, n_tasks)


def within_cap(active: np.ndarray | None, most: int | None, schedule: list[np.ndarray | None]) -> np.ndarray | None:
    """The cohort without tasks that have taken part `most` times; the coins and the count are all it depends on."""
    if most is None:
        return active
    assert active is not None, "a plan with a cap draws cohorts"
    earlier = [drawn for drawn in schedule if drawn is not None]
    taken = np.bincount(np.concatenate(earlier), minlength=active.size) if earlier else np.zeros(active.size, int)
    return active & (taken < most)


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
