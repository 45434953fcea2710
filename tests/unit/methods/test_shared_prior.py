"""What tasks make of a published centre: its direction may be better than its length."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.losses import LOSSES
from taskveil.methods import shared_prior
from taskveil.methods.around_model import disbelief
from taskveil.solvers.evidence import averaged_models
from taskveil.tasks.block import TaskBlock


def far_from_the_truth():
    """Mean squared error of models when the centre is twice as long as all of them, over that of learning alone."""
    rng, m, n, d = np.random.default_rng(0), 200, 8, 6
    w = rng.standard_normal(d) / np.sqrt(d)
    X = rng.standard_normal((m * n, d))
    block = TaskBlock(X, X @ w + rng.standard_normal(m * n), np.arange(0, m * n + 1, n))
    options = shared_prior.priors(2.0 * w[None], np.zeros(d), np.eye(d))
    shared, alone = (averaged_models(block, some, "squared", own_scale=False)[0] for some in (options, options[:1]))
    return np.square(shared - w).sum() / np.square(alone - w).sum()


def test_a_centre_twice_too_long_serves_by_its_direction():
    assert far_from_the_truth() <= 0.63


def test_at_one_length_only_it_serves_less(monkeypatch):
    monkeypatch.setattr(shared_prior, "LENGTHS", (1.0,))
    assert far_from_the_truth() > 0.63


def test_lengths_of_a_centre_do_not_count_it_twice():
    centre = np.array([[0.3, 0.4]])
    around = [p for p in shared_prior.priors(centre, np.zeros(2), np.eye(2), (-1.0, 0.0)) if p.centre is not None]
    assert np.exp([p.log_weight for p in around]).sum() == pytest.approx(np.exp(-1.0))


def test_a_model_of_little_signal_is_hardly_all_that_tasks_have():
    """A tenth of the ratio believed in, one decade: half a nat for labels, an eighth for numbers. Of no slopes it is finite."""
    slopes = np.array([[np.sqrt(0.1), 0.0]])
    assert disbelief(slopes, LOSSES.get("squared")) == pytest.approx(-0.125)
    assert disbelief(2.0 * slopes, LOSSES.get("logistic")) == pytest.approx(-0.5)  # of noise variance four
    assert disbelief(10.0 * slopes, LOSSES.get("squared")) == 0.0
    assert disbelief(0.0 * slopes, LOSSES.get("logistic")) == pytest.approx(-8.0)
