"""What leaves a worker: clipped sums and what is public, each of them once; and logs without values of rows."""

from __future__ import annotations

import logging
import pickle
from collections import Counter
from dataclasses import fields, is_dataclass

import numpy as np
import pytest
from tests.support.partitions import FEATURES, cluster, table, written
from tests.support.require import require

import taskveil as tv
from taskveil import methods
from taskveil.errors import TaskveilError
from taskveil.estimators.partitioned import worker as partitioned
from taskveil.methods.base import Models
from taskveil.privacy.partial_sums import Partial
from taskveil.runtime.dask import cluster as dask_cluster
from taskveil.runtime.dask import partitions, worker

COLUMNS = {"task": "task", "target": "y"}
OPTIONS = {"epsilon": 2.0, "delta": 1e-3, "insecure_noise_seed": 3}
BOUNDS = {"features": {c: [-4, 4] for c in FEATURES}, "target": [-10, 10]}
SECRET = "patient-4711"


@pytest.fixture(scope="module")
def client():
    require("dask")
    with cluster(processes=False) as client:
        yield client


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return written(table(), tmp_path_factory.mktemp("table"))


def lazy(folder, **more):
    return tv.load_tasks(folder, **COLUMNS, lazy=True, partitions=3, **more)


@pytest.fixture
def arrived(client, monkeypatch):
    """Everything that reaches the driver: (what made it, the value)."""
    from distributed import Client, Future

    seen, gather, result = [], Client.gather, Future.result

    def watched(self, futures, *given, **more):
        values = gather(self, futures, *given, **more)
        seen.extend((future.key.rsplit("-", 5)[0], value) for future, value in zip(futures, values, strict=True))
        return values

    def fetched(self, *given, **more):
        seen.append((self.key.rsplit("-", 5)[0], result(self, *given, **more)))
        return seen[-1][1]

    monkeypatch.setattr(Client, "gather", watched)
    monkeypatch.setattr(Future, "result", fetched)
    return seen


def held(value) -> list:
    """All arrays and objects in a value."""
    if isinstance(value, dict):
        return [value, *(x for v in value.values() for x in held(v))]
    if isinstance(value, (list, tuple)):
        return [value, *(x for v in value for x in held(v))]
    if is_dataclass(value):
        return [value, *(x for f in fields(value) for x in held(getattr(value, f.name)))]
    return [value]


@pytest.mark.parametrize(("name", "unit"), [("together", "task"), ("low-rank", "task"), ("mean", "record")])
def test_only_clipped_sums_and_what_is_public_reach_the_driver(name, unit, client, folder, arrived):
    """No row, no model, no statistic of a task: a total of every round, and what is declared or a name."""
    bounds = {"bounds": BOUNDS} if unit == "record" else {}
    method = methods.get(name, **({"rounds": 2} if name != "together" else {}))
    options = {**OPTIONS, "unit": unit, "delta": 1e-3 if unit == "task" else 1e-6, "runtime": "dask", "client": client}
    there = tv.TaskRegressor(method, **options).fit(lazy(folder, **bounds))
    came = Counter(kind for kind, _ in arrived)
    rounds = len({planned.round for planned in there.record_.executed})
    assert came == {"about": 3, "common_scaling": 1, **({"add": rounds} if rounds else {})}
    for kind, value in arrived:
        if kind == "about":
            assert value == ((), "")  # nobody was set aside, and no fingerprint is taken where nothing is resumed
        if kind == "common_scaling":
            public = unit == "record"
            assert value.shift.shape == (int(public), 5) and len(value.y_shift) == int(public)
        if kind == "add":
            assert {type(x) for x in held(value)} <= {list, tuple, Partial, np.ndarray, bool, int}, value
            assert all(isinstance(partial, Partial) and not partial.stacked for partial in value)
            sums = [x for x in held(value) if isinstance(x, np.ndarray)]
            assert sums and not any(x.shape[:1] == (23,) for x in sums)
    assert not any(isinstance(x, Models) for _, value in arrived for x in held(value))


def test_the_spy_sees_a_model_that_is_asked_for(client, folder, arrived):
    """The twin of the test above."""
    there = tv.TaskRegressor("mean", runtime="dask", client=client, **OPTIONS).fit(lazy(folder))
    there.predict(table()[FEATURES], table().task)
    assert any(isinstance(x, Models) for _, value in arrived for x in held(value))


def test_every_release_is_drawn_from_one_total_once(client, folder, arrived, tmp_path):
    """A resumed run asks for no total of a round that is over: there is no second release of it, with other noise."""
    run = tv.TaskRegressor(
        methods.get("low-rank", rounds=3), runtime="dask", client=client, run_dir=tmp_path / "run", **OPTIONS
    )  # fmt: skip
    stopped: list[int] = []

    def stop(done, total):
        if done == total // 3 * 2 and not stopped:  # two of three rounds are stored
            stopped.append(done)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run.set_params(progress=stop).fit(lazy(folder))
    before = [pickle.dumps(value) for kind, value in arrived if kind == "add"]
    arrived.clear()
    run.set_params(progress=None).fit(lazy(folder))
    after = [pickle.dumps(value) for kind, value in arrived if kind == "add"]
    assert stopped and len(before) == 2 and len(after) == 1 and not set(before) & set(after)
    here = tv.TaskRegressor(methods.get("low-rank", rounds=3), **OPTIONS).fit(tv.load_tasks(table(), **COLUMNS))
    np.testing.assert_array_equal(run.coef_.compute(), here.coef_)


def test_what_is_computed_again_has_the_same_bits(folder):
    """A step, its sums and its models depend on rows, on what was published, and on nothing else."""
    from taskveil.estimators.partitioned.worker import prepare
    from taskveil.privacy.randomness import insecure_seeded_noise

    tasks = lazy(folder)
    est = tv.TaskRegressor(methods.get("low-rank", rounds=1), **OPTIONS).fit(tv.load_tasks(table(), **COLUMNS))
    record = est.record_
    common = worker.Common(est.method_, record.public, record.plan)
    rows = [piece.read(tasks.layout) for piece in tasks.pieces]

    def once():
        own = prepare(replaced(tasks), rows, est._rules(), False, None)
        wanted = [(planned, insecure_seeded_noise(3)) for planned in record.plan.releases]
        state, sums = worker.step(own, None, common, record.billboards[0], None, wanted, 0)
        return pickle.dumps((state, sums, worker.finish(own, state, common, record.billboards[-1], 0)))

    assert once() == once()


def replaced(tasks):
    """Who reads all of them as one partition."""
    return tasks.partitioned(1).reader(0)


def functions(module) -> list:
    return [value for value in vars(module).values() if callable(value) and hasattr(value, "__name__")]


def fail(*_):
    raise KeyError(SECRET)


@pytest.mark.parametrize("debug", [False, True])
def test_a_defect_is_logged_without_its_words(debug, client, caplog, monkeypatch):
    """Dask writes errors of workers into their logs and onto its pages; the twin: who debugs asks for the words."""
    if debug:
        monkeypatch.setenv("TASKVEIL_DEBUG", "1")
    with caplog.at_level(logging.INFO, logger="distributed"), pytest.raises((TaskveilError, KeyError)) as caught:
        dask_cluster.gathered(client, [dask_cluster.submit(client, fail)])
    told = caplog.text + str(caught.value) + repr(client.get_worker_logs()) + repr(client.get_scheduler_logs())
    assert ("fail-" in told) and (SECRET in told) is debug
    assert debug or "unexpected KeyError in worker.py" in str(caught.value)


def test_names_of_work_carry_nothing_of_a_task(client, folder):
    """They stand in logs and on Dask's pages."""
    there = tv.TaskRegressor("together", runtime="dask", client=client, **OPTIONS).fit(lazy(folder))
    names = client.run_on_scheduler(lambda dask_scheduler: [str(name) for name in dask_scheduler.tasks])
    words = {name.rsplit("-", 5)[0] for name in names}
    assert there.models_ is not None and {"prepare", "settle", "same"} <= words
    assert words - {"fail"} <= {
        function.__name__ for module in (worker, partitioned, partitions) for function in functions(module)
    }
