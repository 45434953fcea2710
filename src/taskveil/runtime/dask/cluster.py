"""Which cluster: a client that is there, a scheduler by its address, or workers of this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from taskveil.errors import EnvironmentMissing, OptionError

FAILURES = 1000  # deaths of workers that a partition survives: being killed tells nothing about its rows
PATIENCE = "10s"
_local: list[Any] = []  # the client of this process's own cluster


def connect(client: Any = None) -> Any:
    """A client: the given one, one for the scheduler at an address, or one for all cores of this machine."""
    distributed = _distributed()
    if client is None:
        return _own_cluster(distributed)
    if not isinstance(client, str):
        if not (hasattr(client, "submit") and hasattr(client, "gather")):
            raise OptionError(f"client must be a distributed.Client, an address or None; got {type(client).__name__}")
        return client
    try:
        return distributed.Client(client, timeout=PATIENCE)
    except (OSError, ValueError, TimeoutError):
        said = f"no Dask scheduler answers at {client!r}; start one (`dask scheduler`), or give its address"
        raise EnvironmentMissing(said) from None


def _own_cluster(distributed: Any) -> Any:
    if not _local or _local[0].status != "running":
        import dask

        with dask.config.set({"distributed.scheduler.allowed-failures": FAILURES}):
            cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
            cluster = distributed.LocalCluster(n_workers=cores, threads_per_worker=1, dashboard_address=":0")
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
    from distributed.comm import CommClosedError

    try:
        yield
    except KilledWorker:
        raise EnvironmentMissing(
            "workers died again and again over one partition: give them more memory, or load the table in more partitions. "
            "What was charged stays charged; a run with run_dir= (-o DIR) goes on with resume"
        ) from None
    except (CommClosedError, CancelledError, TimeoutError):
        raise EnvironmentMissing(
            "the Dask scheduler is gone. What was charged stays charged; a run with run_dir= (-o DIR) goes on with resume"
        ) from None
