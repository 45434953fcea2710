"""What every registered loss must do: derivatives and bounds agree with its value."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.losses import LOSSES
from taskveil.tasks.block import TaskBlock

NAMES = LOSSES.names()
SCORES = np.concatenate([np.linspace(-6.0, 6.0, 97) + 0.003, [-700.0, 700.0]])


def targets(name: str) -> np.ndarray:
    """Some of what the loss says its targets are."""
    some = {"numbers": [-1.7, 0.2, 3.1], "labels": [-1.0, 1.0], "counts": [0.0, 1.0, 3.5], "times": [-2.0, 0.1, 3.1]}
    return np.array(some[LOSSES.get(name).targets])


@pytest.mark.parametrize("name", NAMES)
def test_the_derivative_matches_finite_differences(name):
    loss = LOSSES.get(name)
    for y in targets(name):
        h = 1e-6
        slope = (loss.value(SCORES + h, y) - loss.value(SCORES - h, y)) / (2 * h)
        size = np.maximum(np.maximum(1.0, np.abs(SCORES)), np.abs(loss.derivative(SCORES, y)))
        assert np.all(np.abs(slope - loss.derivative(SCORES, y)) <= 1e-6 * size)


@pytest.mark.parametrize("name", NAMES)
def test_the_second_derivative_matches_finite_differences_where_it_exists(name):
    loss = LOSSES.get(name)
    for y in targets(name):
        try:
            bend = loss.second_derivative(SCORES, y)
        except NotImplementedError:
            assert not np.isfinite(loss.smoothness)
            return
        h = 1e-5
        numeric = (loss.derivative(SCORES + h, y) - loss.derivative(SCORES - h, y)) / (2 * h)
        np.testing.assert_allclose(bend, numeric, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_the_loss_is_convex_and_non_negative(name):
    loss = LOSSES.get(name)
    a, b = np.meshgrid(SCORES, SCORES)
    for y in targets(name):
        middle = loss.value((a + b) / 2, y)
        chord = (loss.value(a, y) + loss.value(b, y)) / 2
        assert np.all(middle <= chord * (1 + 1e-12) + 1e-12)
        assert np.all(loss.value(SCORES, y) >= 0.0)


@pytest.mark.parametrize("name", NAMES)
def test_the_stated_smoothness_bounds_the_curvature_and_is_nearly_reached(name):
    loss = LOSSES.get(name)
    s = np.linspace(-40.0, 40.0, 20_001)
    for y in targets(name):
        if np.isfinite(loss.smoothness):
            bend = np.abs(np.diff(loss.derivative(s, y)) / np.diff(s)).max()
            assert 0.95 * loss.smoothness <= bend <= loss.smoothness * (1 + 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_huge_scores_give_finite_values(name):
    loss = LOSSES.get(name)
    s = np.array([-1e8, -1e3, 1e3, 1e8])
    for y in targets(name):
        with np.errstate(all="raise", under="ignore"):
            assert np.all(np.isfinite(loss.value(s, y)))
            assert np.all(np.isfinite(loss.derivative(s, y)))


@pytest.mark.parametrize("name", [n for n in NAMES if not LOSSES.get(n).labels])
def test_a_step_on_the_working_response_goes_downhill(name):
    """From wherever least squares start, the slope of the loss times the step they propose is not positive."""
    loss, rng = LOSSES.get(name), np.random.default_rng(0)
    if loss.name == "epsilon-insensitive":
        pytest.skip("has a kink, and no second derivative")
    y = rng.choice(targets(name), (3, 40))
    scores, weights = rng.normal(0.0, 0.5, (3, 40)), rng.integers(0, 2, (3, 40)).astype(float)
    weight, target = loss.working(scores, y, weights)
    assert (weight >= 0.0).all() and np.isfinite(target).all() and not weight[weights == 0.0].any()
    step = target - scores
    if loss.rowwise:
        assert np.all(weights * loss.derivative(scores, y) * step <= 1e-12)


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("hinge", "epsilon-insensitive", "squared")])
def test_intercepts_are_where_the_slopes_add_up_to_zero_and_finite_without_rows(name):
    loss, rng = LOSSES.get(name), np.random.default_rng(1)
    y = np.concatenate([rng.choice(targets(name), 30), targets(name)])[:, None]
    block = TaskBlock(np.ones((len(y), 1)), y, np.array([0, len(y), len(y)]))
    scores = rng.normal(0.0, 0.5, y.shape)
    b = loss.intercepts(scores, block)
    slopes = loss.derivative(scores + b[block.task_of_row], y)
    if name == "huber":  # what counts as wild depends on a task's errors, as where it fits slopes
        one, there = np.ones((1, len(y))), (scores + b[block.task_of_row]).T
        slopes = (there - loss.working(there, y.T, one)[1]).T
    assert np.abs(block.means_by_task(slopes)).max() < 1e-9
    assert b[1, 0] == 0.0
