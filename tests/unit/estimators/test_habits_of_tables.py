"""Tables as people have them: indexed by the task, with days as tasks, refitted, routed, with one name too few."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.model_selection import GridSearchCV, cross_val_score

import taskveil as tv
from taskveil.errors import DataError, OptionError

RNG = np.random.default_rng(5)
N = 120
TABLE = pd.DataFrame({"site": np.repeat(list("abcdef"), 20), "age": RNG.normal(50, 9, N), "dose": RNG.normal(size=N)})
DAYS = (TABLE["age"] / 10 + TABLE["dose"] + RNG.normal(size=N)).rename("days")


def test_a_table_indexed_by_its_task_is_the_same_table():
    """The error listed the columns, and did not say that the one asked for was the index."""
    plain = tv.TaskRegressor("mean", epsilon=None, task_column="site").fit(TABLE, DAYS)
    indexed = TABLE.set_index("site")
    again = tv.TaskRegressor("mean", epsilon=None, task_column="site").fit(indexed, DAYS)
    assert np.array_equal(plain.coef_, again.coef_) and np.array_equal(plain.predict(TABLE), again.predict(indexed))
    several = TABLE.assign(days=DAYS, visit=range(N)).set_index(["site", "visit"])
    tasks = tv.load_tasks(several, task="site", target="days")
    assert tasks.feature_names == ("age", "dose") and tasks.n_tasks == 6


def test_a_day_is_one_task_whatever_file_or_column_it_comes_in(tmp_path):
    """A csv said 2024-01-31, Parquet 2024-01-31 00:00:00, an array 2024-01-31T00:00:00.000000: models knew none of the others."""
    day = pd.to_datetime("2024-01-31") + pd.to_timedelta(TABLE["site"].map("abcdef".index), unit="D")
    table = TABLE.assign(site=day, days=DAYS)
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    names = [tv.load_tasks(source, task="site", target="days").task_names for source in (*tmp_path.iterdir(), table)]
    est = tv.TaskRegressor("local", epsilon=None).fit(TABLE[["age", "dose"]], DAYS, task=day)
    assert {*names, est.task_names_} == {tuple(f"2024-{d}" for d in ("01-31", "02-01", "02-02", "02-03", "02-04", "02-05"))}
    est.task_names_ = tuple(f"{name} 00:00:00" for name in est.task_names_)  # as an earlier version called them
    assert np.isfinite(est.predict(TABLE[["age", "dose"]], task=day)).all()


def test_names_of_an_earlier_fit_are_forgotten():
    est = tv.TaskRegressor("local", epsilon=None).fit(TABLE[["age", "dose"]], DAYS, task=TABLE["site"])
    assert list(est.feature_names_in_) == ["age", "dose"]
    est.fit(TABLE[["age", "dose"]].to_numpy(), DAYS, task=TABLE["site"])
    assert not hasattr(est, "feature_names_in_")


def test_a_table_that_lacks_a_column_is_told_which():
    est = tv.TaskRegressor("local", epsilon=None, task_column="site").fit(TABLE, DAYS)
    with pytest.raises(DataError, match="missing: age"):
        est.predict(TABLE[["site", "dose"]])


def test_one_text_as_task_is_told_both_things_it_can_mean():
    est = tv.TaskRegressor("local", epsilon=None).fit(TABLE[["age", "dose"]], DAYS, task=TABLE["site"])
    with pytest.raises(DataError, match=r"task_column='a'.*\['a'\] \* len\(X\)"):
        est.predict(TABLE[["age", "dose"]], task="a")


def test_tasks_are_routed_to_splitter_and_estimator_alike():
    """With routing on, `task=` reached the estimator, and the splitter asked for `groups=` as well."""
    with sklearn.config_context(enable_metadata_routing=True):
        est = tv.TaskRegressor("local", epsilon=None).set_fit_request(task=True).set_score_request(task=True)
        X, task = TABLE[["age", "dose"]], TABLE["site"]
        scores = cross_val_score(est, X, DAYS, cv=tv.TaskKFold(2), params={"task": task})
        search = GridSearchCV(est, {"method": ["local", "mean"]}, cv=tv.TaskShuffleSplit(2)).fit(X, DAYS, task=task)
    assert np.isfinite(scores).all() and np.isfinite(search.best_score_)


def test_two_different_seeds_are_refused():
    with pytest.raises(OptionError, match="random_state is the name scikit-learn has for seed"):
        tv.TaskRegressor("local", epsilon=None, seed=1, random_state=2).fit(TABLE[["age", "dose"]], DAYS, task=TABLE["site"])


def test_exposures_of_zero_in_every_task_are_refused_and_not_taken_for_one():
    """Where every task had one, there was nobody to be set aside from, and each counted as exposure 1."""
    weeks = np.where(np.arange(N) % 20 == 0, 0.0, 2.0)
    est = tv.TaskRegressor("mean", loss="poisson", exposure=weeks, epsilon=1.0)
    with pytest.raises(DataError, match="every row needs a number above zero"):
        est.fit(TABLE[["age", "dose"]], RNG.poisson(2, N), task=TABLE["site"])


def test_impossible_times_in_every_task_are_called_times_and_events():
    """Events as 1 and 2, as some tools write them, were called missing, infinite or huge values of the target."""
    table = TABLE.assign(time=10.0, event=np.where(DAYS > 5, 2, 1))
    with pytest.raises(DataError, match="an event that is 0 or 1"):
        tv.load_tasks(table, task="site", target="time", event="event", kind="survival", unusable="set-aside")


def test_a_number_as_labels_is_told_to_be_a_regression():
    with pytest.raises(DataError, match="more than 100 different numbers.*kind='regression'"):
        tv.TaskClassifier(epsilon=None).fit(TABLE[["age", "dose"]], np.arange(N), task=TABLE["site"])
