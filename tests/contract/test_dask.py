"""On a Dask cluster every method gives the models it gives in process, bit for bit, whatever the partitions and who dies."""

from __future__ import annotations

import os
import signal
import time

import numpy as np
import pandas as pd
import pytest
from tests.support.partitions import FEATURES, cluster, table, written
from tests.support.require import require

import taskveil as tv
from taskveil import methods
from taskveil.errors import DataError, EnvironmentMissing, OptionError

COLUMNS = {"task": "task", "target": "y"}
EXACT = ["together", "subspace", "mean", "low-rank", "group-sparse", "pooled", "relationship"]


@pytest.fixture(scope="module")
def client():
    """Workers as threads of this process: they run the same compiled code, so that bits can be compared."""
    require("dask")
    with cluster(processes=False) as client:
        yield client


@pytest.fixture(scope="module")
def frame():
    return table()


@pytest.fixture(scope="module")
def folder(frame, tmp_path_factory):
    return written(frame, tmp_path_factory.mktemp("table"))


def estimator(name, epsilon=2.0, kind=tv.TaskRegressor, **more):
    noise = None if epsilon is None else 3
    return kind(methods.get(name), **{"epsilon": epsilon, "delta": 1e-3, "seed": 0, "insecure_noise_seed": noise, **more})


def lazy(folder, partitions=3, **more):
    return tv.load_tasks(folder, **COLUMNS, lazy=True, partitions=partitions, **more)


def bits(here, there) -> None:
    np.testing.assert_array_equal(here.coef_, there.coef_.compute())
    np.testing.assert_array_equal(here.intercept_, there.intercept_.compute())
    for a, b in zip(here.record_.billboards, there.record_.billboards, strict=True):
        assert all(np.array_equal(a.values[name], b.values[name]) for name in a.values)


@pytest.mark.parametrize("name", EXACT)
def test_a_method_gives_the_same_bits_in_process_and_on_a_cluster(name, frame, folder, client):
    here = estimator(name).fit(tv.load_tasks(frame, **COLUMNS))
    for partitions in (1, 5):
        bits(here, estimator(name, runtime="dask", client=client).fit(lazy(folder, partitions)))


@pytest.mark.parametrize("name", ["pooled", "together", "mean"])
def test_without_noise_too(name, frame, folder, client):
    here = estimator(name, epsilon=None).fit(tv.load_tasks(frame, **COLUMNS))
    bits(here, estimator(name, epsilon=None, runtime="dask", client=client).fit(lazy(folder)))


@pytest.mark.parametrize("name", ["dp-aggr", "low-rank"])
def test_without_noise_tasks_weigh_what_those_of_all_partitions_say(name, frame, folder, client):
    here = estimator(name, epsilon=None).fit(tv.load_tasks(frame, **COLUMNS))
    there = estimator(name, epsilon=None, runtime="dask", client=client).fit(lazy(folder))
    np.testing.assert_allclose(here.coef_, there.coef_.compute(), rtol=1e-6, atol=1e-9)
    assert here.models_.kept is not None


@pytest.mark.parametrize(("name", "more"), [("together", {}), ("mean", {"rounds": 2}), ("pooled", {})])
def test_records_and_their_coins_too(name, more, frame, folder, client):
    bounds = {"features": {c: [-4, 4] for c in FEATURES}, "target": [-10, 10]}
    options = {"unit": "record", "delta": 1e-6, "epsilon": 2.0, "insecure_noise_seed": 3}
    method = methods.get(name, **more)
    here = tv.TaskRegressor(method, **options).fit(tv.load_tasks(frame, **COLUMNS, bounds=bounds))
    there = tv.TaskRegressor(method, runtime="dask", client=client, **options)
    bits(here, there.fit(lazy(folder, bounds=bounds)))


def test_classes_and_unsorted_files_too(client, tmp_path):
    frame = table(kind="classification", shuffled=True, classes=3)
    here = estimator("mean", kind=tv.TaskClassifier).fit(tv.load_tasks(frame, **COLUMNS))
    there = estimator("mean", kind=tv.TaskClassifier, runtime="dask", client=client).fit(lazy(written(frame, tmp_path), 6))
    bits(here, there)
    assert any("not sorted by task" in note for note in there.warnings_)


def test_a_task_that_holds_nearly_all_rows_too(client, tmp_path):
    frame = table(n_tasks=9, rows=(2, 6))
    uneven = pd.concat([frame, *[frame[frame.task == "site-4"]] * 200], ignore_index=True)
    here = estimator("together").fit(tv.load_tasks(uneven, **COLUMNS))
    bits(here, estimator("together", runtime="dask", client=client).fit(lazy(written(uneven, tmp_path, rows=300), 4)))


NEURAL = [
    ("mean", {"model": {"name": "mlp", "hidden": (4,)}, "rounds": 2, "personalise": "none"}, "even"),
    pytest.param("fedavg", {"rounds": 2}, "regression", marks=pytest.mark.engine),
    pytest.param("mean", {"model": "mlp", "rounds": 2}, "classification", marks=pytest.mark.engine),
    pytest.param("fedavg", {"rounds": 2, "adaptive_clip": 0.5, "rate": 0.5}, "regression", marks=pytest.mark.engine),
    pytest.param("shared-representation", {"rounds": 2}, "regression", marks=pytest.mark.engine),
]


@pytest.mark.parametrize(("name", "more", "kind"), NEURAL)
def test_neural_models_are_the_same_to_the_last_digit_of_float32(name, more, kind, client, tmp_path):
    """Sums are exact wherever they are made; XLA may order one client's arithmetic by how many are computed at once."""
    pytest.importorskip("jax")
    rows, kind = ((8, 8), "regression") if kind == "even" else ((6, 12), kind)  # even partitions compile once
    frame = table(n_tasks=12, rows=rows, kind=kind)
    classes = {"regression": tv.TaskRegressor, "classification": tv.TaskClassifier}
    options = {"epsilon": 4.0, "delta": 1e-3, "seed": 0, "insecure_noise_seed": 3}
    here = classes[kind](methods.get(name, **more), **options).fit(tv.load_tasks(frame, **COLUMNS))
    there = classes[kind](methods.get(name, **more), runtime="dask", client=client, **options)
    there.fit(lazy(written(frame, tmp_path / "table"), 3))
    for a, b in zip(here.record_.billboards, there.record_.billboards, strict=True):
        np.testing.assert_allclose(a.values["mean"], b.values["mean"], rtol=1e-5, atol=2e-6)
    there.save(tmp_path / "model")
    again, asked = tv.load(tmp_path / "model"), (frame[FEATURES], frame.task)
    params = again.models_.take(np.arange(12))[0].models.extra["params"]
    np.testing.assert_allclose(params, here.models_.extra["params"], rtol=1e-4, atol=1e-5)
    found = there.predict(lazy(tmp_path / "table", 2)).compute()
    for scores in (again.predict(*asked), found["label" if kind == "classification" else "score"].to_numpy()):
        close = (
            scores == here.predict(*asked) if kind == "classification" else np.isclose(scores, here.predict(*asked), 1e-4, 1e-4)
        )
        assert close.mean() > 0.98


def test_a_planted_sum_in_floats_is_noticed(frame, folder, client, monkeypatch):
    """The twin: without the integer grid the number of partitions shows in the last bits."""
    from taskveil.privacy import contribution
    from taskveil.privacy.partial_sums import Partial

    monkeypatch.setattr(contribution.VectorSum, "_partial", lambda self, messages: Partial((messages.sum(axis=0),)))
    monkeypatch.setattr(contribution.VectorSum, "_total", lambda self, partial: np.asarray(partial.parts[0]))
    what, rng = contribution.VectorSum((5,), 1.0), np.random.default_rng(0)
    messages = what.clip(rng.standard_normal((1000, 5))).value
    totals = [
        what.total(contribution.seal_partials(what, [what.partial(what.clip(part)) for part in np.array_split(messages, k)]))
        for k in range(1, 12)
    ]
    assert any(not np.array_equal(total, totals[0]) for total in totals)


def test_tasks_in_memory_are_cut_into_partitions(frame, client):
    tasks = tv.load_tasks(frame, **COLUMNS)
    bits(estimator("subspace").fit(tasks), estimator("subspace", runtime="dask", client=client).fit(tasks))


def test_a_cluster_is_told_how_large_partitions_are(frame):
    """It moves them and puts them on disk by that; the twin: a plain object counts for nothing, whatever it holds."""
    require("dask")
    from dask.sizeof import sizeof

    from taskveil.estimators.partitioned.worker import Part
    from taskveil.methods.base import Models
    from taskveil.runtime.dask.worker import Own
    from taskveil.tasks import TaskBlock, fit_scaling

    tasks = tv.load_tasks(frame, **COLUMNS)
    block, scaling = TaskBlock.from_tasks(tasks), fit_scaling(tasks, "own")
    models = Models(np.zeros((tasks.n_tasks, 1, 5)), np.zeros((tasks.n_tasks, 1)))
    units = scaling.shift.nbytes + scaling.scale.nbytes
    assert block.X.nbytes + units < sizeof(Own(block, scaling)) < 2 * (block.X.nbytes + units)
    assert sizeof(Part(models, scaling)) > models.coef.nbytes + units > 10 * sizeof(models)
    common = fit_scaling(tasks, "none")  # the same for all tasks, and kept once
    assert sizeof(Own(block, common)) < sizeof(Own(block, scaling)) - units / 2


def test_partitions_are_asked_there_and_back_again(client):
    """In one order every time, a worker whose memory holds all but one would read each from disk before it is asked."""
    from taskveil.runtime.dask.partitions import Partitions

    asked, partitions = [], Partitions(client, [None] * 4, np.arange(5), None)

    def ask(k):
        asked.append(k)
        return k

    assert [partitions.sweep(ask) for _ in range(3)] == [[0, 1, 2, 3]] * 3
    assert asked == [3, 2, 1, 0, 0, 1, 2, 3, 3, 2, 1, 0]


def kill_one(client) -> int:
    """SIGKILL for a worker that answers and whose nanny knows that it runs: killed before that, it would not be started again."""
    end = time.monotonic() + 600
    while time.monotonic() < end:
        alive = client.run(os.getpid, on_error="ignore").values()
        nannies = [nanny for nanny in client.cluster.workers.values() if nanny.process is not None and nanny.pid in alive]
        for pid in [nanny.pid for nanny in nannies if nanny.process.status.name == "running"]:
            os.kill(pid, signal.SIGKILL)
            return pid
        time.sleep(0.2)
    raise AssertionError("no worker came back")


@pytest.mark.kills
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("rounds", [2, pytest.param(10, marks=[pytest.mark.engine, pytest.mark.faults])])
def test_a_worker_killed_in_every_round_changes_and_charges_nothing(rounds, frame, folder, tmp_path):
    require("dask")
    from taskveil.privacy.ledger import Book, Key

    url, killed = f"sqlite:///{tmp_path / 'budget.db'}", []
    book = Book(url)
    book.set_limit(Key("wards"), 2.0, 1e-3)
    method = methods.get("low-rank", rounds=rounds, local_steps=1)
    options = {"epsilon": 2.0, "delta": 1e-3, "insecure_noise_seed": 3}
    here = tv.TaskRegressor(method, **options).fit(tv.load_tasks(frame, **COLUMNS))
    with cluster() as client:

        def kill(done, total):
            if done % 4 == 1:  # the first of 4 partitions has answered: the round is going on
                killed.append(kill_one(client))

        there = tv.TaskRegressor(
            method, runtime="dask", client=client, ledger=url, account="wards", progress=kill, **options
        ).fit(lazy(folder, 4))  # fmt: skip
        bits(here, there)
    assert len(killed) >= rounds and len(set(killed)) == len(killed)
    (row,) = book.accounts()
    commits = [e for e in book.rows(row.id) if e.kind == "commit"]
    assert len(commits) == len(here.record_.plan.releases) == rounds


def test_models_stay_in_partitions_when_saved_loaded_and_asked(frame, folder, client, tmp_path):
    here = estimator("mean").fit(tv.load_tasks(frame, **COLUMNS))
    there = estimator("mean", runtime="dask", client=client).fit(lazy(folder))
    for place in (str(tmp_path / "model"), f"file://{tmp_path}/address"):
        there.save(place)
        again = tv.load(place)
        np.testing.assert_array_equal(again.coef_.compute(), here.coef_)
        asked = frame[FEATURES], frame.task
        np.testing.assert_array_equal(again.predict(*asked), here.predict(*asked))
    assert sorted(p.name for p in (tmp_path / "model" / "parts").iterdir()) == [f"part-{k:05d}.parquet" for k in range(3)]
    gain = there.gain_.compute()
    np.testing.assert_array_equal(gain.error_shared, here.gain_.to_frame().error_shared)
    assert "scheduler and workers are part of the curator" in " ".join(there.certificate_.assumptions)
    check_certificate(tmp_path / "model")


def check_certificate(folder):
    """A saved run in partitions is checked like any other; a changed part is noticed."""
    from taskveil.estimators.check_folder import check_folder

    assert not [p for p in check_folder(folder).problems if "seed" not in p and "noise" not in p]
    part = folder / "parts" / "part-00001.parquet"
    part.write_bytes(part.read_bytes()[:-8] + b"00000000")
    assert any("part-00001.parquet" in p for p in check_folder(folder).problems)
    with pytest.raises(DataError, match="part-00001"):
        tv.load(folder).coef_.compute()


def test_lazy_tasks_are_predicted_where_they_are(frame, folder, client):
    there = estimator("mean", runtime="dask", client=client).fit(lazy(folder))
    found = there.predict(lazy(folder, 4)).compute()
    whole = tv.load_tasks(frame, **COLUMNS)
    np.testing.assert_array_equal(found.score.to_numpy(), there.predict(whole))


def test_models_can_be_saved_to_an_address(frame, folder):
    require("dask")
    with cluster(processes=False) as client:  # memory:// lives in one process
        there = estimator("mean", runtime="dask", client=client).fit(lazy(folder))
        there.save("memory://models/one")
        np.testing.assert_array_equal(tv.load("memory://models/one").coef_.compute(), there.coef_.compute())
    with pytest.raises(DataError, match="not a saved model"):
        tv.load("memory://models/two")


@pytest.mark.parametrize(("name", "more"), [
    ("async", {}), ("subspace", {"aggregation": "local"}), ("low-rank", {"variant": "paper"}),
])  # fmt: skip
def test_what_does_not_run_on_a_cluster_says_so_before_anything_is_read(name, more, folder):
    require("dask")
    with pytest.raises(OptionError, match="runtime 'dask' does not run"):
        estimator(name, runtime="dask", client="tcp://127.0.0.1:1", unit=methods.get(name).units[0], **more).fit(lazy(folder))


def test_a_scheduler_that_is_not_there_is_one_line(folder, monkeypatch):
    require("dask")
    monkeypatch.setattr("taskveil.runtime.dask.cluster.PATIENCE", "1s")
    with pytest.raises(EnvironmentMissing, match="no Dask scheduler answers"):
        estimator("mean", runtime="dask", client="tcp://127.0.0.1:1").fit(lazy(folder))


@pytest.fixture
def short_wait():
    require("dask")
    import dask

    with dask.config.set({"taskveil.wait-for-workers": 0.5}):
        yield


def test_a_scheduler_without_workers_is_one_line(short_wait, folder):
    with cluster(n_workers=0, processes=False, protocol="tcp://") as empty:
        tasks = lazy(folder)
        for client in (empty, empty.scheduler.address):
            with pytest.raises(EnvironmentMissing, match="no workers for 0.5 s"):
                estimator("mean", runtime="dask", client=client).fit(tasks)


@pytest.mark.kills
@pytest.mark.engine
@pytest.mark.faults
def test_a_worker_that_starts_again_slowly_is_waited_for(short_wait, folder):
    with cluster(n_workers=1, preload="import time; time.sleep(3)") as client:
        killed = []

        def kill(done, total):
            if not killed:
                killed.append(kill_one(client))

        fitted = estimator("mean", runtime="dask", client=client, progress=kill).fit(lazy(folder))
        assert killed and np.isfinite(fitted.coef_.compute()).all()


def test_workers_that_leave_for_good_in_the_middle_are_one_line(short_wait, folder):
    """The twin is every other test here: while workers are there, nobody is impatient."""
    with cluster(n_workers=1, processes=False) as client:

        def leave(done, total):
            client.cluster.scale(0)

        with pytest.raises(EnvironmentMissing, match="no workers for"):
            estimator("low-rank", runtime="dask", client=client, progress=leave).fit(lazy(folder))
