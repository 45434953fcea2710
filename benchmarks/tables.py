"""Tables on the way in: a csv of a million rows, 200 tasks and 50 columns, to tasks and to fitted models."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from functools import lru_cache
from pathlib import Path

import numpy as np

from benchmarks.timing import measured, take_turns, take_turns_with_processor

ROWS, TASKS, COLUMNS = 1_000_000, 200, 50


@lru_cache(maxsize=1)
def csv_file() -> tuple[tempfile.TemporaryDirectory, Path]:
    """Rows in random order, so that grouping has work to do; the folder goes with the process."""
    import pyarrow as pa
    import pyarrow.csv

    rng = np.random.default_rng(0)
    X = np.round(rng.standard_normal((ROWS, COLUMNS - 2)), 4)
    columns = {f"f{j}": X[:, j] for j in range(X.shape[1])}
    columns["site"] = np.char.add("site-", rng.integers(0, TASKS, ROWS).astype(str))
    columns["days"] = X[:, 0] + rng.standard_normal(ROWS)
    folder = tempfile.TemporaryDirectory()
    path = Path(folder.name) / "visits.csv"
    pyarrow.csv.write_csv(pa.table(columns), path)
    return folder, path


def load_over_parse(repeats: int) -> dict:
    """Processor seconds of load_tasks over those of only parsing the same file with Arrow."""
    import pyarrow.csv

    from taskveil.tasks import load_tasks

    _, path = csv_file()
    turns = take_turns_with_processor(
        {"load": lambda: load_tasks(path, task="site", target="days"), "parse": lambda: pyarrow.csv.read_csv(path)},
        min(repeats, 3),
    )
    ratios = turns["load"][:, 1] / turns["parse"][:, 1]
    return measured(ratios, at_most=2.0, seconds=float(np.median(turns["load"][:, 0])))


CHILD = """
import json, os, resource, sys, time
start = time.perf_counter()
from taskveil.cli.main import run
sys.argv = ["taskveil", "fit", sys.argv[1], "--task", "site", "--target", "days", "-o", sys.argv[2]]
try:
    run()
except SystemExit as e:
    code = e.code
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
seconds, own = time.perf_counter() - start, os.times()
result = {"code": code, "seconds": seconds, "processor_seconds": own.user + own.system, "peak_gib": peak}
print("RESULT" + json.dumps(result))
"""


@lru_cache(maxsize=1)
def fitted() -> dict:
    """`taskveil fit` on the file in a process of its own: exit code, seconds, peak memory."""
    folder, path = csv_file()
    command = [sys.executable, "-c", CHILD, str(path), str(Path(folder.name) / "model")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = [line for line in done.stdout.splitlines() if line.startswith("RESULT")]
    if not lines:
        raise RuntimeError(f"taskveil fit ended without a result: {done.stderr.strip()[-300:]}")
    return json.loads(lines[-1].removeprefix("RESULT"))


def fit_seconds(repeats: int) -> dict:
    """Seconds of `taskveil fit` from the csv to saved models and page.

    Other programs on the machine lengthen them; the processor seconds tell by how much.
    """
    import pyarrow.csv

    result = fitted()
    parsing = take_turns({"parse": lambda: pyarrow.csv.read_csv(csv_file()[1])}, 1)["parse"][0]
    return measured(
        result["seconds"], at_most=8.0, code=result["code"], processor_seconds=round(result["processor_seconds"], 1),
        floor=f"parsing the file with Arrow: {parsing:.1f} s",
    )  # fmt: skip


def fit_memory(repeats: int) -> dict:
    """Peak memory of that process in GiB."""
    return measured(fitted()["peak_gib"], at_most=4.0)


BENCHMARKS = {"csv-load": load_over_parse, "csv-fit-seconds": fit_seconds, "csv-fit-memory": fit_memory}
