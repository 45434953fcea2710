"""What an estimator carries with it: fitted attributes, and nobody's rows (pickles, copies, models for newcomers)."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from sklearn.base import BaseEstimator
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.estimators.base import TaskEstimator
from taskveil.runtime.run import RunRecord

TASKS = related_tasks(n_tasks=6, rows=(7, 9), n_features=3)
METHODS = ["subspace", "low-rank-sparse", "mean", "async", "svm", "dp-mtrl", "local"]


def fitted(name: str) -> tv.TaskRegressor:
    return tv.TaskRegressor(name, epsilon=1.0, insecure_noise_seed=1).fit(TASKS)


def rows_inside(blob: bytes, est: tv.TaskRegressor) -> int:
    """How many training rows, raw or scaled, stand in the bytes."""
    scaled = est.scaling_.apply(TASKS)
    return sum(row.tobytes() in blob for X in (TASKS.X, scaled.X) for row in X) + (TASKS.y.tobytes() in blob)


@pytest.mark.parametrize("name", METHODS)
def test_a_pickle_holds_no_row_and_no_state_but_predicts_and_knows_its_gain(name):
    est = fitted(name)
    blob = pickle.dumps(est)
    again = pickle.loads(blob)  # noqa: S301  our own bytes
    assert rows_inside(blob, est) == 0
    assert again.record_.state == {} and again.record_.schedule == [] and again.record_.extra == {}
    np.testing.assert_array_equal(again.predict(TASKS), est.predict(TASKS))
    np.testing.assert_array_equal(again.gain_.error_alone, est.gain_.error_alone)
    assert est._training is not None and est.record_.executed == again.record_.executed


def test_a_pickle_of_everything_would_hold_the_rows(monkeypatch):
    """The twin: without `__getstate__` the search above finds them."""
    est = fitted("subspace")
    monkeypatch.setattr(TaskEstimator, "__getstate__", BaseEstimator.__getstate__)
    assert rows_inside(pickle.dumps(est), est) > TASKS.n_rows


def test_names_of_persons_stay_behind_too():
    person = np.asarray([f"person-{i}" for i in range(TASKS.n_rows)])
    ids = np.repeat(np.asarray(TASKS.task_names), TASKS.sizes)
    est = tv.TaskRegressor("mean", epsilon=1.0, person=person).fit(TASKS.X, TASKS.y, task=ids)
    text = "person-11"
    assert text.encode() not in pickle.dumps(est) and text.encode("utf-32-le") not in pickle.dumps(est)
    assert copy.deepcopy(est).person is None and est.person is person
    assert est.adapt(TASKS.X[:9], TASKS.y[:9]).person is None


def test_a_second_fit_forgets_the_gain_of_the_first():
    est = fitted("subspace")
    first = est.gain_
    est.fit(related_tasks(n_tasks=6, rows=(7, 9), n_features=3, seed=5))
    assert not np.array_equal(first.error_alone, est.gain_.error_alone)


def others_inside(blob: bytes, est: tv.TaskRegressor) -> list[str]:
    """Models of the run's tasks, states and parts of billboards that were meant for single tasks, found in the bytes."""
    found = [f"model {i}" for i, w in enumerate(est.models_.coef) if w.tobytes() in blob or est.coef_[i].tobytes() in blob]
    for name, value in est.record_.state.items():
        found += [f"state {name}" for part in np.asarray(value) if np.any(part) and part.tobytes() in blob and part.size > 1]
    for board in est.record_.billboards:
        parts = {name: np.asarray(board.values[name]) for name in board.per_task & board.values.keys()}
        found += [f"billboard {name}" for name, value in parts.items() if value.any() and value.tobytes() in blob]
    return found


@pytest.mark.parametrize("name", ["subspace", "low-rank-sparse", "mean", "async", "svm"])
def test_a_newcomer_gets_its_own_model_and_what_is_public(name, tmp_path):
    est = fitted(name)
    new = related_tasks(n_tasks=1, rows=(8, 8), n_features=3, seed=9)
    adapted = est.adapt(new.X, new.y, name="late")
    blob = pickle.dumps(adapted)
    assert others_inside(blob, est) == [] and rows_inside(blob, est) == 0
    assert new.X[0].tobytes() not in blob
    assert adapted.task_names_ == ("late",) and len(adapted.gain_) == 1
    np.testing.assert_array_equal(tv.load(adapted.save(tmp_path)).predict(new.X), adapted.predict(new.X))


def test_a_newcomer_with_the_whole_record_would_get_everything(monkeypatch):
    """The twin: hand out the run's own record, and the search above finds the others' models and states."""
    monkeypatch.setattr(RunRecord, "for_newcomer", lambda record, models: record)
    est = fitted("low-rank-sparse")
    new = related_tasks(n_tasks=1, rows=(8, 8), n_features=3, seed=9)
    found = others_inside(pickle.dumps(est.adapt(new.X, new.y)), est)
    assert any(f.startswith("model") for f in found) and any(f.startswith("state") for f in found)
