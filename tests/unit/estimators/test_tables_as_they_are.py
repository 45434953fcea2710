"""Columns that carry tasks, persons, dates: each is what its user means, or a sentence says what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.errors import DataError


@pytest.fixture(scope="module")
def table() -> tuple[pd.DataFrame, pd.Series]:
    tasks = related_tasks(n_tasks=5, rows=(10, 10))
    frame = pd.DataFrame(tasks.X[:, :2], columns=["age", "dose"])
    return frame.assign(site=np.repeat(tasks.task_names, tasks.sizes)), pd.Series(tasks.y, name="days")


def local(**options) -> tv.TaskRegressor:
    return tv.TaskRegressor("local", epsilon=None, **options)


def test_a_column_of_names_in_an_array_can_be_the_task(table):
    """What a ColumnTransformer hands on: an array of objects, numbers scaled, the task untouched."""
    X, y = table
    steps = ColumnTransformer([("scaled", StandardScaler(), ["age", "dose"])], remainder="passthrough")
    found = make_pipeline(steps, local(task_column=2)).fit(X, y).predict(X)
    np.testing.assert_allclose(found, local(task_column="site").fit(X, y).predict(X), atol=1e-8)


def test_a_person_column_is_no_feature_and_reaches_the_certificate(table, tmp_path):
    X, y = table
    named = X.assign(person=np.arange(len(X)) % 20)
    est = tv.TaskRegressor("mean", person="person", task_column="site", insecure_noise_seed=0).fit(named, y)
    given = tv.TaskRegressor("mean", person=named["person"], task_column="site", insecure_noise_seed=0).fit(X, y)
    assert est.feature_names_ == ("age", "dose") and est.certificate_.assumptions == given.certificate_.assumptions
    assert any("number of tasks a person is in" in said for said in est.certificate_.assumptions)
    est.save(tmp_path)
    for model in (est, tv.load(tmp_path)):
        np.testing.assert_array_equal(model.predict(named), given.predict(X))
    new = named[:10].drop(columns="site")
    late = est.adapt(new, y[:10], name="late")
    np.testing.assert_array_equal(late.predict(new), late.predict(new.drop(columns="person")))
    with pytest.raises(DataError, match="the person 'who' is not a column of X"):
        tv.TaskRegressor("mean", person="who", task_column="site").fit(X, y)


@pytest.mark.parametrize("values", [pd.date_range("2026-01-01", periods=50), pd.to_timedelta(np.arange(50), unit="D")])
def test_dates_and_times_are_neither_targets_nor_hashed(table, values):
    X, y = table
    with pytest.raises(DataError, match="column 'when' holds dates or times"):
        local(task_column="site").fit(X.assign(when=values), y)
    with pytest.raises(DataError, match="the target holds dates or times"):
        local(task_column="site").fit(X, pd.Series(values))


def test_the_name_of_a_column_is_not_a_task(table):
    X, y = table
    with pytest.raises(DataError, match="use task_column='site'"):
        local().fit(X, y, task="site")


def test_a_search_reads_its_table_as_a_fit_does(table):
    X, y = table
    gaps = y.where(np.arange(len(y)) != 3)
    with pytest.warns(UserWarning, match="1 of 50 rows were left out"):
        search = tv.TaskSearch(tv.TaskRegressor("mean", epsilon=4.0, task_column="site"), {"method__strength": [0.1, 1.0]})
        search.fit(X.assign(ward=np.where(X.index % 2, "a", "b")), gaps)
    assert search.best_estimator_.task_warnings_ == {"site-00": ("1 of its rows have no target and were left out",)}


@pytest.mark.timeout(60)
def test_a_name_or_a_number_as_text_is_not_a_hundred_classes(table):
    """Each row its own label made one model per row and task: a fit without an end."""
    X, _ = table
    many = pd.concat([X] * 3, ignore_index=True)
    names = pd.Series([f"patient {i}" for i in range(len(many))], name="who")
    for epsilon in (None, 1.0):
        with pytest.raises(DataError, match="'who' has more than 100 different labels"):
            tv.TaskClassifier("mean", epsilon=epsilon, task_column="site").fit(many, names)
    loaded = tv.load_tasks(many.assign(who=names), task="site", target="who", positive="patient 3")
    assert tv.TaskClassifier("local", epsilon=None).fit(loaded).classes_.tolist() == [0, 1]
