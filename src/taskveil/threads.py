"""Runs one compiled loop over ranges of tasks, or one matrix product over ranges of rows, on several threads.

The kernels release the interpreter lock, so plain Python threads suffice. We do not use Numba's own parallel
loops: their thread pool either aborts when two Python threads enter it (work queue) or when the process forks
(OpenMP), and a federation runs task sides in threads while grid searches fork.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

SMALL = 200_000  # numbers read; below this one thread finishes before a second one has started
PARTS_PER_THREAD = 4  # so that a thread that was held up does not hold up the rest

_pools: dict[int, ThreadPoolExecutor] = {}


def thread_count() -> int:
    """Threads to use: TASKVEIL_THREADS, else OMP_NUM_THREADS, else the cores this process may run on."""
    for name in ("TASKVEIL_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdigit() and int(text) > 0:
            return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def over_tasks(work: Callable[[int, int], None], offsets: NDArray[np.int64], numbers_per_row: int) -> None:
    """Calls work(first, last) over ranges of tasks with about equal numbers of rows, on all threads.

    Each task is in exactly one range, and work on different tasks must touch different memory.
    """
    n_tasks = len(offsets) - 1
    threads = thread_count()
    if threads == 1 or n_tasks == 1 or int(offsets[-1]) * numbers_per_row < SMALL:
        work(0, n_tasks)
        return
    cuts = _cuts(offsets, threads * PARTS_PER_THREAD)
    futures = [_pool(threads).submit(work, a, b) for a, b in pairwise(cuts)]
    for future in futures:
        future.result()


def in_parts(work: Callable[[slice], Any], n_rows: int, parts: int = 4) -> list[Any]:
    """work(rows) for `parts` ranges of rows, on all threads; results in order. What they are does not depend on the threads."""
    edges = np.linspace(0, n_rows, parts + 1).astype(int)
    ranges = [slice(int(a), int(b)) for a, b in pairwise(edges)]
    threads = thread_count()
    if threads == 1:
        return [work(rows) for rows in ranges]
    return list(_pool(threads).map(work, ranges))


def _cuts(offsets: NDArray[np.int64], parts: int) -> list[int]:
    """Task positions that split the rows into about equal parts, without empty parts."""
    rows = np.linspace(offsets[0], offsets[-1], parts + 1)
    cuts = np.searchsorted(offsets, rows)
    cuts[0], cuts[-1] = 0, len(offsets) - 1
    return [int(c) for c in np.unique(cuts)]


def _pool(threads: int) -> ThreadPoolExecutor:
    if threads not in _pools:
        _pools[threads] = ThreadPoolExecutor(threads, thread_name_prefix="taskveil")
    return _pools[threads]


if hasattr(os, "register_at_fork"):  # a forked child has the pool object but not its threads
    os.register_at_fork(after_in_child=_pools.clear)
