"""What a task thinks it gained: measured on rows it held out, as many as it takes and no more."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace

import numpy as np
import pytest

import taskveil as tv
from taskveil.estimators import gain


@pytest.fixture(scope="module")
def fitted():
    """Three tasks, the smallest of 300 rows."""
    rng = np.random.default_rng(0)
    sizes = [300, 400, 500]
    X, task = rng.standard_normal((sum(sizes), 3)), np.repeat(["a", "b", "c"], sizes)
    y = X @ np.array([1.0, -1.0, 0.5]) + 0.5 * rng.standard_normal(sum(sizes))
    return tv.TaskRegressor("mean", epsilon=None).fit(X, y, task=task)


@pytest.mark.parametrize(("enough", "rows"), [(2500, 1200), (301, 300), (300, 240), (1, 240)])
def test_a_large_task_is_measured_on_as_many_rows_as_tell_it_something(fitted, monkeypatch, enough, rows):
    """Folds of a fifth: five of them below `enough`, else as many as reach it in the task itself."""
    monkeypatch.setattr(gain, "ENOUGH", enough)
    alone, shared, held = gain.held_out(fitted.method_, fitted._training, fitted.record_, gain.row_losses)
    assert held.counts.sum() == rows
    unmeasured = held.row_weights == 0
    assert not alone[unmeasured].any() and not shared[unmeasured].any()


def test_the_first_folds_agree_with_all_of_them(fitted, monkeypatch):
    """Squared errors of 60 and more rows: within 4 standard errors, sqrt(2 / rows) each, of the full figure."""
    args = (fitted.method_, fitted._training, fitted.record_, fitted.models_, fitted.task_names_)
    full = gain.measure_gain(*args)
    monkeypatch.setattr(gain, "ENOUGH", 1)
    part = gain.measure_gain(*args)
    spread = 4 * np.sqrt(2 / np.array([60, 80, 100]))
    assert (np.abs(part.error_alone / full.error_alone - 1) < spread).all()
    assert (part.kept_shared == full.kept_shared).all()


def test_a_notebook_shows_every_task(fitted):
    assert fitted.gain_._repr_html_() == fitted.gain_.to_frame()._repr_html_()
    assert fitted.gain_._repr_html_().count("<th>") >= 3


@pytest.fixture
def chosen():
    """Tasks that choose by held-out rows between the pooled model and their own."""
    data = tv.get_synthetic("hospitals", n_tasks=10, seed=0).train
    return tv.TaskRegressor("pooled", epsilon=2.0, insecure_noise_seed=1, seed=0).fit(data)


def test_the_figures_are_those_by_which_the_tasks_chose_and_cost_nothing_more(chosen, monkeypatch):
    args = (chosen.method_, chosen._training, chosen.record_, chosen.models_, chosen.task_names_)
    with monkeypatch.context() as patch:
        patch.setattr(gain, "replay", None)  # nothing is learnt again
        first = gain.measure_gain(*args)
    again = gain.measure_gain(*args)  # measured anew: kept once, for the run that was just made
    np.testing.assert_array_equal(first.error_alone, again.error_alone)
    np.testing.assert_array_equal(first.error_shared, again.error_shared)


def test_figures_of_another_run_on_the_same_rows_are_measured(chosen, monkeypatch):
    other = replace(chosen.record_, seconds=0.0)
    monkeypatch.setattr(gain, "replay", lambda *args: pytest.fail("measured"))
    with pytest.raises(pytest.fail.Exception, match="measured"):
        gain.measure_gain(chosen.method_, chosen._training, other, chosen.models_, chosen.task_names_)


def test_losses_are_forgotten_with_the_rows_they_are_of(chosen):
    rows = weakref.ref(chosen._training)
    assert rows() in gain.chosen_by
    del chosen._training
    gc.collect()
    assert rows() is None
