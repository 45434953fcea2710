"""Tables as Parquet files, and a small real cluster."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from tests.support.small import related_tasks

FEATURES = [f"x{j}" for j in range(5)]


def table(n_tasks=23, kind="regression", shuffled=False, rows=(1, 30), dtype=np.float64, **options) -> pd.DataFrame:
    """Ragged tasks as a table with the columns task and y."""
    tasks = related_tasks(n_tasks=n_tasks, rows=rows, kind=kind, **options)
    frame = pd.DataFrame(np.asarray(tasks.X, dtype=dtype), columns=FEATURES)
    frame["task"], frame["y"] = np.repeat(np.asarray(tasks.task_names), tasks.sizes), np.asarray(tasks.y)
    return frame.sample(frac=1.0, random_state=0, ignore_index=True) if shuffled else frame


def written(frame: pd.DataFrame, folder: Path, files=3, rows=40) -> Path:
    """The table in several Parquet files of several row groups."""
    folder.mkdir(parents=True, exist_ok=True)
    for k, part in enumerate(np.array_split(np.arange(len(frame)), files)):
        frame.iloc[part].to_parquet(folder / f"part-{k}.parquet", row_group_size=rows, index=False)
    return folder


@contextmanager
def cluster(n_workers=2, processes=True, failures=1000, **options):
    """A client of a LocalCluster; `failures`: deaths of workers that a piece of work survives."""
    import dask
    from distributed import Client, LocalCluster

    with (
        dask.config.set({"distributed.scheduler.allowed-failures": failures, "distributed.comm.timeouts.connect": "120s"}),
        LocalCluster(n_workers=n_workers, threads_per_worker=1, processes=processes, dashboard_address=None, **options) as local,
        Client(local, set_as_default=True) as client,
    ):
        yield client
