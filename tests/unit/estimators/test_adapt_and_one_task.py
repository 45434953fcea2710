"""Whose rows are these? One task needs no name; many do."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
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


def test_an_adapted_estimator_with_a_task_column_predicts_a_table_without_one():
    frame = pd.DataFrame(TASKS.X, columns=["a", "b", "c"])
    named = frame.assign(site=np.repeat(TASKS.task_names, TASKS.sizes))
    est = tv.TaskRegressor("subspace", epsilon=1.0, task_column="site").fit(named, TASKS.y)
    adapted = est.adapt(frame[:6], TASKS.y[:6], name="late")
    assert np.isfinite(adapted.predict(frame[:6])).all()


def test_a_newcomer_is_called_what_its_column_says():
    """Its own table was an unknown task to the model that had been made of it."""
    frame = pd.DataFrame(TASKS.X, columns=list(TASKS.feature_names)).assign(site=np.repeat(TASKS.task_names, TASKS.sizes))
    est = tv.TaskRegressor("mean", task_column="site").fit(frame, TASKS.y)
    late = frame[:6].assign(site="late")
    adapted = est.adapt(late, TASKS.y[:6])
    assert adapted.task_names_ == ("late",)
    np.testing.assert_array_equal(adapted.predict(late), adapted.predict(late.drop(columns="site")))
    with pytest.raises(DataError, match="names several tasks"):
        est.adapt(frame, TASKS.y)


PLENTY = 1e6  # an epsilon at which eight tasks share something
ALIKE = replace(TASKS, y=TASKS.X.sum(axis=1) + 0.1 * TASKS.y)  # and something to share: `mean` publishes zeros else
BOUNDS = {"features": {n: [-4, 4] for n in TASKS.feature_names}, "target": [-20, 20]}


@pytest.mark.parametrize(("options", "works"), [
    ({"epsilon": PLENTY, "bounds": BOUNDS, "method": "mean"}, True),  # declared units: the billboard's mean fits anybody
    ({"epsilon": None, "method": "mean"}, True),  # nothing to protect: the mean of all models
    ({"epsilon": 1.0, "method": "mean"}, False),  # every task has units of its own
    ({"epsilon": None, "method": "local"}, False),  # nothing is shared
])  # fmt: skip
def test_an_unseen_task_is_predicted_wherever_something_public_fits_it(options, works):
    est = tv.TaskRegressor(**options).fit(ALIKE)
    if works:
        with pytest.warns(UserWarning, match="task late was not there in fit"):
            assert np.isfinite(est.predict(TASKS.X[:6], task=["late"] * 6)).all()
    else:
        with pytest.raises(DataError, match="taskveil adapt MODEL"):
            est.predict(TASKS.X[:6], task=["late"] * 6)


@pytest.mark.parametrize(("options", "levelled"), [
    ({"epsilon": PLENTY}, False),  # slopes alone are sent
    ({"epsilon": None}, True),  # the mean of all models has an intercept, declared units or not
    ({"epsilon": PLENTY, "fit_intercept": False}, True),
])  # fmt: skip
def test_a_prediction_without_a_public_level_says_so(options, levelled):
    """A stay of five days was predicted as ten, the middle of the declared range, without a word."""
    moved = replace(ALIKE, y=ALIKE.y + 12.0 * options.get("fit_intercept", True))
    est = tv.TaskRegressor("mean", bounds=BOUNDS, **options).fit(moved)
    with pytest.warns(UserWarning, match="was not there in fit") as said:
        found = est.predict(TASKS.X, task=["late"] * len(TASKS.X))
    assert ("slopes and no level: predictions lie around the middle" in str(said[-1].message)) != levelled
    if options == {"epsilon": None}:
        assert abs(found.mean() - 12.0) < 3.0


def test_what_the_message_advises_gives_an_unseen_task_a_level():
    """Single rows protected, within declared ranges: the published model has an intercept."""
    moved = replace(ALIKE, y=ALIKE.y + 12.0)
    est = tv.TaskRegressor(bounds=BOUNDS, unit="record", epsilon=50.0, insecure_noise_seed=0).fit(moved)
    with pytest.warns(UserWarning, match="was not there in fit: predicted by the model that is public$"):
        assert abs(est.predict(TASKS.X, task=["late"] * len(TASKS.X)).mean() - 12.0) < 3.0


def test_a_billboard_of_zeros_predicts_nobody():
    """What noise drowned is nothing: it gave the middle of the declared range to every row."""
    est = tv.TaskRegressor("mean", bounds=BOUNDS, epsilon=1e-3, insecure_noise_seed=0).fit(TASKS)
    est.record_.billboards[-1].values["mean"][:] = 0.0
    with pytest.raises(DataError, match="holds no model for a task without rows.*unit='record'"):
        est.predict(TASKS.X[:3], task=["late"] * 3)


def test_an_unseen_task_costs_other_tasks_nothing():
    """Planted twin: a prediction made from all tasks' private models would move with one of them."""
    one, two = (tv.TaskRegressor("mean", epsilon=PLENTY, bounds=BOUNDS, insecure_noise_seed=0).fit(ALIKE) for _ in range(2))
    two.models_.coef[0] += 5.0
    two._set_coefficients(two.method_, two.scaling_, two.models_)
    with pytest.warns(UserWarning):
        np.testing.assert_array_equal(one.predict(TASKS.X[:3], task=["late"] * 3), two.predict(TASKS.X[:3], task=["late"] * 3))


def test_a_newcomers_empty_cells_and_missing_targets_are_treated_as_in_fit():
    """What fit took, adapt refused: any empty cell was an error."""
    frame = pd.DataFrame(TASKS.X, columns=list("abc")).assign(site=np.repeat(TASKS.task_names, TASKS.sizes))
    est = tv.TaskRegressor("mean", epsilon=1.0, missing="impute-own", task_column="site").fit(frame, TASKS.y)
    late, y = frame[:8].drop(columns="site"), TASKS.y[:8].copy()
    late.loc[2, "b"], y[5] = np.nan, np.nan
    with pytest.warns(UserWarning, match="1 of 8 rows have no target and were left out"):
        adapted = est.adapt(late, y)
    own = late.drop(index=5)
    by_hand = est.adapt(own.fillna({"b": own["b"].median()}), y[own.index])
    np.testing.assert_allclose(adapted.coef_, by_hand.coef_)
    with pytest.raises(DataError, match="no row of the new task has a target"):
        est.adapt(late, np.full(8, np.nan))


def test_a_newcomers_rows_and_targets_are_counted_alike():
    est = tv.TaskRegressor("mean", epsilon=1.0).fit(TASKS)
    with pytest.raises(DataError, match="X has 6, y has 5"):
        est.adapt(TASKS.X[:6], TASKS.y[:5])


def test_a_task_that_is_known_by_the_same_number_is_asked_about():
    """A spreadsheet writes 101.0 where another file has 101: every row was taken for a newcomer's."""
    ids = np.repeat([f"{100 + i}.0" for i in range(TASKS.n_tasks)], TASKS.sizes)
    est = tv.TaskRegressor("mean", epsilon=None).fit(TASKS.X, TASKS.y, task=ids)
    with pytest.warns(UserWarning, match=r"task 101 \(did you mean '101.0'\?\) was not there in fit"):
        est.predict(TASKS.X[:2], task=["101", "101"])
    with pytest.warns(UserWarning, match="task 99 was not there"):
        est.predict(TASKS.X[:2], task=["99", "99"])
