"""Whose rows are these? One task needs no name; many do."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.errors import DataError

TASKS = related_tasks(n_tasks=8, rows=(10, 12), n_features=3)


def test_an_adapted_estimator_predicts_without_a_task_name():
    est = tv.TaskRegressor("subspace", epsilon=1.0).fit(TASKS)
    adapted = est.adapt(TASKS.X[:6], TASKS.y[:6], name="late")
    np.testing.assert_array_equal(adapted.predict(TASKS.X[:6]), adapted.predict(TASKS.X[:6], task=["late"] * 6))


def test_many_tasks_and_no_name_is_a_question():
    est = tv.TaskRegressor("subspace", epsilon=1.0).fit(TASKS)
    with pytest.raises(DataError, match="which task does each row belong to"):
        est.predict(TASKS.X[:6])


def test_a_fit_without_tasks_says_that_nothing_is_shared():
    est = tv.TaskRegressor("subspace", epsilon=1.0).fit(TASKS.X, TASKS.y)
    assert any("only one task" in note for note in est.warnings_)
