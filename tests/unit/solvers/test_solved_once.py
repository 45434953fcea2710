"""Learning alone is done once for each block inside a run, and never remembered beyond it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from tests.support.blocks import make_block

import taskveil as tv
from taskveil.solvers import evidence, row_space
from taskveil.solvers.posterior import Prior
from taskveil.solvers.solved_once import kept_or, solved_once


def alone(block) -> np.ndarray:
    return evidence.averaged_models(block, [Prior()], "squared")[0]


def test_a_block_is_solved_once_inside_and_anew_outside(monkeypatch):
    solved, block, real = [], make_block("regression", n_tasks=5, n_features=3), evidence._averaged
    monkeypatch.setattr(evidence, "_averaged", lambda block, *a: (solved.append(block), real(block, *a))[1])
    first = alone(block)
    with solved_once():
        again = [alone(block) for _ in range(3)]
        alone(replace(block))  # equal rows, another block
    assert len(solved) == 3
    assert all(np.array_equal(first, one) for one in again)
    alone(block)
    assert len(solved) == 4


def test_what_several_callers_share_cannot_be_written_into():
    block = make_block("regression", n_tasks=5, n_features=3)
    with solved_once():
        wanted = alone(block).copy()
        with pytest.raises(ValueError, match="read-only"):
            alone(block)[:] = 7.0
        np.testing.assert_array_equal(alone(block), wanted)


def test_rows_that_change_between_two_runs_are_seen():
    """A block that is kept by a caller and written to must not meet the models of what it was."""
    block = make_block("regression", n_tasks=5, n_features=3)
    with solved_once():
        before = alone(block)
    block.y[:] += block.X[:, :1]
    with solved_once():
        after = alone(block)
    np.testing.assert_array_equal(after, alone(block))
    assert np.abs(after - before).max() > 0.1


def test_options_of_one_block_are_kept_apart():
    with solved_once():
        found = [kept_or(lambda k=k: np.array([k]), "block", k)[0] for k in (1, 2, 1)]
    assert found == [1, 2, 1]


def test_a_fit_keeps_nothing(monkeypatch):
    from taskveil.solvers import solved_once as module

    scopes: list[dict] = []
    real = module.kept_or
    monkeypatch.setattr(evidence, "kept_or", lambda *a: (real(*a), scopes.append(module._kept.get()))[0])
    data = tv.get_synthetic("hospitals", n_tasks=6, seed=0).train
    for _ in range(2):
        tv.TaskRegressor("local", epsilon=None).fit(data)
    assert module._kept.get() is None
    assert len({id(scope) for scope in scopes}) == len(scopes) == 2  # both alive: two runs, two memories


@pytest.mark.parametrize("broken", [False, True])
def test_fewer_rows_than_features_learn_the_same_in_the_space_of_their_rows(broken, monkeypatch):
    block = make_block("classification", n_tasks=4, n_features=30, rows=(8, 16))
    if broken:  # a row that is not finite: its task learns what it learnt before
        block.X[3] = np.nan
    found = evidence.averaged_models(block, [Prior()], "logistic")[0]
    monkeypatch.setattr(evidence, "in_row_space", lambda stack: (stack, np.eye(30)[None]))
    np.testing.assert_allclose(found, evidence.averaged_models(block, [Prior()], "logistic")[0], rtol=1e-9, atol=1e-12)
    assert np.abs(found[1:]).max() > 0.01


def test_a_wrong_way_back_would_be_noticed(monkeypatch):
    block = make_block("classification", n_tasks=4, n_features=30, rows=(8, 16))
    wanted = evidence.averaged_models(block, [Prior()], "logistic")[0]
    monkeypatch.setattr(
        evidence, "in_row_space", lambda stack: (row_space.in_row_space(stack)[0], np.eye(30)[None, :, : stack.X.shape[1]])
    )
    assert np.abs(evidence.averaged_models(block, [Prior()], "logistic")[0] - wanted).max() > 1e-3
