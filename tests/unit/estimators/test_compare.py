"""A comparison starts from the constant, fits rare classes, says what to take and what it cost."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

import taskveil as tv
from taskveil import methods
from taskveil.estimators.compare import Constant, compare
from taskveil.estimators.metrics import evaluate
from taskveil.estimators.recommend import cost, recommendation
from taskveil.estimators.summary import gain_verdict
from taskveil.tasks.split import split_rows


@pytest.fixture(scope="module")
def rare() -> tv.TaskSet:
    """40 tasks with one positive in sixteen rows, which the columns do tell apart."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 3))
    y = (X[:, 0] + 0.5 * rng.normal(size=1600) > 1.75).astype(int)
    return tv.TaskSet.from_arrays(X, y, np.repeat(np.arange(40), 40), kind="classification", classes=[0, 1])


def test_never_does_not_win_on_a_rare_class(rare):
    """Accuracy calls the constant nearly perfect; log loss and AUC do not."""
    found = compare(lambda r: split_rows(rare, 0.5, r), [methods.get("pooled")], [None], repeats=2)
    constant, pooled = found["results"]
    assert found["metric"] == "log-loss"
    assert constant["method"] == "constant" and constant["also"]["accuracy"] > 0.9
    assert constant["also"]["auc"] == pytest.approx(0.5) and pooled["also"]["auc"] > 0.8
    assert pooled["mean"] < 0.8 * constant["mean"]


def test_log_loss_is_scikit_learns(rare):
    train, test = split_rows(rare, 0.5, 0)
    est = tv.TaskClassifier("pooled", epsilon=None).fit(train)
    assert evaluate(est, test, "log-loss") == pytest.approx(log_loss(test.y, est.predict_proba(test)))


def test_the_constant_is_each_tasks_own_mean():
    train = tv.TaskSet.from_arrays(np.zeros((5, 1)), [1.0, 3.0, 10.0, 20.0, 30.0], [0, 0, 1, 1, 1])
    np.testing.assert_allclose(Constant(train).predict(train), [2, 2, 20, 20, 20])


def row(method: str, epsilon: float | None, *scores: float) -> dict:
    statements = [{"holds": True}] if epsilon else []
    return {"method": method, "epsilon": epsilon, "scores": scores, "mean": float(np.mean(scores)), "statements": statements}


@pytest.mark.parametrize(
    ("private", "words"),
    [
        ([row("mean", 1.0, 0.5, 0.5), row("mean", 10.0, 0.4, 0.4)], "mean at epsilon 1 "),
        ([row("mean", 1.0, 0.9, 0.5), row("mean", 10.0, 0.4, 0.4)], "mean at epsilon 10 "),  # within the spread at 1
        ([row("mean", 1.0, 0.8, 0.8)], "local, which shares nothing"),
        ([{**row("mean", 1.0, 0.1, 0.1), "statements": [{"holds": False}]}], "local, which shares nothing"),
    ],
)
def test_the_smallest_epsilon_that_gains_is_recommended(private, words):
    rows = [row("constant", None, 1.0, 1.0), row("local", None, 0.7, 0.7), *private]
    assert recommendation(rows, "nmse").startswith(f"Recommendation: {words}")


def test_it_says_what_it_cost(rare):
    found = compare(lambda r: split_rows(rare, 0.5, r), [methods.get("mean")], [1.0, 2.0], repeats=2)
    assert "4 fits" in found["cost"] and "epsilon 6 together" in found["cost"]


def test_settings_are_compared_at_one_delta_only(rare):
    """An epsilon means nothing beside another at a different delta."""
    found = compare(lambda r: split_rows(rare, 0.5, r), [methods.get("mean"), methods.get("dp-aggr")], [0.5, 2.0], repeats=1)
    private = [row for row in found["results"] if row["epsilon"] is not None]
    deltas = {s["delta"] for row in private for s in row["statements"]} | {row["delta"] for row in private}
    assert len(private) == 4 and len(deltas) == 1


def test_one_is_not_many():
    row = {"method": "mean", "epsilon": 2.0, "repeats": 1}
    assert "1 fit," in cost([row]) and "Releasing the private model would cost epsilon 2." in cost([row])
    assert "Releasing the 3 private models would cost epsilon 6 together." in cost([{**row, "repeats": 3}])


def test_a_gain_that_rounds_to_nothing_is_no_gain():
    task = {"error_alone": 1.0, "error_shared": 0.999, "kept": "shared"}
    assert "as high as alone" in gain_verdict({"a": task, "b": task})
    assert gain_verdict({"a": {**task, "kept": "alone"}}) == "the only task keeps the model it learnt alone."
