"""On a cluster as in process, bit for bit: every method and unit, all units of the rows, and tables as they are met."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from tests.support.partitions import FEATURES, cluster, table, written
from tests.support.require import require

import taskveil as tv
from taskveil import methods
from taskveil.errors import OptionError

COLUMNS = {"task": "task", "target": "y"}
BOUNDS = {"features": {c: [-4, 4] for c in FEATURES}, "target": [-10, 10]}
CLASSES = {"regression": tv.TaskRegressor, "classification": tv.TaskClassifier}


@contextmanager
def workers(n: int, threads: int):
    from distributed import Client, LocalCluster

    options = {"n_workers": n, "threads_per_worker": threads, "processes": False, "dashboard_address": None}
    with LocalCluster(**options) as local, Client(local, set_as_default=False) as client:
        yield client


@pytest.fixture(scope="module")
def client():
    """Two workers of three threads, all of this process."""
    require("dask")
    with workers(2, 3) as client:
        yield client


@pytest.fixture(scope="module")
def slow():
    """One worker of one thread."""
    require("dask")
    with workers(1, 1) as client:
        yield client


def pair(method, frame, folder, clients, loading=None, kind="regression", partitions=(1, 2, 7), **options):
    """A fit of the files in memory, and one for each client and number of partitions."""
    options = {"epsilon": 2.0, "delta": 1e-3, "seed": 0, "insecure_noise_seed": 3, **options}
    loading, estimator = loading or {}, CLASSES[kind]
    here = estimator(method, **options).fit(tv.load_tasks(frame, **COLUMNS, **loading))
    for client in clients:
        for count in partitions:
            there = estimator(method, runtime="dask", client=client, **options)
            yield here, there.fit(tv.load_tasks(folder, **COLUMNS, lazy=True, partitions=count, **loading))


def fetched(fitted, lazy):
    """Computed by the client it was made with, whichever is the default."""
    return fitted.models_.client.compute(lazy).result()


def same_bits(here, there) -> None:
    np.testing.assert_array_equal(here.coef_, fetched(there, there.coef_))
    np.testing.assert_array_equal(here.intercept_, fetched(there, there.intercept_))
    for a, b in zip(here.record_.billboards, there.record_.billboards, strict=True):
        assert all(np.array_equal(a.values[name], b.values[name]) for name in a.values)
    assert here.scaling_.mode == there.scaling_.mode
    statements = [[s.to_dict() for s in fitted.certificate_.statements] for fitted in (here, there)]
    assert statements[0] == statements[1] and here.record_.executed == there.record_.executed


# ----------------------------------------------------------------- methods

TO_ROUNDING = {"low-rank-sparse", "mocha", "svm"}
FEWER_ROUNDS = {("mean", "record"), ("pooled", "record"), ("mocha", "task")}  # of which each is accounted for, or slow
CASES = [
    (name, str(unit)) for name in methods.names() for unit in methods.get(name).units
    if methods.get(name).linear and methods.get(name).schedule == "synchronous"
]  # fmt: skip


@pytest.mark.parametrize(("name", "unit"), CASES)
def test_every_linear_synchronous_method_and_unit(name, unit, client, tmp_path):
    frame = table(n_tasks=12, rows=(4, 12), kind="classification" if name == "svm" else "regression")
    method = methods.get(name, **({"rounds": 2} if (name, unit) in FEWER_ROUNDS else {}))
    loading = {"bounds": BOUNDS} if unit == "record" and name != "local" else {}
    kind = "classification" if name == "svm" else "regression"
    options = {"unit": unit, "delta": 1e-3 if unit == "task" else 1e-6, "kind": kind, "partitions": (4,)}
    for here, there in pair(method, frame, written(frame, tmp_path), [client], loading, **options):
        if name in TO_ROUNDING:
            np.testing.assert_allclose(fetched(there, there.coef_), here.coef_, rtol=1e-6, atol=1e-8)
        else:
            same_bits(here, there)


def test_every_method_that_cannot_run_says_so_or_runs():
    """No linear method is neither here nor refused, whatever is added later."""
    named = {name for name, _ in CASES}
    linear = {name for name in methods.names() if methods.get(name).linear}
    assert linear - named == {"async"} and len(named) >= 14


def test_spending_that_follows_the_evidence(client, tmp_path):
    """Both ends: something in common shows and all is spent, or nothing does and the rest is kept."""
    frame = table(n_tasks=40, rows=(20, 30))
    folder, spent = written(frame, tmp_path / "table"), []
    for epsilon in (100.0, 0.5):
        method = methods.get("subspace", spending="adaptive")
        for here, there in pair(method, frame, folder, [client], epsilon=epsilon, partitions=(5,)):
            same_bits(here, there)
            spent.append(len(there.record_.executed))
    assert spent[0] > spent[1] >= 1


# ------------------------------------------------------------------- units

UNITS = {
    "own": ("task", {"scaling": "own"}, {}),
    "declared": ("task", {"scaling": "declared"}, {"bounds": BOUNDS}),
    "bought": ("task", {"scaling": "private", "epsilon": 2000.0}, {}),
    "not bought": ("task", {"scaling": "private"}, {}),
    "rows": ("task", {"normalise": "row"}, {}),
    "without privacy": ("task", {"scaling": "private", "epsilon": None, "insecure_noise_seed": None}, {}),
    "declared records": ("record", {"scaling": "declared", "delta": 1e-6}, {"bounds": BOUNDS}),
    "bought records": ("record", {"scaling": "private", "delta": 1e-6, "epsilon": 100.0}, {"bounds": BOUNDS}),
    "not bought records": ("record", {"scaling": "private", "delta": 1e-6}, {"bounds": BOUNDS}),
}


@pytest.mark.parametrize("case", UNITS)
def test_whatever_units_rows_are_in(case, client, slow, tmp_path):
    unit, options, loading = UNITS[case]
    frame, seen = table(), set()
    options = {**options, "unit": unit, "partitions": (5,)}
    for here, there in pair(methods.get("together"), frame, written(frame, tmp_path), [client, slow], loading, **options):
        same_bits(here, there)
        seen.add(there.scaling_.mode)
        assert [w for w in here.warnings_ if "not bought" in w] == [w for w in there.warnings_ if "not bought" in w]
    if "bought" in case:
        assert (seen == {"private"}) is not case.startswith("not")


@pytest.mark.parametrize("scaling", ["own", "private"])
def test_weights_of_classes(scaling, client, tmp_path):
    frame = table(kind="classification", rows=(6, 30))
    more = {"class_weight": "balanced", "kind": "classification", "scaling": scaling}
    for here, there in pair(methods.get("mean"), frame, written(frame, tmp_path), [client], **more):
        same_bits(here, there)


def test_weights_of_rows_and_strictness_are_refused(client, tmp_path):
    """Both look at rows that the driver has not; the twin: tasks in memory are looked through before they are cut."""
    frame = table()
    lazy = tv.load_tasks(written(frame, tmp_path), **COLUMNS, lazy=True)
    est = tv.TaskRegressor("mean", runtime="dask", client=client, epsilon=2.0, delta=1e-3)
    with pytest.raises(OptionError, match="no sample_weight"):
        est.fit(lazy, sample_weight=np.ones(len(frame)))
    with pytest.raises(OptionError, match="strict=True looks into the rows"):
        est.set_params(strict=True).fit(lazy)
    with pytest.raises(tv.errors.DataError, match="strict: .*constant"):
        est.fit(tv.load_tasks(frame.assign(x1=1.0), **COLUMNS))


# ------------------------------------------------------------------ tables


def _text(frame: pd.DataFrame) -> pd.DataFrame:
    """Categories, words, flags, and holes in all kinds of columns."""
    frame = frame.assign(
        colour=np.where(frame.x0 > 0, "red", "blue"), grade=pd.Categorical(np.where(frame.x1 > 0, "u", "v")), flag=frame.x2 > 0
    )
    frame.loc[frame.index % 7 == 0, "x1"] = np.nan
    frame.loc[frame.index % 11 == 0, "colour"] = None
    return frame


def _narrow(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype({**dict.fromkeys(FEATURES, "float32"), "y": "float32"})


TABLES = {
    "float32": (lambda: _narrow(table()), {}),
    "tasks of a row": (lambda: table(n_tasks=17, rows=(1, 2)), {}),
    "text and holes": (lambda: _text(table()), {"missing": "impute-own"}),
    "rows in any order": (lambda: table(shuffled=True), {}),
    "tasks in falling order": (lambda: table().iloc[::-1].reset_index(drop=True), {}),
    "a task in two files": (lambda: table(n_tasks=2, rows=(50, 60)), {}),
    "numbers as tasks": (lambda: table().assign(task=lambda f: f.task.str[-2:].astype(float) / 4 - 2), {}),
}


@pytest.mark.parametrize("case", TABLES)
def test_whatever_the_table(case, client, tmp_path):
    make, loading = TABLES[case]
    frame = make()
    for here, there in pair(methods.get("together"), frame, written(frame, tmp_path), [client], loading):
        same_bits(here, there)
        found = there.predict(tv.load_tasks(tmp_path, **COLUMNS, lazy=True, partitions=3, **loading))
        whole = tv.load_tasks(frame, **COLUMNS, **loading)
        np.testing.assert_array_equal(fetched(there, found).score.to_numpy(), here.predict(whole))


@pytest.mark.engine
def test_workers_that_are_processes_agree(tmp_path):
    """Each loads the compiled loops anew."""
    require("dask")
    frame = table(dtype=np.float32)
    with cluster(n_workers=2) as client:
        for here, there in pair(methods.get("together"), frame, written(frame, tmp_path), [client], partitions=(2, 7)):
            same_bits(here, there)
