"""Trouble around a run over partitions: full disks, killed writers, two drivers, folders that were used before, other data."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from tests.support.partitions import FEATURES, cluster, table, written
from tests.support.require import require
from tests.support.wrong import one_line

import taskveil as tv
from taskveil import methods
from taskveil.cli.main import run
from taskveil.errors import DataError, EnvironmentMissing
from taskveil.privacy.ledger import Book, Key
from taskveil.report import report_folder, write_report
from taskveil.report.audience import Audience

COLUMNS = {"task": "task", "target": "y"}
OPTIONS = {"epsilon": 2.0, "delta": 1e-3, "insecure_noise_seed": 3}


@pytest.fixture(scope="module")
def client():
    """A scheduler with an address and two workers, all threads of this process."""
    require("dask")
    with cluster(processes=False, protocol="tcp://") as client:
        yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return written(table(), tmp_path_factory.mktemp("table"))


def fitted(client, folder, name="mean", **more):
    tasks = tv.load_tasks(folder, **COLUMNS, lazy=True, partitions=3)
    return tv.TaskRegressor(name, runtime="dask", client=client, **{**OPTIONS, **more}).fit(tasks)


def command(capfd, *words) -> tuple[int, str]:
    """Exit code and words of a command."""
    with pytest.raises(SystemExit) as ended:
        run([str(word) for word in words])
    return int(ended.value.code or 0), capfd.readouterr().err


def fit_words(folder, client, out, *more) -> list:
    words = ["fit", folder, "--task", "task", "--target", "y", "--method", "mean", "--engine", f"dask:{client.scheduler.address}"]
    return [*words, "-o", out, *more]


def refused(code: int, said: str, words: str) -> None:
    last = words.strip().splitlines()[-1]
    assert said in last and "Traceback" not in words, words
    one_line(last)
    assert code


# ------------------------------------------------------------------ files


def test_a_disk_that_is_full_at_the_end_loses_no_models_and_charges_nothing_twice(client, folder, tmp_path, capfd):
    """Releases are paid for when models cannot be written; `--resume` writes them later and asks for no more."""
    url, out = f"sqlite:///{tmp_path / 'budget.db'}", tmp_path / "model"
    book = Book(url)
    book.set_limit(Key("wards"), 1.0, 1e-5)
    full = out / "parts" / f".part-00001.parquet.{os.getpid()}"  # where it is written before it gets its name

    def fill(*_):
        full.parent.mkdir(parents=True, exist_ok=True)
        full.symlink_to("/dev/full")

    filling = threading.Thread(target=_once, args=(lambda: (out / "run" / "plan.json").exists(), fill))
    filling.start()
    code, words = command(capfd, *fit_words(folder, client, out, "--ledger", url, "--account", "wards"))
    filling.join()
    assert code == 4
    refused(code, "No space left", words)
    spent = book.spent(Key("wards"))
    assert not full.exists()
    code, words = command(capfd, "fit", "--resume", out)
    assert code == 0, words
    assert book.spent(Key("wards")) == spent and spent[0] > 0
    assert np.isfinite(tv.load(out).coef_.compute()).all()
    book.close()


def _once(there, do) -> None:
    end = time.monotonic() + 60
    while not there() and time.monotonic() < end:
        time.sleep(0.005)
    do()


def test_a_place_that_cannot_be_written_is_refused_before_anything_is_read(client, folder, tmp_path, capfd):
    (tmp_path / "file").write_text("")
    code, words = command(capfd, *fit_words(folder, client, tmp_path / "file" / "model"))
    refused(code, "Not a directory", words)
    code, words = command(capfd, *fit_words(folder, client, "s3://bucket/model"))
    refused(code, "folder of this machine", words)
    assert "reading" not in words


def test_figures_of_an_older_run_do_not_stay_beside_new_models(client, folder, tmp_path):
    """The twin: with the run they belong to, they are on the page."""
    owner = Audience("owner", "site-20")
    first = fitted(client, folder, "subspace", epsilon=8.0)
    first.save(tmp_path / "model")
    write_report(first, tmp_path / "model")
    assert "no estimate of the gain" not in report_folder(tmp_path / "model", owner).read_text()
    fitted(client, folder, "subspace", epsilon=9.0).save(tmp_path / "model")
    assert "no estimate of the gain" in report_folder(tmp_path / "model", owner).read_text()


@pytest.mark.parametrize(("more", "measured"), [((), True), (("--no-gain",), False)])
def test_what_sharing_brought_is_measured_unless_told_otherwise(more, measured, client, folder, tmp_path, capfd):
    code, words = command(capfd, *fit_words(folder, client, tmp_path / "model", *more))
    assert code == 0, words
    assert bool(list((tmp_path / "model" / "parts").glob("gain-*"))) is measured
    assert (tmp_path / "model" / "report.html").exists()


def test_options_of_the_engine_without_it_are_refused(folder, capfd):
    for more in (["--no-gain"], ["--wait-for-workers", "5"]):
        code, words = command(capfd, "fit", folder / "part-0.parquet", "--task", "task", "--target", "y", *more)
        assert code == 2
        refused(code, "goes with --engine", words)


# ---------------------------------------------------------------- resume

HOLD = "import fcntl, sys, time; f = open(sys.argv[1], 'ab'); fcntl.lockf(f, fcntl.LOCK_EX); print(1, flush=True); time.sleep(99)"


def test_a_second_driver_in_one_run_folder_is_refused(client, folder, tmp_path):
    """The twin: once the first is gone, however it went, the folder is free."""
    (tmp_path / "run").mkdir()
    other = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "run" / "lock")], stdout=subprocess.PIPE)
    assert other.stdout is not None and other.stdout.read(1)
    with pytest.raises(DataError, match="in use by another process"):
        fitted(client, folder, run_dir=tmp_path / "run")
    assert not (tmp_path / "run" / "plan.json").exists()
    other.kill()
    other.wait()
    fitted(client, folder, run_dir=tmp_path / "run")


def test_a_run_is_resumed_with_its_own_rows_and_options_only(client, folder, tmp_path):
    fitted(client, folder, run_dir=tmp_path / "run")
    with pytest.raises(DataError, match="another plan"):
        fitted(client, folder, run_dir=tmp_path / "run", epsilon=1.0)
    frame = table()
    frame.loc[0, FEATURES[0]] += 1.0
    with pytest.raises(DataError, match="other rows"):
        fitted(client, written(frame, tmp_path / "other"), run_dir=tmp_path / "run")


@pytest.mark.kills
@pytest.mark.engine
@pytest.mark.faults
@pytest.mark.timeout(900)
def test_a_worker_killed_while_it_writes_models_leaves_no_half_file(folder, tmp_path):
    """The first writer hangs when its bytes are on disk but not yet in place, and is killed there."""
    require("dask")
    import pyarrow.parquet as pq

    here = tv.TaskRegressor(methods.get("mean"), **OPTIONS).fit(tv.load_tasks(table(), **COLUMNS))
    hangs, parts = tmp_path / "hangs", tmp_path / "model" / "parts"
    seen: list[str] = []
    with cluster(n_workers=2) as client:
        there = fitted(client, folder, methods.get("mean"))
        client.run(_hang_once, str(hangs))

        def kill() -> None:
            for path in parts.glob("*.parquet"):
                pq.ParquetFile(path).read()
            seen.extend(path.name for path in parts.iterdir() if path.name.startswith("."))
            os.kill(int(hangs.read_text()), signal.SIGKILL)

        killer = threading.Thread(target=_once, args=(lambda: hangs.exists() and hangs.read_text(), kill))
        killer.start()
        there.save(tmp_path / "model")
        killer.join()
    assert seen, "nobody was killed while writing"
    assert sorted(path.name for path in parts.iterdir()) == [f"part-{k:05d}.parquet" for k in range(3)]
    np.testing.assert_array_equal(tv.load(tmp_path / "model").coef_.compute(), here.coef_)


def _hang_once(marker: str) -> None:
    """On a worker: whoever is the first to bring a file to disk waits there, and says who it is."""
    sync = os.fsync

    def hang(descriptor: int) -> None:
        sync(descriptor)
        try:
            with open(marker, "x") as file:
                file.write(str(os.getpid()))
        except FileExistsError:
            return
        time.sleep(600)

    os.fsync = hang


# ----------------------------------------------------------------- places


@pytest.fixture
def working_elsewhere(client, tmp_path, monkeypatch):
    """Workers whose folder is another than the driver's, as those of `dask worker` are."""
    from taskveil.estimators.partitioned import worker

    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    real = worker.write_part

    def write_part(*given):
        os.chdir(tmp_path / "elsewhere")
        try:
            return real(*given)
        finally:
            os.chdir(tmp_path)

    monkeypatch.setattr(worker, "write_part", write_part)
    return tmp_path


def test_a_folder_is_named_from_where_the_driver_works(working_elsewhere, client, folder, monkeypatch):
    """Models that were written beside a worker would be missed; so would those of a folder whose name was relative."""
    there = fitted(client, folder)
    assert str(there.save("model")) == "model"
    again = tv.load("model")
    monkeypatch.chdir("/")
    np.testing.assert_array_equal(again.coef_.compute(), there.coef_.compute())
    assert not list((working_elsewhere / "elsewhere").iterdir())


def _to_a_disk_of_its_own(part, names, url) -> str:
    from taskveil.estimators.partitioned import worker

    return hashlib.sha256(worker.part_bytes(part, names)).hexdigest()


def _to_a_folder_that_is_not_there(part, names, url) -> str:
    from taskveil.estimators.partitioned import worker

    worker.put(url.replace("/parts/", "/of-another-machine/"), worker.part_bytes(part, names))
    return ""


@pytest.mark.parametrize("write", [_to_a_disk_of_its_own, _to_a_folder_that_is_not_there])
def test_models_on_disks_of_other_machines_are_missed_at_once(write, client, folder, tmp_path, monkeypatch):
    from taskveil.estimators.partitioned import worker

    there = fitted(client, folder)
    monkeypatch.setattr(worker, "write_part", write)
    with pytest.raises(EnvironmentMissing, match="not the same place for all machines"):
        there.save(tmp_path / "model")
    assert not (tmp_path / "model" / "model.json").exists()


def test_parts_of_an_older_run_do_not_stay_beside_new_ones(client, folder, tmp_path):
    fitted(client, folder).save(tmp_path / "model")
    few = tv.load_tasks(folder, **COLUMNS, lazy=True, partitions=2)
    tv.TaskRegressor("mean", runtime="dask", client=client, **OPTIONS).fit(few).save(tmp_path / "model")
    assert sorted(path.name for path in (tmp_path / "model" / "parts").iterdir()) == ["part-00000.parquet", "part-00001.parquet"]
    assert tv.load(tmp_path / "model").coef_.compute().shape == (23, 5)


def test_an_address_that_cannot_be_written_is_shown_without_its_keys(client, folder):
    there = fitted(client, folder)
    for do in (there.save, tv.load):
        with pytest.raises((EnvironmentMissing, DataError)) as caught:
            do("nowhere://me:s3cret@bucket/models?key=s3cret")
        assert "s3cret" not in str(caught.value)
    with pytest.raises(DataError, match="memory://bucket/none is not a saved model"):
        tv.load("memory://me:s3cret@bucket/none")
