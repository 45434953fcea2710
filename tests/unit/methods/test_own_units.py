"""The last step of `mean` for records: own units, and a mean that noise could have made is doubted."""

import numpy as np
import pytest

import taskveil as tv
from taskveil.methods.mean_records import accumulated
from taskveil.methods.own_units import own_spread
from taskveil.tasks.block import TaskBlock

BOUNDS = {"features": {"*": [-100.0, 100.0]}, "target": [-3.0, 3.0]}


def rows(seed=0, tasks=6, each=40, signal=1.0):
    """Columns that use a thousandth and a tenth of their declared ranges; one constant."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((tasks * each, 3)) * [0.1, 10.0, 0.0]
    y = np.clip(signal * (X @ [5.0, 0.05, 0.0]) + 0.5 * rng.standard_normal(len(X)), -3.0, 3.0)
    return X, y, np.repeat(np.arange(tasks), each)


def fitted(X, y, task, epsilon):
    est = tv.TaskRegressor("mean", unit="record", epsilon=epsilon, bounds=BOUNDS, insecure_noise_seed=1)
    with pytest.warns(UserWarning):
        return est.fit(X, y, task=task)


def test_noise_accumulates_as_worked_out_by_hand():
    assert [accumulated(t) for t in (1, 2, 3)] == pytest.approx([1.0, 2.0, 1.0 + 1.25**2 + 1.0])


def test_a_mean_made_of_noise_is_doubted_and_tasks_learn_as_alone():
    X, y, task = rows()
    est = fitted(X, y, task, 1e-3)
    assert float(est.record_.billboards[-1].values["mean_doubt"]) < -3.0
    with pytest.warns(UserWarning):
        alone = tv.TaskRegressor("local", epsilon=None).fit(X, y, task=task)
    assert np.abs(est.predict(X, task=task) - alone.predict(X, task=task)).max() < 0.05


def test_a_clear_mean_is_not_doubted():
    rng = np.random.default_rng(0)
    X = rng.uniform(-100.0, 100.0, (2000, 2))
    y = np.clip(X @ [0.02, -0.01] + 0.1 * rng.standard_normal(2000), -3.0, 3.0)
    est = tv.TaskRegressor("mean", unit="record", epsilon=20.0, bounds=BOUNDS, insecure_noise_seed=1)
    est.fit(X, y, task=np.arange(2000) % 20)
    assert float(est.record_.billboards[-1].values["mean_doubt"]) == 0.0


def test_columns_that_use_little_of_their_range_are_not_pressed_to_zero():
    """In declared units the first column, a thousandth of its range, was lost."""
    X, y, task = rows()
    est = fitted(X, y, task, 1e-3)
    assert np.all(np.abs(est.coef_[:, 0] - 5.0) < 3.0)


def test_spread_is_one_where_there_is_none_or_rows_are_few():
    X = np.array([[1.0, 7.0]] * 6 + [[0.0, 0.0], [4.0, 1.0]])
    X[:3, 0] = 3.0
    block = TaskBlock(X, np.zeros((8, 1)), np.array([0, 6, 8]), kind="regression")
    assert own_spread(block) == pytest.approx(np.array([[1.0, 1.0], [1.0, 1.0]]))  # deviation 1, constant; two rows
    X[:3, 0] = 5.0
    assert own_spread(block)[0] == pytest.approx([2.0, 1.0])
