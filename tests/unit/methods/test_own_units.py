"""A task ends in the units its rows favour: small columns are not pressed to zero, rare categories not read from a row or two."""

from __future__ import annotations

import numpy as np
import pytest

import taskveil as tv
from taskveil.methods.base import PublicInfo
from taskveil.methods.own_units import flattery, models_in_either_units, own_spread
from taskveil.tasks.block import TaskBlock

BOUNDS = {"features": {"*": [-100.0, 100.0]}, "target": [-3.0, 3.0]}


def test_columns_that_use_little_of_their_range_are_not_pressed_to_zero():
    """A thousandth of the range: in declared units such a column is lost beside one that uses all of its range."""
    rng = np.random.default_rng(0)
    X, task = rng.standard_normal((2400, 2)) * [0.1, 30.0], np.repeat(np.arange(20), 120)
    y = np.clip(X @ [5.0, 0.03] + 0.5 * rng.standard_normal(2400), -3.0, 3.0)
    est = tv.TaskRegressor(unit="record", epsilon=3.0, bounds=BOUNDS, insecure_noise_seed=1).fit(X, y, task=task)
    assert np.any(est.record_.billboards[-1].values["model"][:, :2])
    assert np.all(np.abs(est.coef_[:, 0] - 4.6) < 1.5)


def test_spread_is_one_where_there_is_none_or_rows_are_few():
    X = np.array([[1.0, 7.0]] * 6 + [[0.0, 0.0], [4.0, 1.0]])
    X[:3, 0] = 3.0
    block = TaskBlock(X, np.zeros((8, 1)), np.array([0, 6, 8]), kind="regression")
    assert own_spread(block) == pytest.approx(np.array([[1.0, 1.0], [1.0, 1.0]]))  # deviation 1, constant; two rows
    X[:3, 0] = 5.0
    assert own_spread(block)[0] == pytest.approx([2.0, 1.0])


def excess(est, X: np.ndarray, task: np.ndarray, truth: np.ndarray) -> float:
    return float(np.mean(np.square(est.predict(X, task=task) - truth)))


def heard_nothing(X: np.ndarray, y: np.ndarray, task: np.ndarray, bounds: dict) -> tv.TaskRegressor:
    est = tv.TaskRegressor(unit="record", epsilon=0.05, bounds=bounds, insecure_noise_seed=1).fit(X, y, task=task)
    assert not np.any(est.record_.billboards[-1].values["model"][:, : X.shape[1]])
    return est


@pytest.mark.parametrize("wide", [1.0, 1e4])
def test_wide_ranges_cost_a_task_that_hears_nothing_little(wide):
    """Alone in declared units the column of small numbers is pressed on too hard; at most a quarter of that cost is left."""
    rng = np.random.default_rng(1)
    X, task = rng.standard_normal((240, 3)) * [0.1, 1.0, 3.0], np.repeat(np.arange(8), 30)
    truth = X @ [5.0, 0.5, 0.2]
    y = np.clip(truth + 0.5 * rng.standard_normal(240), -3.0, 3.0)
    bounds = {"features": {"*": [-10.0 * wide, 10.0 * wide]}, "target": [-3.0, 3.0]}
    own, declared = (tv.TaskRegressor("local", epsilon=None, bounds=b).fit(X, y, task=task) for b in (None, bounds))
    mixed, good, bad = (excess(e, X, task, truth) for e in (heard_nothing(X, y, task, bounds), own, declared))
    assert good < 0.6 * bad and mixed < good + 0.25 * (bad - good)


def test_rare_categories_are_not_read_from_a_row_or_two():
    """In units of its own spread a category that a task saw once costs no more than one it saw often; declared, it does."""
    rng = np.random.default_rng(2)
    often, task, fresh = np.repeat([0.5, 0.06], [6, 10]), np.repeat(np.arange(20), 40), np.repeat(np.arange(20), 200)
    X, Z = ((rng.random((len(rows), 16)) < often).astype(float) for rows in (task, fresh))
    w = rng.choice([-1.0, 1.0], 16) * np.repeat([1.0, 0.3], [6, 10])
    y, bounds = np.clip(X @ w + 0.5 * rng.standard_normal(800), -6, 6), {"features": {"*": [0.0, 1.0]}, "target": [-6.0, 6.0]}
    own = tv.TaskRegressor("local", epsilon=None).fit(X, y, task=task)
    assert excess(heard_nothing(X, y, task, bounds), Z, fresh, Z @ w) < 0.85 * excess(own, Z, fresh, Z @ w)


def test_whoever_does_not_believe_what_it_hears_has_the_very_model_of_hearing_nothing():
    """Slopes that are a thousand times too long, in ranges a hundred times too wide.

    Twin: slopes that fit do change the model.
    """
    rng = np.random.default_rng(1)
    X, offsets = rng.standard_normal((240, 3)) * [0.001, 0.01, 0.03], np.arange(9) * 30
    y = X @ [500.0, 50.0, 20.0] + rng.standard_normal(240)
    block = TaskBlock(X, y[:, None], offsets, kind="regression")
    public = PublicInfo(8, 3, 1, "regression", seed=0, task_rows=(30,) * 8)
    alone = models_in_either_units(block, public, np.zeros((1, 3)))
    absurd, useful = (models_in_either_units(block, public, k * np.array([[500.0, 50.0, 20.0]])) for k in (1e3, 1.0))
    np.testing.assert_allclose(absurd.coef, alone.coef, rtol=1e-6)
    assert not absurd.kept.any()
    assert np.abs(useful.coef - alone.coef).max() > 0.01 * np.abs(alone.coef).max()


def test_slopes_are_believed_less_by_whose_rows_made_them():
    """Twenty slopes made of one task's rows: what fits these rows so well is no news to that task, and is to another."""
    rng = np.random.default_rng(3)
    X, offsets = rng.standard_normal((120, 20)), np.array([0, 60, 120])
    block = TaskBlock(X, rng.standard_normal((120, 1)), offsets, kind="regression")
    slopes = np.linalg.lstsq(X[:60], block.y[:60], rcond=None)[0].T
    made, big = (PublicInfo(2, 20, 1, "regression", seed=0, task_rows=rows) for rows in ((60, 60), (60, 600_000)))
    weight = [models_in_either_units(block, public, slopes).extra["weight_alone"][0] for public in (made, big)]
    assert weight[0] > weight[1] and flattery(block, made, slopes) == pytest.approx([10.0, 10.0])
    assert flattery(block, made, 0.0 * slopes) == pytest.approx([0.0, 0.0])
