"""All tasks in one process, batched: the loop (docs/theory/index.md#loop), step by step.

    view -> task step -> clip -> sum -> charge -> noise -> server step -> billboard

Clipping is done by the release's contribution, charging and noise by `privacy.release`; nothing else a task computes is
handed to the server side.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

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
from taskveil.privacy.release import release_alongside, release_together
from taskveil.privacy.spending import Account
from taskveil.privacy.units import Unit
from taskveil.runtime.record import RunRecord, merge_states
from taskveil.runtime.rows import bounded_rows
from taskveil.tasks.block import TaskBlock

Progress = Callable[[int, int], None]


def run(  # noqa: PLR0912, PLR0915  one loop, top to bottom, is easier to check than six helpers
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
    executed = list(position[3]) if position is not None else []
    if position is not None and position[2]:
        state, server_state, billboards, _, schedule = position
    else:
        state, (server_state, billboard) = tasks.start(), server.start()
        billboards, schedule = [billboard], []
    size, made = fixed_cohort(method, public, plan), Counter(done.id for done in executed)
    account.reserve(plan)
    rounds, warnings = plan.rounds(), []
    cohorts = Cohorts(rounds, block.n_tasks, source, size)
    try:
        for number, releases in [] if billboards[-1].done else rounds[billboards[-1].round :]:
            active = within_cap(cohorts[number], plan.most_participations, schedule)
            view, following = billboards[-1].view(None).asking(active), partial(_expect_next, tasks, cohorts, number)
            if tasks.begins_ahead:
                new_state, noisy = _released_alongside(releases, tasks, state, view, executed, made, account, source, following)
            else:
                new_state, message = task_step(tasks, state, view)
                noisy = _released(releases, message, active, executed, made, account, source, plan)
            accepted = np.ones(block.n_tasks, dtype=bool) if active is None else active
            state, (server_state, billboard) = new_state, server.step(server_state, noisy, accepted)
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
    except BudgetExceeded as refusal:
        if position is None:
            raise  # a new run was reserved whole; only a resumed one may end with what it has
        warnings.append(f"the run ended early after round {billboards[-1].round} of {len(rounds)}: {refusal}")
    except BaseException:
        if checkpoint is None:
            account.finish()  # nobody can resume: what was never committed was never noised, and goes back
        raise
    if warnings and billboards[-1].round == 0:
        models = alone_models(block, public)  # nothing was shared: every task keeps what it can learn by itself
    else:
        models = tasks.finish(state, billboards[-1].view(None))
    account.finish()
    if checkpoint is not None:
        executed = account.executed({p.id: p for p in plan.releases})  # type: ignore[attr-defined]
    return RunRecord(
        models, billboards, plan, public, executed, source.describe(), schedule, time.perf_counter() - started, state,
        warnings,
    )  # fmt: skip


def _released(
    releases: list[PlannedRelease], message: Message, active: np.ndarray | None, executed: list[PlannedRelease],
    made: Counter[str], account: Account, source: NoiseSource, plan: Plan,
) -> dict[str, np.ndarray]:  # fmt: skip
    """Clip, charge and noise every release of a round; a release made before (a resumed run) gets fresh noise."""
    wanted, noisy = [], {}
    for planned in releases:
        fresh = again(source, made[planned.id])
        wanted.append((planned, bounded_message(planned, message, active, fresh), fresh))
    for planned, done in zip(releases, release_together(wanted, account, plan.budget.aggregation), strict=True):
        noisy[planned.name] = done.value
        point("noise.drawn")
        executed.append(planned)
        made[planned.id] += 1
    return noisy


def _released_alongside(
    releases: list[PlannedRelease], tasks: TaskSide, state: State, view: View, executed: list[PlannedRelease],
    made: Counter[str], account: Account, source: NoiseSource, following: Callable[[], None],
) -> tuple[State, dict[str, np.ndarray]]:  # fmt: skip
    """The same for sums that are computed while their noise is drawn: charged before the computation is sent off."""
    states: list[State] = []

    def start() -> Callable[[], list[Bounded]]:
        new_state, wait = tasks.begin(state, view)
        states.append(new_state)

        def sums() -> list[Bounded]:
            following()
            message = wait()
            return [bounded_message(planned, message, view.active) for planned in releases]

        return sums

    wanted, noisy = [(planned, again(source, made[planned.id])) for planned in releases], {}
    for planned, done in zip(releases, release_alongside(wanted, start, account), strict=True):
        noisy[planned.name] = done.value
        point("noise.drawn")
        executed.append(planned)
        made[planned.id] += 1
    return states[0], noisy


def _expect_next(tasks: TaskSide, cohorts: Cohorts, number: int) -> None:
    """Tell the tasks who is asked next, while they still compute this round."""
    if number + 1 in cohorts.releases:
        tasks.expect(number, cohorts[number + 1])


def task_step(tasks: TaskSide, state: State, view: View) -> tuple[State, Message]:
    """One step of a block; tasks that are not asked keep their state."""
    new_state, message = tasks.step(state, view)
    if view.active is not None and not tasks.merges_inactive:
        new_state = merge_states(state, new_state, view.active)
    return new_state, message


def bounded_message(
    planned: PlannedRelease, message: Message, active: np.ndarray | None, source: NoiseSource | None = None
) -> Bounded:
    """Clip what the tasks want to send; tasks outside the cohort contribute nothing. `source` draws rows' coins."""
    raw = message[planned.name]
    if isinstance(raw, RowGradients):
        assert source is not None, "row gradients need the randomness source for their coins"
        return bounded_rows(planned, raw, source, range(len(raw.offsets) - 1))
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


class Cohorts(dict[int, np.ndarray | None]):
    """Round number -> who is asked; drawn once, when it is first looked at, which may be a round ahead."""

    def __init__(self, rounds: list[tuple[int, list[PlannedRelease]]], n_tasks: int, source: NoiseSource, size: int | None):
        super().__init__()
        self.releases, self._drawn_by = dict(rounds), (n_tasks, source)
        self._size = size

    def __missing__(self, number: int) -> np.ndarray | None:
        self.clear()  # earlier cohorts are private and used up
        self[number] = draw_cohort(self.releases[number], *self._drawn_by, number, self._size)
        return self[number]


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
