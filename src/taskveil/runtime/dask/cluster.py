"""Which cluster: a client that is there, a scheduler by its address, or workers of this machine; and waiting for it.

`wait` is the one place where a driver waits for workers. A scheduler without any is waited for `taskveil.wait-for-workers`
seconds of Dask's configuration (`--wait-for-workers`, or the variable DASK_TASKVEIL__WAIT_FOR_WORKERS), one minute unless told;
the time in which a nanny of our own cluster is starting a worker again does not count, however slow the machine.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

from taskveil.checks import shown
from taskveil.errors import EnvironmentMissing, OptionError
from taskveil.runtime.dask.worker import guarded

FAILURES = 30  # deaths of workers that a partition survives: most tell nothing about its rows, so many that it is too large
PATIENCE = "10s"  # until a scheduler answers
LEAST = 2**29  # bytes a worker must be allowed: half of it goes into Python and what we import
WAIT = "taskveil.wait-for-workers"
USUAL_WAIT = 60.0
LOOK, NAP = 1.0, 0.03  # seconds between two looks whether there are workers; and at most, whether results are
UNSTOPPED = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"  # a terminal interrupts workers too; the driver ends them
)
GOES_ON = "What was charged stays charged; a run with run_dir= (-o DIR) goes on with resume"
_local: list[Any] = []  # the client of this process's own cluster


def connect(client: Any = None) -> Any:
    """A client: the given one, one for the scheduler at an address, or one for all cores of this machine. It can be used."""
    distributed = _distributed()
    if client is None:
        return _own_cluster(distributed)
    if isinstance(client, str):
        client = _client_of(client, distributed)
    elif not isinstance(client, distributed.Client):
        raise OptionError(f"client must be a distributed.Client, an address or None; got {type(client).__name__}")
    if client.asynchronous:
        raise OptionError(
            "client is an asynchronous distributed.Client, and fit waits: give a usual one, or the scheduler's address"
        )
    _check_machines(client)
    return client


def _client_of(address: str, distributed: Any) -> Any:
    """A client of the scheduler at an address. Who is there must greet first: a client would wait for that without end."""
    from dask.utils import parse_timedelta

    async def greeted() -> None:
        options = distributed.Security().get_connection_args("client")
        comm = await asyncio.wait_for(distributed.comm.connect(address, **options), parse_timedelta(PATIENCE))
        await comm.close()

    try:
        with ThreadPoolExecutor(1) as beside:  # in a notebook this thread has a loop of its own
            beside.submit(lambda: asyncio.run(greeted())).result()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", distributed.versions.VersionMismatchWarning)  # _check_machines refuses, in one line
            return distributed.Client(address, timeout=PATIENCE)
    except (OSError, ValueError, TypeError, TimeoutError):
        sentence = f"no Dask scheduler answers at {address!r}; start one (`dask scheduler`), or give its address"
        raise EnvironmentMissing(sentence) from None


def _check_machines(client: Any) -> None:
    """Whether scheduler and workers have our version and Python's, of those that are there now; and the workers room."""
    import distributed

    with cluster_errors():
        if client.status != "running":
            raise distributed.client.ClosedClientError
        _has_workers(client)
        found = client.get_versions(packages=["taskveil"])
    for place, about in (("its scheduler", found["scheduler"]), *found["workers"].items()):
        here, there = _versions(found["client"]), _versions(about)
        if here != there:
            raise EnvironmentMissing(
                f"all machines of a Dask cluster need the same versions: here is {here}, at {place} is {there}. "
                "Install the same there (pip install 'taskveil[dask]')"
            )


def _versions(about: Any) -> str:
    packages = about["packages"]
    python = ".".join(packages["python"].split(".")[:2])
    dask, numpy = packages["distributed"], packages["numpy"]
    return f"taskveil {packages['taskveil'] or 'missing'} with Dask {dask} and NumPy {numpy} on Python {python}"


def submit(client: Any, work: Callable[..., Any], *given: Any) -> Any:
    """work(*given) on some worker: a future."""
    with cluster_errors():
        return client.submit(guarded, work, *given, key=f"{work.__name__}-{uuid4()}", pure=False)


def gathered(client: Any, futures: Sequence[Any]) -> list[Any]:
    """The results of all futures, in order."""
    wait(client, futures)
    with cluster_errors():
        return list(client.gather(list(futures)))


def wait(client: Any, futures: Sequence[Any], tick: Callable[[int], None] | None = None) -> None:
    """Until all are there, or one has failed: its error is raised. `tick` is told how many have arrived."""
    from distributed import as_completed

    with cluster_errors():
        arriving, done, absent, looked = as_completed(futures, loop=client.loop), 0, Absence(), time.monotonic()
        while not arriving.is_empty():
            for future in arriving.next_batch(block=False):
                done += 1
                if future.status in ("error", "cancelled"):
                    future.result()
                if tick is not None:
                    tick(done)
            if time.monotonic() - looked > LOOK:
                looked = time.monotonic()
                absent = Absence() if _has_workers(client) or _starts_workers(client) else absent.goes_on()
            with arriving.thread_condition:  # a result that arrives ends it
                arriving.thread_condition.wait(NAP)


class Absence:
    """For how long no worker has been there; no longer than was allowed."""

    def __init__(self) -> None:
        from dask import config, utils

        given = config.get(WAIT, USUAL_WAIT)
        try:
            self.since, self.most = time.monotonic(), float(utils.parse_timedelta(given, default="s"))
        except (TypeError, ValueError, KeyError):
            raise OptionError(
                f"{WAIT} in Dask's configuration must be seconds or a time like '2 min'; got {shown(given)}"
            ) from None

    def goes_on(self) -> Absence:
        if time.monotonic() - self.since > self.most:
            raise EnvironmentMissing(
                f"the Dask scheduler has had no workers for {self.most:g} s, or none with memory left: start some "
                "(`dask worker ADDRESS`) with this version of taskveil[dask] and enough memory, or wait longer "
                f"(--wait-for-workers). {GOES_ON}"
            )
        return self


def _has_workers(client: Any) -> bool:
    """Whether some can work; refused where one never could."""
    try:
        workers = client.scheduler_info(n_workers=-1).get("workers", {})  # nothing, of a client that was closed meanwhile
    except (OSError, TimeoutError):
        return False  # a scheduler that is gone: the client's futures end with that
    for address, about in workers.items():
        if 0 < (about["memory_limit"] or LEAST) < LEAST:
            raise EnvironmentMissing(
                f"the worker {address} may use {about['memory_limit'] / 2**20:.0f} MiB of memory, and needs {LEAST // 2**20} MiB "
                f"or more: raise its --memory-limit. {GOES_ON}"
            )
    return any(about["status"] != "paused" for about in workers.values())  # paused: its memory is full, and stays so


def _starts_workers(client: Any) -> bool:
    """Whether a nanny of this process has a worker on its way; one whose worker cannot start at all closes itself."""
    nannies = [nanny for nanny in getattr(client.cluster, "workers", {}).values() if hasattr(nanny, "process")]
    alive = [nanny.process for nanny in nannies if nanny.status.name == "running" and nanny.process is not None]
    return any(process.status.name == "starting" and process.is_alive() for process in alive)


def _own_cluster(distributed: Any) -> Any:
    if not _local or _local[0].status != "running":
        import dask

        with dask.config.set({"distributed.scheduler.allowed-failures": FAILURES}):
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
            cluster = distributed.LocalCluster(
                n_workers=cores, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL, preload=UNSTOPPED
            )  # what goes wrong is told in one line, here; a cluster that ends with the program has lost nothing
        _local[:] = [distributed.Client(cluster)]
    return _local[0]


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise EnvironmentMissing("runtime 'dask' needs the extra 'dask': pip install 'taskveil[dask]'") from None
    return distributed


@contextmanager
def cluster_errors() -> Iterator[None]:
    """What goes wrong on the way to workers, in one line; errors of ours pass as they are."""
    from concurrent.futures import CancelledError

    from distributed import KilledWorker
    from distributed.client import ClosedClientError
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker:
        raise EnvironmentMissing(
            "workers died again and again over one partition: give them more memory, or load the table in more partitions. "
            f"{GOES_ON}"
        ) from None
    except (CommClosedError, CancelledError, TimeoutError):
        raise EnvironmentMissing(f"the Dask scheduler is gone. {GOES_ON}") from None
    except ClosedClientError:
        raise EnvironmentMissing(
            "the Dask client is closed, and with it went what workers kept: give an open one (client=), and fit again or load "
            f"the models that were saved. {GOES_ON}"
        ) from None
    except RuntimeError as failed:  # what the scheduler could not read, usually for want of a package; else a worker's own
        if "deserialization" not in str(failed):
            raise
        raise EnvironmentMissing(
            f"the Dask scheduler cannot read our work: install the same taskveil[dask] there as here. {GOES_ON}"
        ) from None
    except ImportError as lack:
        raise EnvironmentMissing(
            f"a worker of the Dask cluster lacks a package ({lack}): install the same taskveil[dask] on all machines. {GOES_ON}"
        ) from None
