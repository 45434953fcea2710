"""Clients, schedulers and workers as they are met: closed, asynchronous, silent, of another version, small, with many threads."""

from __future__ import annotations

import copy
import pickle
import socket
import time

import numpy as np
import pytest
from sklearn.base import clone
from tests.support.partitions import FEATURES, cluster, table, written
from tests.support.require import require

import taskveil as tv
from taskveil import methods
from taskveil.cli.main import run
from taskveil.errors import EnvironmentMissing, OptionError

COLUMNS = {"task": "task", "target": "y"}


@pytest.fixture(scope="module", autouse=True)
def dask_is_here():
    require("dask")


@pytest.fixture(scope="module")
def frame():
    return table()


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    return written(frame, tmp_path_factory.mktemp("table"))


def pickled(estimator):
    return pickle.loads(pickle.dumps(estimator))  # noqa: S301 (our own)


def estimator(name="mean", **more):
    options = {"epsilon": 2.0, "delta": 1e-3, "seed": 0, "insecure_noise_seed": 3, "runtime": "dask"}
    return tv.TaskRegressor(methods.get(name), **{**options, **more})


def lazy(folder, partitions=3):
    return tv.load_tasks(folder, **COLUMNS, lazy=True, partitions=partitions)


@pytest.fixture(scope="module")
def left_behind(folder):
    """An estimator whose client was closed after the fit."""
    with cluster(processes=False) as client:
        return estimator(client=client).fit(lazy(folder))


ASKED = {
    "fit": lambda est, frame, folder, place: est.fit(lazy(folder)),
    "predict": lambda est, frame, folder, place: est.predict(frame[FEATURES], frame.task),
    "predict lazy tasks": lambda est, frame, folder, place: est.predict(lazy(folder)),
    "save": lambda est, frame, folder, place: est.save(place / "model"),
    "gain": lambda est, frame, folder, place: est.gain_,
}


@pytest.mark.parametrize("what", ASKED)
def test_a_client_that_was_closed_is_one_line(what, left_behind, frame, folder, tmp_path):
    with pytest.raises(EnvironmentMissing, match="client is closed"):
        ASKED[what](left_behind, frame, folder, tmp_path)


def test_a_client_that_is_closed_in_the_middle_is_one_line(folder):
    with cluster(processes=False) as client, pytest.raises(EnvironmentMissing, match="scheduler is gone|client is closed"):
        estimator("low-rank", client=client, progress=lambda done, total: client.close()).fit(lazy(folder))


def test_an_asynchronous_client_is_refused(folder):
    """It answers with coroutines, which nobody waits for: the run would never begin, nor end."""
    import asyncio

    from distributed import Client

    async def fit(address):
        async with Client(address, asynchronous=True) as client:
            estimator(client=client).fit(lazy(folder))

    with cluster(processes=False) as client, pytest.raises(OptionError, match="asynchronous"):
        asyncio.run(fit(client.scheduler.address))


def test_an_address_that_listens_and_says_nothing_is_no_scheduler(folder, monkeypatch):
    monkeypatch.setattr("taskveil.runtime.dask.cluster.PATIENCE", "500ms")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(EnvironmentMissing, match="no Dask scheduler answers"):
            estimator(client=f"tcp://127.0.0.1:{silent.getsockname()[1]}").fit(lazy(folder))


@pytest.mark.kills
def test_a_worker_of_another_version_is_refused(folder):
    other = "import distributed.versions as v; v._version_cached = lambda package: '0.0.1'"
    with cluster(n_workers=1, preload=other) as client, pytest.raises(EnvironmentMissing, match="taskveil 0.0.1"):
        estimator(client=client).fit(lazy(folder))


def test_what_an_unlike_machine_cannot_read_or_import_is_one_line():
    from taskveil.runtime.dask.cluster import cluster_errors, gathered, submit

    with pytest.raises(EnvironmentMissing, match="cannot read our work"), cluster_errors():
        raise RuntimeError("Error during deserialization of the task graph. This frequently\noccurs ...")
    with pytest.raises(RuntimeError, match="its own"), cluster_errors():
        raise RuntimeError("its own")
    with cluster(n_workers=1, processes=False) as client, pytest.raises(EnvironmentMissing, match="lacks a package"):
        gathered(client, [submit(client, __import__, "a_package_of_no_one")])


def test_a_worker_without_room_is_refused_before_rows_are_read(folder):
    said = "may use 95 MiB of memory, and needs 512"
    with cluster(n_workers=1, processes=False, memory_limit="100MB") as small, pytest.raises(EnvironmentMissing, match=said):
        estimator(client=small).fit(lazy(folder))


def test_workers_whose_memory_stays_full_are_waited_for_as_if_they_were_absent(folder):
    import dask
    import distributed  # noqa: F401 (before its configuration is changed, which else goes with the change)

    full = {"distributed.worker.memory.pause": 1e-6, "taskveil.wait-for-workers": 0.5}
    with dask.config.set(full), cluster(n_workers=1, processes=False) as client:
        (worker,) = client.cluster.workers.values()
        while worker.status.name != "paused":
            time.sleep(0.01)
        with pytest.raises(EnvironmentMissing, match="none with memory left"):
            estimator(client=client).fit(lazy(folder))


@pytest.mark.parametrize("name", ["together", "low-rank"])
def test_workers_of_several_threads_and_more_of_them_than_partitions_give_the_same_bits(name, frame, folder):
    from distributed import Client, LocalCluster

    here = estimator(name, runtime="in_process").fit(tv.load_tasks(frame, **COLUMNS))
    options = {"n_workers": 3, "threads_per_worker": 4, "processes": False, "dashboard_address": None}
    with LocalCluster(**options) as local, Client(local) as client:
        for partitions in (1, 7, 100):
            there = estimator(name, client=client).fit(lazy(folder, partitions))
            np.testing.assert_array_equal(here.coef_, there.coef_.compute())


def test_a_new_task_adapts_models_in_partitions_as_those_in_memory(frame, folder, tmp_path):
    new = frame[frame.task == frame.task.iloc[0]]
    here = estimator("subspace", runtime="in_process").fit(tv.load_tasks(frame, **COLUMNS))
    alike = here.adapt(new[FEATURES], new.y, "new").coef_
    with cluster(processes=False) as client:
        there = estimator("subspace", client=client).fit(lazy(folder))
        np.testing.assert_array_equal(there.adapt(new[FEATURES], new.y, "new").coef_, alike)
        there.save(tmp_path / "model")
    np.testing.assert_array_equal(tv.load(tmp_path / "model").adapt(new[FEATURES], new.y, "new").coef_, alike)


def test_copies_share_the_client_and_models_on_a_cluster_are_not_copied(frame, folder, tmp_path):
    with cluster(processes=False) as client:
        est = estimator(client=client)
        assert clone(est).client is client is est.client and pickled(est).client is None
        est.fit(lazy(folder))
        for copied in (pickle.dumps, copy.deepcopy):
            with pytest.raises(OptionError, match="est.save"):
                copied(est)
        est.save(tmp_path / "model")
    again = tv.load(tmp_path / "model")
    asked = frame[FEATURES], frame.task
    np.testing.assert_array_equal(pickled(again).predict(*asked), again.predict(*asked))


def test_the_link_to_the_dashboard_is_printed(folder, capfd):
    from distributed import LocalCluster

    with LocalCluster(n_workers=1, processes=False, protocol="tcp://", dashboard_address=":0") as local:
        words = ["fit", str(folder), "--task", "task", "--target", "y", "--method", "mean"]
        with pytest.raises(SystemExit) as ended:
            run([*words, "--engine", f"dask:{local.scheduler_address}"])
        assert not ended.value.code
        assert f"Dask dashboard: {local.dashboard_link}\n" in capfd.readouterr().err
