"""The engine as a whole: a table of 200 MB under a memory limit, a driver killed at random points, errors of the command line.

The million tasks are in `make test-engine`.
"""

from __future__ import annotations

import json
import os
import signal
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from benchmarks.engine import in_a_process
from tests.support.partitions import cluster, table, written
from tests.support.require import require

import taskveil as tv
from taskveil.cli.main import run
from taskveil.estimators.storage import load
from taskveil.privacy.ledger import Book, Key

GIB = 1024


@pytest.fixture(autouse=True)
def dask_is_here():
    require("dask")


@pytest.mark.timeout(900)
def test_two_hundred_megabytes_fit_under_a_memory_limit(tmp_path):
    """1.66 million rows x 30 float32 in 200 tasks; a worker holds its partitions, the driver none."""
    size = {"tasks": 200, "rows": 8300, "features": 30}
    found = in_a_process(**size, folder=str(tmp_path), workers=2, memory="1GiB", method="mean", warm=0)
    assert found["bytes"] > 195e6
    assert found["no_worker_died"] and found["holds"] and max(found["worker_peaks_mib"]) < GIB
    assert found["driver_peak_mib"] < GIB


@pytest.mark.engine
@pytest.mark.timeout(4 * 3600)
def test_a_million_tasks_under_two_gibibytes_each(tmp_path):
    size = {"tasks": int(os.environ.get("TASKVEIL_ENGINE_TASKS", "1000000")), "rows": 20, "features": 30}
    folder = os.environ.get("TASKVEIL_ENGINE_FOLDER", str(tmp_path))  # where the table is already, or will be
    found = in_a_process(**size, folder=folder, workers=2, memory="2GiB")
    print(json.dumps(found, indent=1))
    assert found["no_worker_died"] and found["holds"] and found["epsilon"] <= 1.0 + 1e-9
    assert found["driver_peak_mib"] < GIB and max(found["worker_peaks_mib"]) < 2 * GIB


@pytest.mark.engine
@pytest.mark.timeout(3600)
def test_two_workers_are_nearly_twice_as_fast_as_one():
    """By the clock; or, beside other programs on the same cores, by the processor seconds of driver and busiest worker."""
    from benchmarks.engine import two_workers_over_one

    found = two_workers_over_one(1)
    print(json.dumps(found, indent=1))
    assert max(found["value"], found["by_processor_seconds"]) >= 1.7


def drive(folder: Path, table_folder: Path, scheduler: str, **more: str) -> bool:
    """Run the driver in a process; whether it came to its end rather than being killed."""
    from tests.support.driver import train

    drivers = get_context("forkserver")
    drivers.set_forkserver_preload(["tests.support.driver"])  # imports take longer than the run
    driver = drivers.Process(target=train, args=(str(folder), str(table_folder), scheduler, more))
    driver.start()
    driver.join(280)
    assert driver.exitcode in (0, -signal.SIGKILL), driver.exitcode
    return driver.exitcode == 0


def killed_and_resumed(points: int, tmp_path: Path) -> None:
    """Every point is drawn anew; the test says which one it was."""
    rng, folder = np.random.default_rng(), written(table(n_tasks=10, rows=(6, 8)), tmp_path / "table")
    with cluster(n_workers=1) as client:
        scheduler, log = client.scheduler.address, tmp_path / "points.log"
        _limited(tmp_path / "whole")
        assert drive(tmp_path / "whole", folder, scheduler, TASKVEIL_KILL_LOG=str(log))
        passed = len(log.read_text().splitlines())
        for k in range(points):
            own = tmp_path / f"run-{k}"
            _limited(own)
            at = int(rng.integers(1, passed + 1))
            assert not drive(own, folder, scheduler, TASKVEIL_KILL_AT=str(at)), f"point {at} was not passed"
            assert drive(own, folder, scheduler), f"not resumed after point {at}"
            _check(own, at)


def _limited(folder: Path) -> None:
    folder.mkdir()
    book = Book(f"sqlite:///{folder / 'budget.db'}")
    book.set_limit(Key("wards"), 2.0, 1e-5)
    book.close()


def _check(folder: Path, at: int) -> None:
    """What stands on disk was committed; the limit holds; the certificate says what the ledger says."""
    book = Book(f"sqlite:///{folder / 'budget.db'}")
    (row,) = book.accounts()
    commits = [e for e in book.rows(row.id) if e.kind == "commit"]
    spent, limit = book.spent(Key("wards"))
    saved = load(folder / "model")
    assert len(saved.record_.executed) == len(commits) >= 3, f"point {at}"
    assert max(s.epsilon for s in saved.certificate_.statements) <= 2.0 and spent <= limit, f"point {at}"
    assert np.isfinite(saved.coef_.compute()).all()
    book.close()


@pytest.mark.kills
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("points", [1, pytest.param(20, marks=[pytest.mark.engine, pytest.mark.faults])])
def test_a_driver_killed_at_random_points_never_exceeds_its_budget(points, tmp_path):
    killed_and_resumed(points, tmp_path)


def test_the_command_line_refuses_in_one_line_and_charges_nothing(tmp_path, capsys):
    folder = written(table(), tmp_path / "table")
    (folder / "part-1.parquet").write_bytes((folder / "part-1.parquet").read_bytes()[:100])
    fit = ["fit", str(folder), "--task", "task", "--target", "y", "--method", "mean"]
    (tmp_path / "each.json").write_text('{"*": 1.0}')
    never = (
        ("--aggregation", "local"), ("--loss", "poisson"), ("--kind", "survival"), ("--person", "x0"),
        ("--epsilon-file", str(tmp_path / "each.json")),
    )  # fmt: skip
    for words, code, said in (
        (["--engine", "dask:tcp://127.0.0.1:1"], 4, "no Dask scheduler answers"),
        *((["--engine", "dask:tcp://127.0.0.1:1", *words], 2, "runtime 'dask' does not run") for words in never),
        (["--engine", "spark"], 2, "dask:tcp://HOST:8786"),
    ):
        with pytest.raises(SystemExit) as ended:
            run([*fit, *words])
        told = capsys.readouterr().err
        assert ended.value.code == code and said in told and "Traceback" not in told, told


def test_lazy_tasks_without_the_engine_are_told_apart(tmp_path):
    lazy = tv.load_tasks(written(table(), tmp_path), task="task", target="y", lazy=True)
    assert "LazyTasks(23 tasks" in repr(lazy)
