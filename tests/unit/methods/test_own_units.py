"""A task with many rows ends in units of its own: columns that use little of their declared range are not pressed to zero."""

from __future__ import annotations

import numpy as np
import pytest

import taskveil as tv
from taskveil.methods.base import PublicInfo
from taskveil.methods.own_units import models_in_either_units, own_spread
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


@pytest.mark.parametrize("wide", [1.0, 100.0])
def test_who_hears_nothing_has_the_very_model_of_learning_alone(wide):
    """In units of its own, whatever was declared: a mixture with declared units would be another model."""
    rng = np.random.default_rng(1)
    X, task = rng.standard_normal((240, 3)) * [0.1, 1.0, 3.0], np.repeat(np.arange(8), 30)
    y = np.clip(X @ [5.0, 0.5, 0.2] + rng.standard_normal(240), -3.0, 3.0)
    bounds = {"features": {"*": [-10.0 * wide, 10.0 * wide]}, "target": [-3.0, 3.0]}
    together = tv.TaskRegressor(unit="record", epsilon=0.05, bounds=bounds, insecure_noise_seed=1).fit(X, y, task=task)
    alone = tv.TaskRegressor("local", epsilon=None).fit(X, y, task=task)
    assert not np.any(together.record_.billboards[-1].values["model"][:, :3])
    np.testing.assert_allclose(together.coef_, alone.coef_, rtol=1e-6, atol=1e-9)


def test_whoever_does_not_believe_what_it_hears_has_the_very_model_of_learning_alone():
    """Slopes that are a thousand times too long, in ranges a hundred times too wide: alone in declared units has no part in it.

    Twin: slopes that fit do change the model.
    """
    rng = np.random.default_rng(1)
    X, offsets = rng.standard_normal((240, 3)) * [0.001, 0.01, 0.03], np.arange(9) * 30
    y = X @ [500.0, 50.0, 20.0] + rng.standard_normal(240)
    block = TaskBlock(X, y[:, None], offsets, kind="regression")
    public = PublicInfo(8, 3, 1, "regression", seed=0)
    alone = models_in_either_units(block, public, np.zeros((1, 3)))
    absurd, useful = (models_in_either_units(block, public, k * np.array([[500.0, 50.0, 20.0]])) for k in (1e3, 1.0))
    np.testing.assert_allclose(absurd.coef, alone.coef, rtol=1e-6)
    assert not absurd.kept.any() and np.abs(useful.coef - alone.coef).max() > 0.01 * np.abs(alone.coef).max()
