"""Tables beyond memory on a local Dask cluster: rows per second, against reading alone, and two workers against one.

python -m benchmarks.engine [--tasks M] [--rows N] [--features D] [--workers W] [--memory LIMIT] [--method NAME]

prints one JSON document. `python -m benchmarks.run engine` measures a table of a size that any machine has time for;
`make test-engine` the million tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

from benchmarks.timing import measured

FILE_TASKS = 25_000
SMALL = {"tasks": 20_000, "rows": 20, "features": 30}
LARGE = SMALL | {"tasks": 200_000}  # rounds of some seconds: what they wait for is work, not messages
WARM = 400  # tasks of a first fit that is not measured: workers import, and load compiled code


def write_table(folder: Path, tasks: int, rows: int, features: int) -> None:
    """Parquet files of float32, sorted by task."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    common = rng.standard_normal(features)
    folder.mkdir(parents=True, exist_ok=True)
    for k, first in enumerate(range(0, tasks, FILE_TASKS)):
        names = np.arange(first, min(first + FILE_TASKS, tasks), dtype=np.int64)
        X = rng.standard_normal((len(names) * rows, features), dtype=np.float32)
        W = common + 0.3 * rng.standard_normal((len(names), features))
        y = np.einsum("nd,nd->n", X, np.repeat(W, rows, axis=0)) + rng.standard_normal(len(X))
        columns = {f"x{j}": X[:, j] for j in range(features)} | {"task": np.repeat(names, rows), "y": y.astype(np.float32)}
        pq.write_table(pa.table(columns), folder / f"part-{k:04d}.parquet", row_group_size=200_000, use_dictionary=["task"])


def read_seconds(folder: Path) -> tuple[float, float]:
    """Seconds in which Arrow alone reads all files, one thread; by the clock, and of the processor."""
    import pyarrow.parquet as pq

    start, used = time.perf_counter(), time.process_time()
    for path in sorted(folder.glob("*.parquet")):
        file = pq.ParquetFile(path)
        for number in range(file.metadata.num_row_groups):  # one at a time: the peak of this process is measured
            file.read_row_group(number, use_threads=False)
    return time.perf_counter() - start, time.process_time() - used


def _peak() -> int:
    """Peak memory of this process in KiB. Not `ru_maxrss`: a process that was started by a large one inherits its peak."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def fit(folder: Path, warm: Path, workers: int, memory: str, method: str) -> dict:
    """From files to saved models: what it took of time and memory. `warm`: a table of a first fit, if it is there."""
    from distributed import Client, LocalCluster

    import taskveil as tv

    cluster = LocalCluster(n_workers=workers, threads_per_worker=1, memory_limit=memory, dashboard_address=None)
    with cluster, Client(cluster) as client, tempfile.TemporaryDirectory() as out:
        pids = set(client.run(os.getpid).values())
        if warm.exists():
            few = tv.load_tasks(warm, task="task", target="y", lazy=True, partitions=2 * workers)
            tv.TaskRegressor(method, epsilon=100.0, runtime="dask", client=client).fit(few)
        before, own_before = client.run(time.process_time), time.process_time()
        start, stages = time.perf_counter(), {}
        tasks = tv.load_tasks(folder, task="task", target="y", lazy=True)
        stages["load"] = time.perf_counter() - start
        est = tv.TaskRegressor(method, epsilon=1.0, runtime="dask", client=client).fit(tasks)
        stages["fit"] = time.perf_counter() - start - stages["load"]
        est.save(Path(out) / "model")
        seconds = time.perf_counter() - start
        driver = time.process_time() - own_before
        workers = [used - before[name] for name, used in client.run(time.process_time).items() if name in before]
        peaks = client.run(_peak)
        survived = set(client.run(os.getpid).values()) == pids
        own = _peak()
        return {
            "seconds": seconds, "stages": stages, "rows_per_second": tasks.n_rows / seconds,
            "worker_processor_seconds": workers, "driver_processor_seconds": driver,
            "rows_per_processor_second": tasks.n_rows / (sum(workers) + driver),
            "partitions": tasks.n_partitions, "epsilon": est.certificate_.statements[0].epsilon,
            "holds": est.certificate_.holds, "driver_peak_mib": own / 1024,
            "worker_peaks_mib": [peak / 1024 for peak in peaks.values()], "no_worker_died": survived,
            "released": len(est.record_.executed), "rounds": est.n_iter_,
        }  # fmt: skip


def in_a_process(tasks: int, rows: int, features: int, folder: str = "", **more: object) -> dict:
    """The command line above: the driver's peak memory is that of a process which does nothing else."""
    options = {"tasks": tasks, "rows": rows, "features": features, **({"folder": folder} if folder else {}), **more}
    words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
    done = subprocess.run([sys.executable, "-m", "benchmarks.engine", *words], stdout=subprocess.PIPE, check=True, text=True)
    return json.loads(done.stdout.splitlines()[-1])


def alone_seconds(found: dict) -> float:
    """How long it takes where nothing else runs: the driver scans and saves first and last, the busiest worker in between.

    From processor seconds, which other programs do not change much; on a machine with more cores than workers it is a little
    more than the clock says, because driver and workers overlap.
    """
    return found["driver_processor_seconds"] + max(found["worker_processor_seconds"])


def two_workers_over_one(repeats: int) -> dict:
    """Rows per second of two workers over those of one, in turns; beside it by processor seconds, where other programs run."""
    with tempfile.TemporaryDirectory() as place:
        write_table(Path(place) / "table", **LARGE)
        turns = [[in_a_process(**LARGE, folder=place, workers=w) for w in (1, 2)] for _ in range(min(repeats, 2))]
    ratios = [two["rows_per_second"] / one["rows_per_second"] for one, two in turns]
    by_processor = [alone_seconds(one) / alone_seconds(two) for one, two in turns]
    return measured(ratios, at_least=1.7, by_processor_seconds=float(np.median(by_processor)), one=turns[-1][0], two=turns[-1][1])


def driver_memory(repeats: int) -> dict:
    """Peak of the driver in GiB."""
    found = in_a_process(**SMALL)
    return measured(found["driver_peak_mib"] / 1024, at_most=1.0, **found)


BENCHMARKS = {"two workers over one": two_workers_over_one, "driver memory": driver_memory}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__.splitlines()[0])
    for name, value in (SMALL | {"workers": 2, "warm": WARM}).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--method", default="together")
    parser.add_argument("--folder", help="where the table is, or will be; a temporary one otherwise")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        table = Path(given.folder or temporary) / "table"
        if not table.exists():  # elsewhere: the peak of this process is measured
            writer = get_context("spawn").Process(target=write_table, args=(table, given.tasks, given.rows, given.features))
            writer.start()
            writer.join()
        if given.warm:
            write_table(Path(temporary) / "warm", given.warm, 20, given.features)
        size, (reading, read_processor) = sum(p.stat().st_size for p in table.iterdir()), read_seconds(table)
        found = fit(table, Path(temporary) / "warm", given.workers, given.memory, given.method)
    about = {"tasks": given.tasks, "rows": given.rows, "features": given.features, "workers": given.workers, "bytes": size}
    used = sum(found["worker_processor_seconds"]) + found["driver_processor_seconds"]
    share = {
        "arrow_seconds": reading, "share_of_reading": reading / found["seconds"],
        "arrow_processor_seconds": read_processor, "share_of_reading_by_processor": read_processor / used,
    }  # fmt: skip
    print(json.dumps({**about, **found, **share}), flush=True)


if __name__ == "__main__":
    main()
