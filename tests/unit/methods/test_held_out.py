"""Without noise held-out rows say how far to go from the model of all rows."""

from __future__ import annotations

import numpy as np
from sklearn.linear_model import RidgeCV

import taskveil as tv
from taskveil.methods import together
from taskveil.methods.held_out import BLENDS


def uneven_noise(seed, tasks=90, rows=15):
    """One model for all, but a third of the tasks has errors 25 times as large as another: one strength for all misleads them."""
    W = np.random.default_rng(7).standard_normal(6) / np.sqrt(6)
    rng, task = np.random.default_rng(seed), np.repeat(np.arange(tasks), rows)
    own = 0.3 * np.random.default_rng(8).standard_normal((tasks, 6)) / np.sqrt(6)
    X = rng.standard_normal((task.size, 6))
    return X, np.einsum("nd,nd->n", X, W + own[task]) + rng.standard_normal(task.size) * np.array([0.2, 1.0, 5.0])[task % 3], task


def over_the_best():
    """Error of the default over that of the better of learning alone and a ridge of all rows."""
    (X, y, task), (Z, z, of) = uneven_noise(0), uneven_noise(1, rows=100)
    alone, ours = (
        np.mean((tv.TaskRegressor(m, epsilon=None).fit(X, y, task=task).predict(Z, task=of) - z) ** 2)
        for m in ("local", "together")
    )
    return ours / min(alone, np.mean((RidgeCV(np.geomspace(1e-2, 1e3, 11)).fit(X, y).predict(Z) - z) ** 2))


def test_without_noise_the_default_is_as_good_as_the_better_of_alone_and_all_rows():
    assert over_the_best() <= 1.01


def test_by_the_evidence_of_rows_alone_it_would_not_be(monkeypatch):
    """The twin: nothing is asked of held-out rows."""
    monkeypatch.setattr(together, "best_blend", lambda total: BLENDS[0])
    assert over_the_best() > 1.05


def along_a_line(seed, tasks=20, rows=12):
    """Three classes one after the other: no line divides the middle one from the rest."""
    rng, task = np.random.default_rng(seed), np.repeat(np.arange(tasks), rows)
    X = rng.standard_normal((task.size, 3))
    return X, np.digitize(X @ [2.0, 1.0, 0.0] + 0.5 * rng.standard_normal(task.size), [-1.0, 1.0]), task


def test_learning_alone_is_in_a_tasks_own_units():
    """Every task counts in units of its own (litres, gallons): in common ones it lost twice what it has alone."""
    rng, task = np.random.default_rng(0), np.repeat(np.arange(30), 40)
    units, own = 10.0 ** rng.uniform(-2, 2, (30, 3)), rng.normal((1.0, 0.5, -0.5), 1.0, (30, 3))
    X = rng.standard_normal((task.size, 3))
    y = np.einsum("nd,nd->n", X, own[task]) + rng.standard_normal(task.size)
    rows = tv.TaskSet.from_arrays((X + 3.0) * units[task], y, task, kind="regression")
    train, test = tv.split_rows(rows, 0.3, 0)
    alone, shared = (tv.TaskRegressor(name, epsilon=None).fit(train).predict(test) for name in ("local", "together"))
    assert np.mean((shared - test.y) ** 2) < 1.02 * np.mean((alone - test.y) ** 2)
