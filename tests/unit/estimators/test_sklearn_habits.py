"""The estimators behave as scikit-learn users expect."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import check_estimator
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.errors import DataError, OptionError


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    tasks = related_tasks(n_tasks=8, rows=(12, 18))
    frame = pd.DataFrame(tasks.X, columns=[f"f{j}" for j in range(tasks.n_features)])
    frame["hospital"] = np.repeat(tasks.task_names, tasks.sizes)
    frame["days"] = tasks.y
    return frame


def features(table: pd.DataFrame) -> pd.DataFrame:
    return table.drop(columns="days")


def test_clone_keeps_parameters_and_forgets_the_fit(table):
    est = tv.TaskRegressor(tv.methods.get("low-rank", rounds=3), epsilon=2.0, task_column="hospital")
    est.fit(features(table), table["days"])
    again = clone(est)
    assert again.get_params()["method__rounds"] == 3
    assert not hasattr(again, "coef_")


def test_fit_by_task_argument_and_by_task_column_agree(table):
    X, y = features(table), table["days"]
    one = tv.TaskRegressor("low-rank", insecure_noise_seed=1, task_column="hospital").fit(X, y)
    two = tv.TaskRegressor("low-rank", insecure_noise_seed=1).fit(X.drop(columns="hospital"), y, task=X["hospital"])
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.predict(X), two.predict(X.drop(columns="hospital"), task=X["hospital"]))


def test_a_pipeline_with_a_task_column_works(table):
    X, y = features(table), table["days"]
    pipe = Pipeline([("same", FunctionTransformer()), ("model", tv.TaskRegressor("local", epsilon=None, task_column="hospital"))])
    assert pipe.fit(X, y).score(X, y) > 0.5


def test_grid_search_reaches_into_the_method(table):
    X, y = features(table), table["days"]
    est = tv.TaskRegressor(tv.methods.get("low-rank"), epsilon=None, task_column="hospital")
    search = GridSearchCV(est, {"method__rounds": [2, 5]}, cv=KFold(3, shuffle=True, random_state=0)).fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def test_cross_val_score_takes_groups(table):
    X, y = features(table), table["days"]
    groups = np.arange(len(X)) % 4
    est = tv.TaskRegressor("local", epsilon=None, task_column="hospital")
    assert len(cross_val_score(est, X, y, groups=groups, cv=GroupKFold(4))) == 4


def test_sample_weight_is_refused(table):
    with pytest.raises(OptionError, match="sample_weight"):
        tv.TaskRegressor(task_column="hospital").fit(features(table), table["days"], sample_weight=np.ones(len(table)))


def test_feature_names_are_checked(table):
    X, y = features(table), table["days"]
    est = tv.TaskRegressor("local", epsilon=None, task_column="hospital").fit(X, y)
    with pytest.raises(DataError, match="feature names"):
        est.predict(X.rename(columns={"f0": "other"}))


def test_an_unknown_task_is_an_error_that_says_what_to_do(table):
    X, y = features(table), table["days"]
    est = tv.TaskRegressor("local", epsilon=None, task_column="hospital").fit(X, y)
    with pytest.raises(DataError, match="unknown task elsewhere.*adapt"):
        est.predict(X.assign(hospital="elsewhere"))


@pytest.mark.parametrize("name", ["low-rank", "group-sparse", "subspace"])
def test_adapt_gives_a_new_task_a_model_at_no_cost(name):
    tasks = related_tasks(n_tasks=30, rows=(15, 15), seed=1)
    X, y = tasks.X, np.asarray(tasks.y)
    ids = np.repeat(np.asarray(tasks.task_names), tasks.sizes)
    old = ids != "site-00"
    est = tv.TaskRegressor(name, epsilon=5.0, insecure_noise_seed=0).fit(X[old], y[old], task=ids[old])
    new = est.adapt(X[~old], y[~old], name="site-00")
    assert new.task_names_ == ("site-00",)
    assert np.isfinite(new.predict(X[~old], task=ids[~old])).all()
    assert new.certificate_ == est.certificate_


CHECKS_THAT_DO_NOT_APPLY = {
    "check_sample_weights_pandas_series": "sample_weight is refused",
    "check_sample_weights_not_an_array": "sample_weight is refused",
    "check_sample_weights_list": "sample_weight is refused",
    "check_sample_weights_shape": "sample_weight is refused",
    "check_sample_weights_not_overwritten": "sample_weight is refused",
    "check_sample_weight_equivalence_on_dense_data": "sample_weight is refused",
    "check_all_zero_sample_weights_error": "sample_weight is refused",
    "check_classifiers_one_label_sample_weights": "sample_weight is refused",
}


@pytest.mark.parametrize("kind", [tv.TaskRegressor, tv.TaskClassifier])
def test_check_estimator_on_the_parts_that_apply(kind):
    """Without tasks all rows are one task, and everything else follows scikit-learn's contract."""
    check_estimator(kind("local", epsilon=None), expected_failed_checks=CHECKS_THAT_DO_NOT_APPLY)
