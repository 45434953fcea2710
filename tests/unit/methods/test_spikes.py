"""Common directions by Bayes' rule: the integral against closed forms, weak signals kept, noise left alone."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import hyp1f1

from taskveil.methods.shared_prior import priors
from taskveil.methods.spikes import bingham, common_directions, hopeless, mean_within


def noise_matrix(rng: np.random.Generator, d: int, s: float) -> np.ndarray:
    G = s * rng.standard_normal((d, d))
    return (G + G.T) / 2


@pytest.mark.parametrize("d", [3, 12, 60])
@pytest.mark.parametrize("a", [-20.0, 0.0, 0.5, 5.0, 40.0, 4000.0])
def test_the_saddlepoint_is_close_to_the_integral_over_the_sphere(d, a):
    """One unequal coordinate: E exp(a v_1^2) = 1F1(1/2; d/2; a), whose logarithmic derivative is E v_1^2 (Mardia & Jupp 2000)."""
    log_mean, squares = bingham(np.array([[a] + [0.0] * (d - 1)]))
    if a < 600.0:
        assert log_mean[0] == pytest.approx(np.log(hyp1f1(0.5, d / 2, a)), rel=0.02, abs=0.12)
        assert squares[0, 0] == pytest.approx(hyp1f1(1.5, d / 2 + 1, a) / hyp1f1(0.5, d / 2, a) / d, abs=0.12)
    assert squares.sum() == pytest.approx(1.0, abs=1e-9) and squares.min() > 0.0


def hard_threshold(total: np.ndarray, s: float, m: int) -> np.ndarray:
    """What was used before: eigenvalues beyond the noise's radius, shortened (Benaych-Georges & Nadakuditi 2011); else even."""
    d = len(total)
    values, vectors = np.linalg.eigh(total - m / d * np.eye(d))
    radius = s * np.sqrt(2 * d)
    true = (values + np.sqrt(np.maximum(values**2 - radius**2, 0.0))) / 2
    energy = np.where(values > 1.1 * radius, true - radius**2 / (4 * np.where(values > radius, true, 1.0)), 0.0)
    return m / d * np.eye(d) + (vectors * energy) @ vectors.T


def test_weak_signals_are_kept_that_a_threshold_throws_away():
    """Four directions of 64 tasks' energy each, noise of spectral radius 123 (320 x 30, epsilon 0.3): error of the moment."""
    rng, m, d, s = np.random.default_rng(0), 320, 30, 15.9
    truth = np.diag([64.0 + 2.1] * 4 + [2.1] * 26)
    errors = np.zeros(3)
    for _ in range(40):
        total = truth + noise_matrix(rng, d, s)
        share, basis, _ = common_directions(total, s, m)
        ours = m * ((basis * share) @ basis.T + (1 - share.sum()) / d * np.eye(d))
        guesses = (ours, hard_threshold(total, s, m), m / d * np.eye(d))
        errors += [np.square(guess - truth).sum() for guess in guesses]
    ours, threshold, even = errors / errors[2]
    assert ours < 0.95 and ours < threshold - 0.03 and even == 1.0


def test_clear_signals_come_back_whole_and_undoubted():
    rng, m, d = np.random.default_rng(0), 400, 12
    total = np.diag([200.0, 120.0] + [8.0] * 10) + noise_matrix(rng, d, 1.0)
    share, basis, doubt = common_directions(total, 1.0, m)
    assert doubt == 0.0 and np.count_nonzero(share > 0.01) == 2
    np.testing.assert_allclose(share[:2], [192 / 400, 112 / 400], atol=0.03)
    np.testing.assert_allclose(np.abs(basis[:2, :2]), np.eye(2), atol=0.1)


def test_noise_that_hides_everything_publishes_nothing():
    rng, m, d = np.random.default_rng(0), 50, 8
    assert hopeless(13.0, m, d) and not hopeless(12.0, m, d)
    for _ in range(20):
        share, _, doubt = common_directions(m / d * np.eye(d) + noise_matrix(rng, d, 30.0), 30.0, m)
        assert not share.any() and doubt == 0.0


def test_a_mean_is_kept_where_tasks_have_energy_and_nowhere_else():
    """Against the closed form of a Gaussian posterior; without energy along it a mean of the same length is noise."""
    share, basis, m, s = np.array([0.8, 0.0, 0.0, 0.0]), np.eye(4), 100, 10.0
    mean, doubt = mean_within(np.array([[50.0, 9.0, 0.0, 0.0]]), s, m, share, basis)
    believed, variance = np.array([0.85, 0.05, 0.05, 0.05]), 0.01 + 1 / 400
    np.testing.assert_allclose(mean[0], [0.5, 0.09, 0.0, 0.0] * believed / (believed + variance))
    assert doubt == 0.0
    none, _ = mean_within(np.array([[5.0, 9.0, 0.0, 0.0]]), s, m, share, basis)
    assert not none.any() or mean_within(np.array([[5.0, 9.0, 0.0, 0.0]]), s, m, share, basis)[1] < 0.0


def test_directions_below_the_floor_are_left_out_and_nothing_else_changes():
    """Each costs every task as much as any: thirty that noise left over made a fit four times as long."""
    rng = np.random.default_rng(0)
    basis, share = np.linalg.qr(rng.standard_normal((30, 30)))[0], np.full(30, 1e-5)
    share[:3] = 0.2
    for prior in priors(np.zeros((1, 30)), share, basis)[1:]:
        assert prior.directions.shape == (30, 3)
        assert np.linalg.norm((basis * share) @ basis.T - prior.directions @ prior.directions.T, 2) < 0.2 * prior.floor
