"""Learning alone keeps a constant where rows tell little, and pooled is the tuned model of all rows."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegressionCV, RidgeCV

import taskveil as tv
from taskveil.methods import local, units_of_tasks
from taskveil.tasks.prepare import scaling

WEIGHTS = np.array([1.0, -0.5, 0.2])


def table(rows, seed, rare=False, n_tasks=300):
    """One model for all, levels of their own; units far from one and, for the first column, 50 deviations from zero."""
    rng, levels = np.random.default_rng(seed), np.random.default_rng(99).standard_normal(n_tasks)
    task = np.repeat(np.arange(n_tasks), rows)
    Z = rng.standard_normal((task.size, 3))
    score = Z @ WEIGHTS + 0.5 * levels[task]
    X = Z * [1.0, 20.0, 0.1] + [50.0, 0.0, -1.0]
    if rare:
        return X, (score + rng.logistic(size=task.size) > 3.0).astype(int), task
    return X, 100.0 + 10.0 * (score + rng.standard_normal(task.size)), task


def log_loss(chance, y):
    return -np.mean(np.log(np.where(y == 1, chance, 1.0 - chance)))


def errors_alone(rows, rare):
    """(of `local`, of the task's own mean or shares, smoothed by half a row each) on rows nobody has seen."""
    X, y, task = table(rows, 0, rare)
    Z, z, of = table(20, 1, rare)
    sums, n = np.bincount(task, y), np.bincount(task)
    if not rare:
        found = tv.TaskRegressor("local", epsilon=None).fit(X, y, task=task).predict(Z, task=of)
        return np.mean((found - z) ** 2), np.mean(((sums / n)[of] - z) ** 2)
    found = tv.TaskClassifier("local", epsilon=None).fit(X, y, task=task).predict_proba(Z, task=of)[:, 1]
    return log_loss(found, z), log_loss(((sums + 0.5) / (n + 1.0))[of], z)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("rows", "rare"), [(2, False), (3, False), (6, False), (2, True), (6, True), (30, True)])
def test_alone_is_not_worse_than_a_constant(rows, rare):
    found, constant = errors_alone(rows, rare)
    assert found <= 1.02 * constant


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rare", [False, True])
def test_slopes_from_two_or_three_rows_would_be(rare, monkeypatch):
    """The twin: every task gets a slope, however little its rows tell."""
    monkeypatch.setattr(local, "FEW_ROWS", {"squared": 0.0, "logistic": 0.0})
    monkeypatch.setattr(scaling, "ROWS_FOR_A_UNIT", 0)
    found, constant = errors_alone(3, rare)
    assert found > 1.02 * constant


def errors_of_all_rows(rare):
    """(of pooled, of a tuned scikit-learn model) on rows nobody has seen."""
    X, y, task = table(3, 0, rare)
    Z, z, of = table(5, 1, rare)
    middle, spread = X.mean(axis=0), X.std(axis=0)
    A, B = (X - middle) / spread, (Z - middle) / spread
    if not rare:
        found = tv.TaskRegressor("pooled", epsilon=None).fit(X, y, task=task).predict(Z, task=of)
        other = RidgeCV(np.geomspace(1e-3, 1e3, 7)).fit(A, y).predict(B)
        return np.mean((found - z) ** 2), np.mean((other - z) ** 2)
    found = tv.TaskClassifier("pooled", epsilon=None).fit(X, y, task=task).predict_proba(Z, task=of)[:, 1]
    strengths = np.geomspace(1e-3, 1e2, 6)
    tuned = LogisticRegressionCV(l1_ratios=(0,), use_legacy_attributes=False, Cs=strengths, scoring="neg_log_loss")
    return log_loss(found, z), log_loss(tuned.fit(A, y).predict_proba(B)[:, 1], z)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("rare", [False, True])
def test_pooled_is_as_good_as_a_tuned_model_of_all_rows(rare):
    found, other = errors_of_all_rows(rare)
    assert found <= 1.01 * other


@pytest.mark.filterwarnings("ignore")
def test_with_centres_of_their_own_it_would_not_be(monkeypatch):
    """The twin: a column far from zero gets no common centre, and tasks of three rows use their own."""
    monkeypatch.setattr(units_of_tasks, "LARGEST_RANGE", units_of_tasks.RANGE)
    found, other = errors_of_all_rows(rare=True)
    assert found > 1.01 * other
