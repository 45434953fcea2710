"""`Tasks` of the loop on a cluster: states stay on the workers, sums come back through a tree.

Every result is a function of rows in storage and of public things, so the scheduler computes again what a dead worker held; coins
of rows (unit record) come from the system and are then drawn anew, which changes a sum nobody has seen, and no state. A
round's sums reach the driver once, are charged and noised there, and are forgotten: nothing makes a second release of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from taskveil.methods.base import Billboard, State
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.contribution import seal_partials
from taskveil.privacy.plan import PlannedRelease
from taskveil.privacy.randomness import again
from taskveil.runtime.dask import worker
from taskveil.runtime.dask.cluster import gathered, submit, wait
from taskveil.runtime.dask.worker import Common, Wanted
from taskveil.runtime.in_process import Noisy, Schedule
from taskveil.runtime.round import Position, Round, released
from taskveil.tasks.lazy.tasks import LazyTasks, Reader

FAN_IN = 8


def read_partitions(client: Any, tasks: LazyTasks) -> list[tuple[Reader, list[Any]]]:
    """Of every partition the rows, on the workers, and who makes tasks of them; pieces that several share are split there."""
    layout = tasks.layout
    tables: list[list[Any]] = [[] for _ in range(tasks.n_partitions)]
    for piece, readers in zip(tasks.pieces, tasks.readers, strict=True):
        rows = submit(client, worker.read_piece, piece, layout)
        if len(readers) == 1:
            tables[readers[0]].append(rows)
            continue
        names, owners = names_array(tasks.task_names, piece.tasks), np.searchsorted(tasks.cuts, piece.tasks, side="right") - 1
        parts = submit(client, worker.split, rows, layout.task, names, owners)
        for k in readers:
            tables[k].append(submit(client, worker.pick, parts, k))
    return [(tasks.reader(k), tables[k]) for k in range(tasks.n_partitions)]


def names_array(names: Sequence[str], at: Iterable[int]) -> np.ndarray:
    """Some names, to be sent to a worker: in tuples and lists a client looks at every entry for futures, not in arrays."""
    return np.asarray([names[t] for t in at], dtype=object)


class Partitions:
    """All tasks, as blocks on workers; `first[k]` is the place of the first task of block k."""

    def __init__(
        self, client: Any, blocks: list[Any], cuts: np.ndarray, common: Common, tick: Callable[[int], None] | None = None
    ):
        """`tick`: told how many partitions have answered in a round."""
        self.tick = tick
        self.client, self.blocks = client, blocks
        self.first, self.ends, self.n_tasks = [int(c) for c in cuts[:-1]], [int(c) for c in cuts[1:]], int(cuts[-1])
        self.common, self.direction = submit(client, same, common), -1  # rows were prepared from the first to the last

    def start(self) -> list[Any]:
        return [None] * len(self.blocks)

    def restored(self, state: State, boards: Callable[[int], Billboard], schedule: Schedule) -> list[Any]:
        """States are functions of rows and of what was published: they are computed again, and nothing is sent."""
        states = self.start()
        for number, drawn in enumerate(schedule):
            active = None if drawn is None else np.isin(np.arange(self.n_tasks), drawn)
            states, _ = self._step(states, boards(number), active, [])
        return states

    def stored(self, state: Any) -> State:
        return {}

    def released(
        self, rounds: Round, at: Position, releases: Sequence[PlannedRelease], active: np.ndarray | None, made: Counter[str]
    ) -> tuple[Any, Noisy]:
        wanted = [(planned, again(rounds.run.source, made[planned.id])) for planned in releases]
        states, sums = self._answer(at.tasks, at.billboards[-1], active, wanted)
        message = {planned.name: total for planned, total in zip(releases, sums, strict=True)}
        return states, released(rounds.run, releases, message, tries=made)

    def extra(self) -> dict[str, Any]:
        return {}

    def _answer(self, state: Any, board: Billboard, active: np.ndarray | None, wanted: Wanted) -> tuple[Any, list[Bounded]]:
        states, leaves = self._step(state, board, active, wanted)
        sums = leaves
        while len(sums) > 1:
            sums = [self._submit(worker.add, *sums[i : i + FAN_IN]) for i in range(0, len(sums), FAN_IN)]
        if self.tick is not None:
            wait(self.client, leaves, self.tick)
        (totals,) = gathered(self.client, sums)
        return states, [seal_partials(planned.contribution, [total]) for (planned, _), total in zip(wanted, totals, strict=True)]

    def finish(self, state: Any, board: Billboard) -> list[Any]:
        shown = self._submit(same, board)
        return self.sweep(lambda k: self._submit(worker.finish, self.blocks[k], state[k], self.common, shown, self.first[k]))

    def alone(self) -> list[Any]:
        return [self._submit(worker.alone, block, self.common) for block in self.blocks]

    def _step(self, states: Any, board: Billboard, active: np.ndarray | None, wanted: Wanted) -> tuple[list[Any], list[Any]]:
        shown = self._submit(same, board)

        def answer(k: int) -> Any:
            cohort = None if active is None else active[self.first[k] : self.ends[k]]
            return self._submit(worker.step, self.blocks[k], states[k], self.common, shown, cohort, wanted, self.first[k])

        answers = self.sweep(answer)
        return [self._submit(worker.state_of, a) for a in answers], [self._submit(worker.sums_of, a) for a in answers]

    def sweep(self, ask: Callable[[int], Any]) -> list[Any]:
        """ask(k) of every partition, there and back again: a worker begins with those it used last, which are not on its disk."""
        way, self.direction = self.direction, -self.direction
        return [ask(k) for k in range(len(self.blocks))[::way]][::way]

    def _submit(self, work: Callable[..., Any], *given: Any) -> Any:
        return submit(self.client, work, *given)


def same(value: Any) -> Any:
    """On a worker, to be shared by many tasks there."""
    return value
