"""Threads: one compiled loop over ranges of tasks, or one matrix product over ranges of rows, on several; small matrices on one.

The kernels release the interpreter lock, so plain Python threads suffice. We do not use Numba's own parallel
loops: their thread pool either aborts when two Python threads enter it (work queue) or when the process forks
(OpenMP), and a federation runs task sides in threads while grid searches fork.

The caller works too, and helpers join when they have woken up: a proximal iteration hands out work three times in ten
milliseconds, and handing everything over and waiting for it cost more than the second thread gained.

One BLAS thread for small matrices: the eigenvalues of a 100 x 100 matrix take about a millisecond on one thread. On two, with
anything else running, the threads wait for one another in a busy loop: 400 ms were seen for the same matrix. Threads pay off for
large matrices only.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache, partial
from itertools import count, islice, pairwise
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.floating]
SMALL = 200_000  # numbers read; below this one thread finishes before a second one has started
PARTS = 16  # so that a thread that was held up does not hold up the rest; never by thread count: sums over parts stay the same


def thread_count() -> int:
    """Threads to use: TASKVEIL_THREADS, else OMP_NUM_THREADS, else the cores this process may run on."""
    for name in ("TASKVEIL_THREADS", "OMP_NUM_THREADS"):
        text = os.environ.get(name, "")
        if text.isdigit() and int(text) > 0:
            return int(text)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)


def over_tasks(work: Callable[[int, int], Any], offsets: NDArray[np.int64], numbers_per_row: int) -> list[Any]:
    """Calls work(first, last) over ranges of tasks with about equal numbers of rows, on all threads; results in order.

    Each task is in exactly one range, and work on different tasks must touch different memory.
    """
    n_tasks = len(offsets) - 1
    if n_tasks == 1 or int(offsets[-1]) * numbers_per_row < SMALL:
        return [work(0, n_tasks)]
    return _shared([partial(work, a, b) for a, b in pairwise(_cuts(offsets, PARTS))], thread_count())


def in_parts(work: Callable[[slice], Any], n_rows: int, parts: int = 4) -> list[Any]:
    """work(rows) for `parts` ranges of rows, on all threads; results in order. What they are does not depend on the threads."""
    edges = np.linspace(0, n_rows, parts + 1).astype(int)
    ranges = [slice(int(a), int(b)) for a, b in pairwise(edges)]
    return _shared([partial(work, rows) for rows in ranges], thread_count())


def each(work: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """[work(item) for item in items] on all threads; but for a list, items are made as they are needed, a few ahead."""
    threads, waiting, results = thread_count(), iter(items), list[Any]()
    ahead = len(items) if isinstance(items, list) else 2 * threads
    while batch := list(islice(waiting, ahead)):
        results += _shared([partial(work, item) for item in batch], threads)
    return results


def times(X: FloatArray, *factors: FloatArray) -> FloatArray:
    """X @ factor @ factor ...; of many rows in parts."""
    *first, last = factors
    out = np.empty((len(X), last.shape[1]))

    def part(rows: slice) -> None:
        some = X[rows]
        for factor in first:
            some = some @ factor
        np.matmul(some, last, out=out[rows])

    if X.size < SMALL:
        part(slice(None))
    else:
        in_parts(part, len(X))
    return out


def gram(X: FloatArray) -> FloatArray:
    """X'X; of many rows in parts."""
    if X.size < SMALL:
        return np.asarray(X.T @ X)
    return np.asarray(np.sum(in_parts(lambda rows: X[rows].T @ X[rows], len(X)), axis=0))


def _cuts(offsets: NDArray[np.int64], parts: int) -> list[int]:
    """Task positions that split the rows into about equal parts, without empty parts."""
    rows = np.linspace(offsets[0], offsets[-1], parts + 1)
    cuts = np.searchsorted(offsets, rows)
    cuts[0], cuts[-1] = 0, len(offsets) - 1
    return [int(c) for c in np.unique(cuts)]


class _Job:
    """Calls that several threads take from one list until it is empty."""

    def __init__(self, calls: Sequence[Callable[[], Any]]) -> None:
        self.calls = calls
        self.results: list[Any] = [None] * len(calls)
        self.error: BaseException | None = None
        self.context = copy_context()  # NumPy's error state: helpers keep silent where the caller does
        self._next, self._finished = count(), count(1)  # next() on a counter is one step for the interpreter
        self._all_done = Lock()
        self._all_done.acquire()

    def work(self) -> None:
        for k in self._next:
            if k >= len(self.calls):
                return
            try:
                if self.error is None:
                    self.results[k] = self.calls[k]()
            except BaseException as error:
                self.error = error
            if next(self._finished) == len(self.calls):
                self._all_done.release()

    def help(self) -> None:
        """Work as a helper."""
        self.context.copy().run(self.work)

    def wait(self) -> list[Any]:
        self._all_done.acquire()
        if self.error is not None:
            raise self.error
        return self.results


class _Crew:
    """Threads that wait for jobs; started when first needed."""

    def __init__(self) -> None:
        self.jobs: SimpleQueue[_Job] = SimpleQueue()
        self.size, self._growing = 0, Lock()

    def call(self, wanted: int, job: _Job) -> None:
        """Ask `wanted` helpers to join in."""
        if self.size < wanted:
            with self._growing:
                for k in range(self.size, wanted):
                    Thread(target=self._help, name=f"taskveil-{k}", daemon=True).start()
                self.size = max(self.size, wanted)
        for _ in range(wanted):
            self.jobs.put(job)

    def _help(self) -> None:
        while True:
            self.jobs.get().help()  # no name for the job: a helper that waits must not keep the caller's arrays alive


_crew = _Crew()


def _shared(calls: Sequence[Callable[[], Any]], threads: int) -> list[Any]:
    """The results of the calls, in order. The first error is raised when nobody works any more."""
    helpers = min(threads, len(calls)) - 1
    if helpers == 0:
        return [call() for call in calls]
    job = _Job(calls)
    _crew.call(helpers, job)
    job.work()
    return job.wait()


def _new_crew() -> None:
    global _crew
    _crew = _Crew()


if hasattr(os, "register_at_fork"):  # a forked child has the object but not its threads
    os.register_at_fork(after_in_child=_new_crew)


LARGE = 600  # rows of a square matrix from which a second thread helps even on a busy machine


@contextmanager
def small_matrix_threads(size: int) -> Iterator[None]:
    """Inside, BLAS runs on one thread if matrices have at most LARGE rows (the shorter side counts)."""
    if size > LARGE:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
