"""A row without a target is left out and counted, wherever the table comes from; its task goes on with its other rows."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.errors import DataError

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    """Rows 4 and 40 have no target, and no row of site-02 has one; an empty cell here and there."""
    tasks = related_tasks(n_tasks=6, rows=(12, 12))
    frame = pd.DataFrame(tasks.X, columns=[f"f{j}" for j in range(tasks.n_features)])
    frame["site"], frame["days"] = np.repeat(tasks.task_names, tasks.sizes), tasks.y
    frame.loc[(frame.index.isin([4, 40])) | (frame["site"] == "site-02"), "days"] = np.nan
    return frame


def targets(kind: str, days: pd.Series) -> tuple[type, np.ndarray]:
    if kind == "labels":
        return tv.TaskClassifier, np.where(days.isna(), None, np.where(days > 0, "yes", "no"))
    if kind == "times":
        return tv.TaskSurvival, np.column_stack([np.where(days.isna(), np.nan, days > 0), days.abs() + 0.1])
    return tv.TaskRegressor, days.to_numpy()


@pytest.mark.parametrize("kind", ["numbers", "labels", "times"])
@pytest.mark.parametrize("epsilon", [None, 2.0])
def test_a_row_without_a_target_is_left_out_and_its_task_goes_on(table, kind, epsilon):
    """As if it had never been there; a task of such rows alone keeps its place, whoever looks at the list of tasks."""
    X, there = table.drop(columns=["site", "days"]), table["days"].notna().to_numpy()
    estimator, y = targets(kind, table["days"])
    est = estimator("mean", epsilon=epsilon, insecure_noise_seed=0).fit(X, y, task=table["site"])
    assert "14 of 72 rows were left out: 14 without a target ('y')" in est.warnings_
    assert "1 of 6 task(s) have no usable row: site-02" in est.warnings_
    told = {"site-00": 1, "site-02": 12, "site-03": 1}  # each owner its own, and nobody is set aside for it
    assert est.task_warnings_ == {name: (f"{n} of its rows have no target and were left out",) for name, n in told.items()}
    kept = est._tasks
    whole = estimator("mean", epsilon=epsilon, insecure_noise_seed=0)
    whole.fit(tv.TaskSet.from_arrays(
        X[there], y[there].astype(y.dtype if kind != "labels" else str), kept.task_of_row(), task_names=kept.task_names,
        kind=kept.kind, feature_names=kept.feature_names,
    ))  # fmt: skip
    np.testing.assert_array_equal(est.coef_, whole.coef_)


def test_csv_and_frame_leave_out_the_same_rows(table, tmp_path):
    frame = table.assign(ward=np.where(table.index % 2, "north", "south"))
    frame.loc[::5, "f0"] = np.nan
    frame.to_csv(tmp_path / "t.csv", index=False)
    options = {"epsilon": 1.0, "insecure_noise_seed": 0}
    tasks = tv.load_tasks(tmp_path / "t.csv", task="site", target="days", missing="impute-own", bad_rows="skip")
    ours = tv.TaskRegressor("mean", **options).fit(tasks)
    theirs = tv.TaskRegressor("mean", task_column="site", missing="impute-own", **options)
    theirs.fit(frame.drop(columns="days"), frame["days"])
    np.testing.assert_array_equal(theirs.coef_, ours.coef_)
    counted = "14 of 72 rows were left out: 14 without a target ('days')"
    assert counted in ours.warnings_ and counted in theirs.warnings_ and ours.task_warnings_ == theirs.task_warnings_


def test_where_rows_are_protected_their_number_is_public_and_none_is_left_out(table):
    bounds = {"features": {"*": [-9, 9]}, "target": [-9, 9]}
    with pytest.raises(DataError, match="every row needs a finite target"):
        est = tv.TaskRegressor("mean", unit="record", bounds=bounds, task_column="site")
        est.fit(table.drop(columns="days"), table["days"])


def test_the_certificate_does_not_tell_whether_a_target_was_missing(table):
    """What an observer gets must not depend on it: it is a fact about somebody's rows."""
    X, full = table.drop(columns="days"), table["days"].fillna(1.0)
    said = [
        tv.TaskRegressor("mean", task_column="site", insecure_noise_seed=0).fit(X, y).certificate_.assumptions
        for y in (full, table["days"])
    ]
    assert said[0] == said[1]


def test_a_task_with_negative_counts_is_told_so(table):
    counts = table["days"].abs().round().fillna(0.0)
    counts[0] = -1.0
    est = tv.TaskRegressor("mean", loss="poisson", task_column="site").fit(table.drop(columns="days"), counts)
    assert list(est.task_warnings_) == ["site-00"] and "negative counts" in est.task_warnings_["site-00"][0]
    with pytest.raises(DataError, match="must not be negative"):
        tv.TaskRegressor("mean", loss="poisson", epsilon=None, task_column="site").fit(table.drop(columns="days"), counts)
