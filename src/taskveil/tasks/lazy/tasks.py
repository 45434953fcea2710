"""A task set without rows: what is public about a table, and how to read the rows of some of its tasks.

    LazyTasks    names, features, kind, labels, declarations (`shell`, a TaskSet without rows) and where rows are
    Piece        some rows in storage: a row group of a Parquet file, or tasks of this process
    partition    whole tasks, next to each other in the order of names; its rows come out of one or more pieces

Whoever holds a LazyTasks holds no rows. The one column that was read is that of the tasks (and, where labels are not declared,
that of the target, for its label set).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.prepare.labels import make_binary
from taskveil.tasks.table import Layout, tasks_from_frame
from taskveil.tasks.task import TaskSet

PARTITION_BYTES = 2**25  # of features: some such partitions and what is computed from them fit into a small worker
FEWEST = 8  # partitions, where there are as many tasks: something to do for several workers
CHANGED = "the table changed while it was read: it has tasks that were not there before. Start again."
SPLIT = "files are not sorted by task: rows are brought together by task on the workers before the first round"


class Piece(Protocol):
    """Some rows in storage."""

    tasks: np.ndarray  # positions of the tasks that have rows in it, sorted

    def read(self, layout: Layout) -> Any:
        """Its rows as a pyarrow table."""


@dataclass(frozen=True, eq=False)
class Shell(TaskSet):
    """Everything about tasks but their rows; it still knows how many there are."""

    counts: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.int64))

    @property
    def sizes(self) -> np.ndarray:  # type: ignore[override]
        return self.counts

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())


@dataclass(frozen=True, eq=False)
class LazyTasks:
    """Tasks whose rows stay in their files. `load_tasks(..., lazy=True)` makes them, and `fit` needs runtime="dask".

    Attributes
    ----------
    shell : TaskSet
        The same tasks without rows: names, features, kind, labels, declared ranges, and rows per task (private).
    cuts : ndarray of shape (n_partitions + 1,)
        Partition k holds the tasks cuts[k] to cuts[k + 1].
    """

    shell: Shell
    layout: Layout
    pieces: tuple[Any, ...]
    cuts: np.ndarray
    positive: Any = None
    labels: np.ndarray | None = None  # before `positive` made two of them

    @property
    def n_partitions(self) -> int:
        """Number of partitions."""
        return len(self.cuts) - 1

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return self.shell.n_tasks

    @property
    def n_rows(self) -> int:
        """Number of rows of all tasks together."""
        return self.shell.n_rows

    @property
    def n_features(self) -> int:
        """Number of features."""
        return self.shell.n_features

    @property
    def kind(self) -> str:
        """What the target is."""
        return self.shell.kind

    @property
    def task_names(self) -> tuple[str, ...]:
        """All tasks, in order."""
        return self.shell.task_names

    @property
    def feature_names(self) -> tuple[str, ...]:
        """All features."""
        return self.shell.feature_names

    @property
    def facts(self) -> tuple[Any, ...]:
        """What was taken for granted on the way in."""
        return self.shell.facts

    @property
    def target_name(self) -> str:
        """The column to predict."""
        return self.shell.target_name

    @cached_property
    def sorted(self) -> bool:
        """Whether every piece holds tasks of a few neighbouring partitions only."""
        return sum(map(len, self.readers)) <= 2 * (len(self.pieces) + self.n_partitions)

    @cached_property
    def readers(self) -> list[list[int]]:
        """For every piece, the partitions that have rows in it."""
        return [sorted(set((np.searchsorted(self.cuts, p.tasks, side="right") - 1).tolist())) for p in self.pieces]

    def names_of(self, k: int) -> tuple[str, ...]:
        """The tasks of a partition."""
        return self.task_names[self.cuts[k] : self.cuts[k + 1]]

    def reader(self, k: int) -> Reader:
        """How rows of partition k become tasks; small, to be sent to a worker."""
        aside = "set-aside-all" if self.layout.unusable == "set-aside" else self.layout.unusable
        layout = replace(self.layout, kind=self.shell.kind, unusable=aside)
        return Reader(layout, self.names_of(k), self.labels, self.positive)

    def partitioned(self, n_partitions: int | None = None) -> LazyTasks:
        """The same tasks in so many partitions of about equally many rows; None: eight, or more of about 32 MiB of features.

        A multiple of eight, because every round waits for the worker with the most: of 15 partitions one of two workers has 8.
        """
        wanted = n_partitions or max(1, -(-self.n_rows * self.n_features * 4 // (PARTITION_BYTES * FEWEST))) * FEWEST
        if wanted >= self.n_tasks:
            at = np.arange(self.n_tasks + 1)
        else:
            ends = np.concatenate([[0], np.cumsum(self.shell.sizes)])
            at = np.searchsorted(ends, np.linspace(0, self.n_rows, max(1, int(wanted)) + 1))
            at[0], at[-1] = 0, self.n_tasks
        made = replace(self, cuts=np.unique(at))
        return made if made.sorted else replace(made, shell=made.shell.with_notes(SPLIT))  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"LazyTasks({self.n_tasks} tasks, {self.n_features} features, {self.kind}, {self.n_partitions} partitions)"


@dataclass(frozen=True, eq=False)
class Reader:
    """Makes the tasks of one partition out of its rows, by the same step as in memory."""

    layout: Layout
    names: tuple[str, ...]
    classes: np.ndarray | None
    positive: Any

    def tasks(self, tables: Sequence[Any]) -> TaskSet:
        """The tasks of the partition; every name keeps its place, whether it has usable rows or not."""
        import pyarrow as pa

        frame = pa.concat_tables(tables, promote_options="default").to_pandas(split_blocks=True, self_destruct=True)
        made = tasks_from_frame(frame, self.layout)
        if self.classes is not None:
            made = replace(made, classes=self.classes)
        if self.positive is not None:
            made = make_binary(made, self.positive)
        return in_place(made, self.names)


def in_place(tasks: TaskSet, names: Sequence[str]) -> TaskSet:
    """The same rows under this list of names, in its order."""
    if tasks.task_names == tuple(names):
        return tasks
    place = {name: i for i, name in enumerate(names)}
    strange = [n for n in tasks.task_names if n not in place]
    if strange:
        raise DataError(CHANGED)
    order = sorted(range(tasks.n_tasks), key=lambda i: place[tasks.task_names[i]])
    ordered = tasks.take_tasks(order)
    sizes = np.zeros(len(names), dtype=np.int64)
    sizes[[place[n] for n in ordered.task_names]] = ordered.sizes
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    return replace(ordered, task_names=tuple(names), offsets=offsets)


@dataclass(frozen=True, eq=False)
class InMemory:
    """Tasks of this process as a piece: a table that fits into memory, for a cluster that is there anyway."""

    tasks: np.ndarray
    own: TaskSet

    def read(self, layout: Layout) -> Any:
        """The partition as it is: its rows are here already."""
        return self.own


def lazy_from_tasks(tasks: TaskSet, n_partitions: int | None = None) -> LazyTasks:
    """Tasks that are in memory, cut into partitions."""
    whole = LazyTasks(without_rows(tasks), Layout(), (), np.asarray([0, tasks.n_tasks]))
    cut = whole.partitioned(n_partitions)
    parts = [np.arange(a, b) for a, b in zip(cut.cuts, cut.cuts[1:])]
    return replace(cut, pieces=tuple(InMemory(at, tasks.take_tasks(at.tolist())) for at in parts))


def without_rows(tasks: TaskSet) -> Shell:
    """Everything that is public about tasks, and how many rows each has."""
    kept = {f.name: getattr(tasks, f.name) for f in fields(TaskSet)}
    empty: dict[str, Any] = {
        "X": np.empty((0, tasks.n_features), dtype=tasks.X.dtype), "y": tasks.y[:0], "row_index": np.empty(0, np.int64),
        "offsets": np.zeros(tasks.n_tasks + 1, np.int64), "person": None if tasks.person is None else tasks.person[:0],
        "groups": {}, "set_aside": (),
    }  # fmt: skip
    return Shell(**{**kept, **empty}, counts=np.asarray(tasks.sizes))
