"""The one round of every run, in five steps (docs/theory/index.md#loop); runtimes differ only in how messages travel.

    1  cohort      who is asked: secret coins of the one randomness source, or everybody
    2  bounded     what tasks want to send, clipped by the release's contribution and by nothing else
    3  released    charged, all or none, before the noise of the first is drawn
    4  accepted    whose message is in the sum
    5  published   the server's step, its billboard, and a note of who was asked

`in_process` and the virtual clock take all five here. In a federation a site takes step 2 (and 3, where it adds its own noise),
the driver takes 1, 4 and 5, and 2 again: what a site calls clipped is only a claim. Nothing else a task computes reaches the
server side.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from taskveil.errors import OptionError
from taskveil.faults import point
from taskveil.methods.base import Billboard, Message, Method, PublicInfo, State, TaskSide, View, merge_states
from taskveil.methods.row_gradients import RowGradients
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.contributions import Contribution, RowSum
from taskveil.privacy.events import SampledGaussianEvent
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.randomness import NoiseSource, again
from taskveil.privacy.release import release_together
from taskveil.privacy.units import Unit
from taskveil.runtime.run import Run

ROUNDING = 1e-9  # what the clip takes from a message of just its bound's length


@dataclass
class Position:
    """Where a run stands; what a checkpoint must hold."""

    state: State  # the server's
    billboards: list[Billboard]
    executed: list[PlannedRelease] = field(default_factory=list)
    schedule: list[Any] = field(default_factory=list)  # who was asked in each round
    sent: list[int] = field(default_factory=list)  # messages accepted from each site (asynchronous runs)
    tasks: State = field(default_factory=dict)  # of the tasks in this process


class Round:
    """The server's steps of one run's rounds; `inside` keeps billboards within what sites will find admissible."""

    def __init__(self, run: Run, inside: Callable[[Billboard], Billboard] | None = None) -> None:
        self.run, self.inside = run, inside
        self.server: Any = run.method.server_side(run.public, run.plan)
        self.releases = [releases for _, releases in run.plan.rounds()]
        self.size = fixed_cohort(run.method, run.public, run.plan)
        self._ahead: dict[int, np.ndarray | None] = {}
        self._forgets = run.method.schedule == "asynchronous" or not run.method.keeps_history(run.plan)

    def start(self) -> Position:
        """Before the first round."""
        state, billboard = self.server.start()
        return Position(state, [billboard])

    def chosen(self, at: Position, possible: list[PlannedRelease]) -> list[PlannedRelease]:
        """What is released next: all that is planned, or where there is a total what the policy says; nothing ends the run."""
        return possible if self.run.plan.total is None else self.server.chosen(at.state, possible)

    def cohort(self, at: Position, releases: list[PlannedRelease]) -> np.ndarray | None:
        """Step 1: the tasks that are asked; None stands for everybody."""
        run = self.run
        number = releases[0].round
        coins = self._ahead.pop(number) if number in self._ahead else self._coins(releases)
        return within_cap(coins, run.plan.most_participations, at.schedule)

    def follows(self, releases: Sequence[PlannedRelease]) -> bool:
        """Whether another round is planned after this one."""
        return releases[0].round < len(self.releases)

    def look_ahead(self, releases: Sequence[PlannedRelease]) -> np.ndarray | None:
        """The coins of the round after this one, kept for it."""
        following = self.releases[releases[0].round]
        self._ahead = {following[0].round: self._coins(following)}
        return self._ahead[following[0].round]

    def _coins(self, releases: list[PlannedRelease]) -> np.ndarray | None:
        return draw_cohort(releases, self.run.public.n_tasks, self.run.source, releases[0].round, self.size)

    def accepted(self, tasks: Iterable[Any], active: np.ndarray | None = None) -> np.ndarray:
        """Step 4: the tasks whose message is in the sum, as bits; of those that answered, the ones that were asked."""
        bits = np.zeros(self.run.public.n_tasks, dtype=bool)
        for some in tasks:
            bits[some] = True
        return bits if active is None else bits & active

    def published(self, at: Position, noisy: Mapping[str, np.ndarray], accepted: np.ndarray, cohort: Any) -> Billboard:
        """Step 5: the next billboard."""
        at.state, billboard = self.server.step(at.state, noisy, accepted)
        if self._forgets:
            del at.billboards[1:]
        at.billboards.append(billboard if self.inside is None else self.inside(billboard))
        at.schedule.append(cohort)
        return at.billboards[-1]


def task_step(tasks: TaskSide, state: State, view: View) -> tuple[State, Message]:
    """One step of a block; tasks that are not asked keep their state."""
    new_state, message = tasks.step(state, view)
    if view.active is not None and not tasks.merges_inactive:
        new_state = merge_states(state, new_state, view.active)
    return new_state, message


def bounded(
    planned: PlannedRelease, raw: Any, active: np.ndarray | None, source: NoiseSource, tasks: Sequence[str | int] | None = None
) -> Bounded:
    """Step 2: the clipped messages of a block; tasks outside the cohort send nothing. `source` draws the coins of rows."""
    if isinstance(raw, RowGradients):
        return bounded_rows(planned, raw, source, range(len(raw.offsets) - 1) if tasks is None else tasks)
    if isinstance(raw, Bounded):
        return raw  # release() refuses what was clipped for another contribution
    if active is not None:
        raw = np.where(active.reshape((-1,) + (1,) * (raw.ndim - 1)), raw, 0.0)
    return planned.contribution.clip(raw)


def bounded_rows(planned: PlannedRelease, rows: RowGradients, source: NoiseSource, tasks: Sequence[str | int]) -> Bounded:
    """Step 2 for row gradients: the clipped sum of the drawn rows of each task; `tasks` names them (keys of seeded test coins).

    Rows that are not drawn are set to zero rather than removed, so that neither shapes nor timing show how many were.
    """
    if not isinstance(planned.contribution, RowSum):
        raise OptionError(f"release {planned.id!r} is not a sum of rows; the method must send whole messages")
    slopes = rows.slopes
    if planned.rate is not None and planned.rate < 1:
        slopes = slopes * _drawn_rows(planned, rows, source, tasks)[:, None]
    return planned.contribution.sum_factored_rows(rows.X, slopes, rows.offsets)


def _drawn_rows(planned: PlannedRelease, rows: RowGradients, source: NoiseSource, tasks: Sequence[str | int]) -> np.ndarray:
    drawn, rate = np.zeros(len(rows.slopes)), float(planned.rate or 1.0)
    for position, task in enumerate(tasks):
        own = slice(int(rows.offsets[position]), int(rows.offsets[position + 1]))
        coins = source.at(planned.round, f"{planned.name}/rows", task)
        drawn[own] = coins.bernoulli(rate, own.stop - own.start)
    return drawn


class ClippedShare:
    """Mean share of a message's length that was cut off, per task, over all messages it sent: the bias of what is shared.

    A figure for the task's owner, or for whoever simulates with all rows; never for a page that travels.
    """

    def __init__(self, n_tasks: int):
        self._lost, self._sent = np.zeros(n_tasks), np.zeros(n_tasks)

    def note(self, raw: Any, bounded: Bounded, active: np.ndarray | None) -> None:
        """One release: messages before and after clipping. Sums of rows, which are clipped row by row, are left out."""
        clipped = np.asarray(bounded.value)
        if not isinstance(raw, np.ndarray) or raw.shape != clipped.shape or len(raw) != len(self._lost):
            return
        with np.errstate(all="ignore"):
            before, after = (np.linalg.norm(m.reshape(len(m), -1), axis=1) for m in (raw, clipped))
            senders = (before > 0) & np.isfinite(before) & (True if active is None else active)
            lost = np.clip(1.0 - after / before, 0.0, 1.0)
            self._lost += np.where(senders & (lost > ROUNDING), lost, 0.0)
        self._sent += senders

    def shares(self) -> np.ndarray:
        """(tasks,), zero for a task that sent nothing."""
        return self._lost / np.maximum(self._sent, 1.0)


def released(
    run: Run,
    releases: Sequence[PlannedRelease],
    message: dict[str, Any],
    active: np.ndarray | None = None,
    *,
    tries: Counter[str] | None = None,
    tasks: Sequence[str | int] | None = None,
    clipped: ClippedShare | None = None,
) -> dict[str, np.ndarray]:
    """Steps 2 and 3: clip, charge, then noise. `tries` counts earlier tries of a resumed run, whose noise is drawn afresh;
    `clipped` keeps for every owner what the clip took. Messages are taken out of `message`: each is as large as all models."""
    requests = []
    for planned in releases:
        raw, fresh = message.pop(planned.name), again(run.source, 0 if tries is None else tries[planned.id])
        requests.append((planned, bounded(planned, raw, active, fresh, tasks), fresh))
        if clipped is not None and planned.contribution.bound < Contribution.unbounded:
            clipped.note(raw, requests[-1][1], active)
        del raw
    noisy = {}
    for release in release_together(requests, run.account, run.budget.aggregation, tasks):
        noisy[release.name] = release.value
        point("noise.drawn")
    if tries is not None:
        tries.update(planned.id for planned in releases)
    return noisy


def fixed_cohort(method: Method, public: PublicInfo, plan: Plan) -> int | None:
    """Size of the cohorts where a paper fixes it; refused where the plan accounts for Poisson cohorts and claims to hold."""
    size = None if method.fixed_cohort is None else min(public.n_tasks, method.fixed_cohort)
    sampled = any(isinstance(p.event, SampledGaussianEvent) for p in plan.releases)
    if size is not None and sampled and not method.disclosure(public, plan).refutations:
        raise OptionError(
            f"cohorts of exactly {size} tasks cannot be accounted as Poisson samples: tasks that count their own "
            "participations learn who was drawn. Use Poisson cohorts, or charge every round in full."
        )
    return size


def draw_cohort(
    releases: list[PlannedRelease], n_tasks: int, source: NoiseSource, number: int, size: int | None = None
) -> np.ndarray | None:
    """Poisson cohort of a round, from the one randomness source; None when everybody is asked; `size` fixes how many.

    Where the unit is the record, the coins are drawn for rows inside every task instead (`bounded_rows`).
    """
    if size is not None:
        members = np.argsort(source.at(number, "cohort").uniform(n_tasks), kind="stable")[:size]
        return np.isin(np.arange(n_tasks), members)
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
    earlier = [cohort for cohort in schedule if cohort is not None]
    turns = np.bincount(np.concatenate(earlier), minlength=active.size) if earlier else np.zeros(active.size, int)
    return active & (turns < most)
