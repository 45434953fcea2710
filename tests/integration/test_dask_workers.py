"""Workers that die or run out of memory, drivers that are stopped, and what is seen while a run goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from tests.contract.test_dask import kill_one
from tests.support.partitions import FEATURES, cluster, table, written
from tests.support.require import require

import taskveil as tv
from taskveil import methods
from taskveil.errors import EnvironmentMissing
from taskveil.privacy.ledger import Book, Key

COLUMNS = {"task": "task", "target": "y"}
OPTIONS = {"epsilon": 2.0, "delta": 1e-3, "insecure_noise_seed": 3}


@pytest.fixture(autouse=True)
def dask_is_here():
    require("dask")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return written(table(), tmp_path_factory.mktemp("table"))


def fitted(client, folder, method="mean", partitions=3, **more):
    tasks = tv.load_tasks(folder, **COLUMNS, lazy=True, partitions=partitions)
    return tv.TaskRegressor(method, runtime="dask", client=client, **{**OPTIONS, **more}).fit(tasks)


# ------------------------------------------------------------------ deaths


@pytest.mark.engine  # by itself: with a second cluster in this process Dask cancels what a frame waits for when its worker dies
@pytest.mark.timeout(600)
def test_a_worker_killed_while_it_predicts_and_measures_changes_no_model_prediction_or_gain(folder, tmp_path):
    """All that it kept is computed again; models, too, for who saves them then."""
    frame = table()
    here = tv.TaskRegressor("mean", **OPTIONS).fit(tv.load_tasks(frame, **COLUMNS))
    with cluster(n_workers=1) as client:
        there = fitted(client, folder)
        gain, found = there.gain_, there.predict(tv.load_tasks(folder, **COLUMNS, lazy=True, partitions=4))
        kill_one(client)
        scores, errors = (client.compute(lazy).result() for lazy in (found, gain))  # other tests' clients may be the default
        np.testing.assert_array_equal(scores.score.to_numpy(), here.predict(tv.load_tasks(frame, **COLUMNS)))
        np.testing.assert_array_equal(errors.error_shared, here.gain_.to_frame().error_shared)
        there.save(tmp_path / "model")
    np.testing.assert_array_equal(tv.load(tmp_path / "model").coef_.compute(), here.coef_)


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.kills
def test_work_that_kills_every_worker_is_one_line():
    from taskveil.runtime.dask.cluster import gathered, submit

    said = "workers died again and again over one partition"
    with cluster(n_workers=1, failures=1) as client, pytest.raises(EnvironmentMissing, match=said):
        gathered(client, [submit(client, die)])


@pytest.mark.parametrize("name", ["together", "low-rank"])
def test_workers_that_keep_partitions_on_disk_give_the_same_bits(name, tmp_path):
    import dask
    import distributed  # noqa: F401 (before its configuration is changed, which else goes with the change)

    frame = table(n_tasks=40, rows=(100, 120))
    here = tv.TaskRegressor(methods.get(name), **OPTIONS).fit(tv.load_tasks(frame, **COLUMNS))
    spill = {f"distributed.worker.memory.{name}": False for name in ("spill", "pause", "terminate")}  # it shares our process
    spill["distributed.worker.memory.target"] = 1e-5
    with dask.config.set(spill), cluster(n_workers=1, processes=False, memory_limit="1GiB") as client:
        there = fitted(client, written(frame, tmp_path), methods.get(name), partitions=8)
        on_disk = client.run(lambda dask_worker: dask_worker.data.spilled_total.disk)
        assert all(size > 1e5 for size in on_disk.values()), on_disk
        np.testing.assert_array_equal(there.coef_.compute(), here.coef_)


# ------------------------------------------------------- progress, results


def test_one_bar_goes_over_partitions_and_rounds(folder):
    shown: list[tuple[int, int]] = []
    with cluster(n_workers=1, processes=False) as client:
        there = fitted(client, folder, methods.get("low-rank", rounds=3), progress=lambda *at: shown.append(at))
    done = [at for at, _ in shown]
    assert {total for _, total in shown} == {3 * 3} and done == sorted(done) and done[-1] == 9
    assert {3, 6, 9} <= set(done) and len(there.record_.executed) == 3
    assert len(set(done) - {3, 6, 9}) >= 3  # within rounds, too


def test_gains_and_predictions_are_lazy_frames(folder):
    import dask.dataframe as dd

    frame = table()
    with cluster(n_workers=1, processes=False) as client:
        there = fitted(client, folder, "subspace", epsilon=8.0)
        gain, found = there.gain_, there.predict(tv.load_tasks(folder, **COLUMNS, lazy=True, partitions=4))
        assert isinstance(gain, dd.DataFrame) and isinstance(found, dd.DataFrame)
        assert gain.npartitions == 3 and found.npartitions == 4
        here = tv.TaskRegressor("subspace", **{**OPTIONS, "epsilon": 8.0}).fit(tv.load_tasks(frame, **COLUMNS))
        alike = here.gain_.to_frame()
        assert gain.compute()[["error_alone", "error_shared", "kept"]].equals(alike[["error_alone", "error_shared", "kept"]])


def test_tables_and_models_at_an_address_of_no_disk(folder):
    """Loaded, fitted, saved, loaded and asked, all of it at memory://."""
    import fsspec

    frame = table()
    for path in folder.glob("*.parquet"):
        with fsspec.open(f"memory://tables/visits/{path.name}", "wb") as file:
            file.write(path.read_bytes())
    here = tv.TaskRegressor("mean", **OPTIONS).fit(tv.load_tasks(frame, **COLUMNS))
    with cluster(n_workers=1, processes=False) as client:  # memory:// lives in one process
        there = fitted(client, "memory://tables/visits")
        there.save("memory://models/visits")
        again = tv.load("memory://models/visits").set_params(runtime="dask", client=client)
        np.testing.assert_array_equal(again.predict(frame[FEATURES], task=frame.task), here.predict(frame[FEATURES], frame.task))
        found = again.predict(tv.load_tasks("memory://tables/visits", **COLUMNS, lazy=True)).compute()
        np.testing.assert_array_equal(found.score.to_numpy(), here.predict(tv.load_tasks(frame, **COLUMNS)))


# ------------------------------------------------------------------ drivers


def fit_words(folder, scheduler, out: Path, url: str) -> list[str]:
    words = ["fit", str(folder), "--task", "task", "--target", "y", "--method", "low-rank", "--engine", f"dask:{scheduler}"]
    words += ["--set", "rounds=3", "--set", "local_steps=1"]
    return [*words, "--ledger", url, "--account", "wards", "--no-gain", "-o", str(out)]


def command(*words: str, **more: str) -> int:
    """Exit code of a command that is a process of its own; negative for the signal that ended it."""
    from tests.support.driver import command_line

    drivers = get_context("forkserver")
    drivers.set_forkserver_preload(["tests.support.driver"])  # imports take longer than the run
    driver = drivers.Process(target=command_line, args=(list(words), more))
    driver.start()
    driver.join(240)
    assert driver.exitcode is not None, "it hangs"
    return driver.exitcode


@pytest.mark.kills
@pytest.mark.timeout(600)
def test_a_command_that_was_killed_goes_on_with_resume_and_the_ledger(folder, tmp_path):
    """Killed when a round is charged and published, but not stored: it is paid for again, as far as the limit allows."""
    url, out = f"sqlite:///{tmp_path / 'budget.db'}", tmp_path / "model"
    book = Book(url)
    book.set_limit(Key("wards"), 2.0, 1e-5)
    with cluster(n_workers=1, processes=False, protocol="tcp://") as client:
        log = tmp_path / "points.log"
        killed = {"TASKVEIL_KILL_AT": "12", "TASKVEIL_KILL_LOG": str(log)}
        assert command(*fit_words(folder, client.scheduler.address, out, url), **killed) == -signal.SIGKILL
        assert log.read_text().split()[-1] == "billboard-00000.npz.renamed"
        (row,) = book.accounts()
        assert [e.release[:2] for e in book.rows(row.id) if e.kind == "commit"] == ["1/"] and not (out / "model.json").exists()
        assert command("fit", "--resume", str(out)) == 0
    saved = tv.load(out)
    commits = [e.release[:2] for e in book.rows(row.id) if e.kind == "commit"]
    assert commits == ["1/", "1/", "2/", "3/"] and len(saved.record_.executed) == 4
    certified = max(s.epsilon for s in saved.certificate_.statements)
    assert 1.0 < certified <= book.spent(Key("wards"))[0] <= 2.0
    book.close()


LOCAL = "from taskveil.cli.main import run; import sys; run(sys.argv[1:]) if __name__ == '__main__' else None"


@pytest.mark.kills
@pytest.mark.engine
@pytest.mark.timeout(600)
@pytest.mark.parametrize("how", ["a damaged file", "an interrupt"])
def test_a_command_with_workers_of_its_own_says_one_line(how, folder, tmp_path):
    """Workers write to the same terminal; what they and their nannies have to say is said by then."""
    source = written(table(), tmp_path / "table")
    (tmp_path / "run.py").write_text(LOCAL)
    words = ["fit", str(source), "--task", "task", "--target", "y", "--kind", "regression", "--engine", "dask"]
    if how == "a damaged file":
        path = source / "part-1.parquet"
        content = bytearray(path.read_bytes())
        content[4 : len(content) // 2] = bytes(len(content) // 2 - 4)
        path.write_bytes(bytes(content))
    else:
        words += ["--set", "rounds=100000", "--method", "low-rank"]
    started = subprocess.Popen(
        [sys.executable, str(tmp_path / "run.py"), *words, "-o", str(tmp_path / "model")],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    if how == "an interrupt":
        end = time.monotonic() + 120
        while not (tmp_path / "model" / "run" / "state.npz").exists() and time.monotonic() < end:
            time.sleep(0.1)
        os.killpg(started.pid, signal.SIGINT)  # as a terminal does, to workers too
    _, told = started.communicate(timeout=180)
    lines = [line for line in told.splitlines() if line and not line.startswith("Dask dashboard")]
    assert len(lines) == 1 and lines[0].startswith("taskveil: "), told
    assert started.returncode == (2 if how == "a damaged file" else 130)
