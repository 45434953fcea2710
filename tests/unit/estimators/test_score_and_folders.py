"""What goes wrong around a fitted model is said in one line, and a score that fails inside a search is said aloud."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.errors import DataError, OptionError


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    tasks = related_tasks(n_tasks=4, rows=(12, 12))
    return tasks.X, tasks.y, np.repeat(tasks.task_names, tasks.sizes)


@pytest.fixture(scope="module")
def fitted(rows):
    X, y, task = rows
    return tv.TaskRegressor("mean", epsilon=None).fit(X, y, task=task)


def test_a_score_needs_one_target_per_row(rows, fitted):
    X, y, task = rows
    with pytest.raises(DataError, match="y has 5 values for 48 rows of X"):
        fitted.score(X, y[:5], task=task)
    with pytest.raises(DataError, match="score needs y"):
        fitted.score(X, task=task)


def test_rows_without_a_target_do_not_count_in_a_score(rows, fitted):
    X, y, task = rows
    gaps = np.where(np.arange(len(y)) % 7, y, np.nan)
    there = np.isfinite(gaps)
    with pytest.warns(UserWarning, match="7 of 48 rows have no target"):
        found = fitted.score(X, gaps, task=task, sample_weight=np.arange(48.0))
    assert found == fitted.score(X[there], y[there], task=task[there], sample_weight=np.arange(48.0)[there])


def test_a_search_that_cannot_score_says_what_to_do(rows):
    """scikit-learn makes nan of it and names a winner all the same; its own warning buries the reason in a traceback."""
    X, y, task = rows
    search = GridSearchCV(tv.TaskRegressor("local", epsilon=None), {"method__strength": [0.1, 1.0]}, cv=2)
    with pytest.warns(UserWarning, match="^score failed, and a search .* nan .*task_column="):
        search.fit(X, y, task=task)


@pytest.mark.parametrize("folder", [None, 3, ""])
def test_a_folder_is_a_path(fitted, folder):
    for call in (tv.load, fitted.save):
        with pytest.raises(OptionError, match="the folder of a model must be the path of a file or folder"):
            call(folder)


def test_a_model_is_not_saved_onto_a_file(fitted, tmp_path):
    (tmp_path / "taken").write_text("mine")
    for place in (tmp_path / "taken", tmp_path / "taken" / "inside"):
        with pytest.raises(DataError, match="cannot hold a model"):
            fitted.save(place)
    assert (tmp_path / "taken").read_text() == "mine"


def test_a_newcomer_reads_its_error_in_the_targets_units(rows):
    """The unit of its scaled target is its own deviation; one number for both is the RMSE over held-out rows."""
    X, y, task = rows
    est = tv.TaskRegressor("mean", epsilon=None).fit(X, 100.0 * y, task=task)
    (found,) = est.adapt(X[:12], 100.0 * y[:12], name="late").gain_.to_dict().values()
    scale = np.std(100.0 * y[:12])
    np.testing.assert_allclose(found["typical_error_alone"], scale * np.sqrt(found["error_alone"]), rtol=1e-9)


def test_a_summary_does_not_say_that_a_kept_shared_model_was_left():
    from taskveil.estimators.summary import gain_verdict

    worse = {"error_alone": 1.0, "error_shared": 1.1}
    assert "learnt alone" not in gain_verdict({"a": {**worse, "kept": "shared"}})
    assert "the only task keeps the model it learnt alone" in gain_verdict({"a": {**worse, "kept": "alone"}})
    both = {name: {**worse, "kept": "alone"} for name in "ab"}
    assert "each keeps the model it learnt alone" in gain_verdict(both)
