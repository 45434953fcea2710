"""What runs on workers: plain functions of a partition's rows and public things, so a lost result is computed again alike.

Memory that one step has freed serves the next.

Dask's nannies start workers with MALLOC_TRIM_THRESHOLD_=65536: the C library gives freed memory back to the kernel at once. A
step makes and frees thousands of arrays of a megabyte or so, and every one of them was mapped and zeroed anew, which took as long
as the arithmetic. Here limits are those which the C library of Linux finds by itself where it is left alone. Partitions are
larger: their memory still goes back when they are put on disk.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from taskveil.errors import DataError, TaskveilError, unexpected
from taskveil.methods.base import Billboard, Message, Method, Models, PublicInfo, State, TaskSide, View
from taskveil.methods.local import alone_models
from taskveil.privacy.partial_sums import Partial, joined
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.randomness import NoiseSource
from taskveil.runtime.checkpoint import fingerprint
from taskveil.runtime.round import bounded, task_step
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.lazy.tasks import CHANGED, Reader
from taskveil.tasks.task import TaskSet
from taskveil.threads import small_matrix_threads

Wanted = list[tuple[PlannedRelease, NoiseSource]]  # the releases of a round, and who draws rows' coins and noise for each
BY_DASK = "65536"  # its default; another value is somebody's choice
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # malloc.h
KEPT, MAPPED = 2**26, 2**21  # bytes free at the end of the heap that stay; bytes from which an array has a mapping of its own


@dataclass(frozen=True, eq=False)
class Common:
    """What all partitions need to know of a run: public."""

    method: Method
    public: PublicInfo
    plan: Plan


class Held:
    """What a worker keeps. It says how large it is: by that a cluster decides what to move and what to put on disk."""

    def __sizeof__(self) -> int:
        return object.__sizeof__(self) + _bytes(self)


def _bytes(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_bytes, value.values()))
    if isinstance(value, np.ndarray):
        repeated = value.ndim > 0 and value.strides[0] == 0 and len(value) > 0
        return value.nbytes // (len(value) if repeated else 1)
    return sum(map(_bytes, vars(value).values())) if is_dataclass(value) else 0


@dataclass(frozen=True, eq=False)
class Own(Held):
    """Rows of a partition as they are worked on, their units, and the tasks that were set aside."""

    block: TaskBlock
    scaling: Any
    aside: tuple[str, ...] = ()


@contextmanager
def at_work(block: TaskBlock) -> Iterator[None]:
    """Around what is computed of a block: many small problems, one after the other."""
    keep_freed_memory()
    with small_matrix_threads(block.n_features):
        yield


def guarded(work: Callable[..., Any], *given: Any) -> Any:
    """work(*given). Dask writes what goes wrong into logs: of what is a defect of ours only where it struck, for its words may
    quote rows."""
    try:
        return work(*given)
    except (TaskveilError, ImportError, MemoryError, OSError):
        raise
    except Exception as error:
        if os.environ.get("TASKVEIL_DEBUG"):
            raise
        raise TaskveilError(unexpected(error)) from None


def read_piece(piece: Any, layout: Any) -> Any:
    """Rows of a piece."""
    return piece.read(layout)


def split(table: Any, column: str, names: np.ndarray, owners: np.ndarray) -> dict[int, Any]:
    """The rows of a piece by partition, in their order; `owners`: partition of every task in it, of these `names`."""
    from taskveil.tasks.grouping import factorize
    from taskveil.tasks.table import plain

    named = table.select([column]).to_pandas()[column]  # as a whole table becomes a frame: a lone column keeps other types
    codes, task_names = factorize(plain(named), what="task")
    of_name = dict(zip(names, owners.tolist(), strict=True))
    if not of_name.keys() >= set(task_names):
        raise DataError(CHANGED)
    owner = np.asarray([of_name[name] for name in task_names])[codes]
    return {int(k): table.take(np.flatnonzero(owner == k)) for k in np.unique(owner)}


def pick(pieces: dict[int, Any], k: int) -> Any:
    """The rows of one partition."""
    return pieces[k]


def assemble(reader: Reader, tables: Sequence[Any]) -> TaskSet:
    """The tasks of a partition."""
    return tables[0] if isinstance(tables[0], TaskSet) else reader.tasks(tables)


def step(
    own: Own, state: State | None, common: Common, board: Billboard, active: np.ndarray | None, wanted: Wanted, first: int
) -> tuple[State, list[Partial]]:
    """One round of a partition whose first task has the place `first`: the next state, and clipped sums on the integer grid."""
    block = own.block
    with at_work(block):
        side = common.method.task_side(block, common.public, common.plan)
        view = board.view(np.arange(first, first + block.n_tasks)).asking(active)
        new, message = _stepped(side, side.start() if state is None else state, view)
        places = range(first, first + block.n_tasks)
        clipped = [(planned, bounded(planned, message[planned.name], active, source, places)) for planned, source in wanted]
    return new, [planned.contribution.partial(one) for planned, one in clipped]


def _stepped(side: TaskSide, state: State, view: View) -> tuple[State, Message]:
    """task_step; sides that add up themselves work on copies of their states, which come back as arrays of this process."""
    if not side.adds_up:
        return task_step(side, state, view)
    new, wait = side.begin({name: np.array(value) for name, value in state.items()}, view)
    message = wait()
    return {name: np.asarray(value) for name, value in new.items()}, message


def state_of(answer: tuple[State, list[Partial]]) -> State:
    return answer[0]


def sums_of(answer: tuple[State, list[Partial]]) -> list[Partial]:
    return answer[1]


def add(*answers: list[Partial]) -> list[Partial]:
    """A node of the tree: what several partitions add to each release, in their order."""
    return [joined(partials) for partials in zip(*answers, strict=True)]


def finish(own: Own, state: State | None, common: Common, board: Billboard, first: int) -> Models:
    """The personal models of a partition."""
    block = own.block
    with at_work(block):
        side = common.method.task_side(block, common.public, common.plan)
        view = board.view(np.arange(first, first + block.n_tasks))
        return side.finish(side.start() if state is None else state, view)


def alone(own: Own, common: Common) -> Models:
    """What every task of a partition learns by itself."""
    return alone_models(own.block, common.public)


def own_part(boards: Sequence[Billboard], first: int, n_tasks: int) -> list[Billboard]:
    """Billboards as the tasks of one partition see them."""
    cut = []
    for board in boards:
        view = board.view(np.arange(first, first + n_tasks))
        cut.append(replace(board, values=view.values, accepted=view.accepted, per_task=frozenset()))
    return cut


def about(own: Own, fingerprinted: bool) -> tuple[tuple[str, ...], str]:
    """The tasks of a partition that were set aside, and a fingerprint of its rows where a run may be resumed."""
    return own.aside, fingerprint(own.block) if fingerprinted else ""


@lru_cache(maxsize=1)
def keep_freed_memory() -> bool:
    """Once in a worker that Dask started; whether the C library agreed."""
    if os.environ.get("MALLOC_TRIM_THRESHOLD_") != BY_DASK:
        return False
    try:
        set_limit = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):
        return False  # another C library: the variable means nothing to it
    return bool(set_limit(M_MMAP_THRESHOLD, MAPPED)) and bool(set_limit(M_TRIM_THRESHOLD, KEPT))
