"""Bounds declared on the estimator hold for the rows it trains on, however they came in."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import taskveil as tv
from taskveil.errors import DataError
from taskveil.estimators.inputs import Reading, tasks_of
from taskveil.tasks import TaskSet

BOUNDS = {"features": {"*": [-1, 1]}, "target": [-2, 2]}


def rows():
    rng = np.random.default_rng(0)
    X, task = 3 * rng.standard_normal((60, 2)), np.repeat(["a", "b", "c"], 20)
    return X, 5 * X[:, 0], task


@pytest.mark.parametrize("way", ["arrays", "dict", "task set", "task set with other bounds"])
def test_declared_bounds_clip_the_rows(way):
    X, y, task = rows()
    if way == "arrays":
        given = (X, y, task)
    elif way == "dict":
        given = ({t: (X[task == t], y[task == t]) for t in "abc"}, None, None)
    else:
        made = TaskSet.from_arrays(X, y, task, kind="regression")
        if way != "task set":
            made = replace(made, bounds=tv.load_tasks(made, bounds=(-9, 9)).bounds)
        given = (made, None, None)
    tasks = tasks_of(*given, None, Reading("regression", BOUNDS))
    np.testing.assert_array_equal(tasks.X, np.clip(X, -1, 1))
    np.testing.assert_array_equal(tasks.y, np.clip(y, -2, 2))
    assert any("clipped" in note for note in tasks.notes)


def test_declared_classes_hold_for_arrays_too():
    X, _, task = rows()
    y = np.arange(60) % 2
    assert tasks_of(X, y, task, None, Reading("classification", {"classes": [0, 1, 2]})).n_classes == 3
    with pytest.raises(DataError, match="outside the declared classes"):
        tasks_of(X, y, task, None, Reading("classification", {"classes": [0, 3]}))


def test_declared_bounds_come_back_with_a_saved_model(tmp_path):
    X, y, task = rows()
    est = tv.TaskRegressor(epsilon=None, method="mean", bounds=BOUNDS).fit(X, y, task=task)
    est.save(tmp_path)
    loaded = tv.load(tmp_path)
    assert loaded.bounds_ == est.bounds_
    again = loaded.adapt(X[:20], y[:20], "d").predict(X[:5], task=["d"] * 5)
    np.testing.assert_allclose(again, est.adapt(X[:20], y[:20], "d").predict(X[:5], task=["d"] * 5))
