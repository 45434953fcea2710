"""The law of every mechanism's noise. Each test: KS at a false-alarm rate of 1e-6, and a twin it must reject.

Seeds are fixed here (a nightly run may change SEED); sizes are chosen so that the twins, noise 5 to 8 % too small or of
the wrong law, are rejected at the same level. Where the entropy is fresh at every run the twins' noise is 13 to 25 % too
small, so that a test of correct code fails with a probability far under 1e-6 on either side.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from tests.support.privacy_reference import two_sided_wishart_log_density_2x2

from taskveil.privacy.contributions import DiagonalSum, OuterSum, VectorSum
from taskveil.privacy.mechanisms.gaussian import Gaussian, MatrixGaussian
from taskveil.privacy.mechanisms.laplace import L2Laplace, Laplace
from taskveil.privacy.mechanisms.paper_wishart import PaperWishart
from taskveil.privacy.mechanisms.wishart import TwoSidedWishart
from taskveil.privacy.randomness import insecure_seeded_noise, system_noise

pytestmark = pytest.mark.statistical
ALARM = 1e-6
SEED = 20261115


def fits(sample: np.ndarray, law) -> bool:
    """KS test at the stated false-alarm rate."""
    return bool(stats.kstest(np.ravel(sample), law.cdf).pvalue > ALARM)


def streams(n: int):
    source = insecure_seeded_noise(SEED)
    return [source.at(i, "noise") for i in range(n)]


def test_gaussian_noise_has_the_declared_scale():
    draws = Gaussian(2.0).noise((20_000,), streams(1)[0])
    assert fits(draws, stats.norm(scale=2.0))
    assert not fits(0.93 * draws, stats.norm(scale=2.0))


def test_exact_discrete_gaussian_noise_has_the_declared_scale():
    """Fresh operating-system entropy: 20,000 exact samples."""
    draws = system_noise().at(1, "noise").normal(3.0, 20_000)
    assert fits(draws, stats.norm(scale=3.0))
    assert not fits(0.8 * draws, stats.norm(scale=3.0))


def test_exact_discrete_laplace_noise_has_the_declared_scale():
    draws = system_noise().at(1, "noise").laplace(3.0, 20_000)
    assert fits(draws, stats.laplace(scale=3.0))
    assert not fits(0.75 * draws, stats.laplace(scale=3.0))


def test_float_noise_from_system_entropy_has_the_declared_scale():
    draws = system_noise(exact=False).at(1, "noise").normal(3.0, 50_000)
    assert fits(draws, stats.norm(scale=3.0))
    assert not fits(0.87 * draws, stats.norm(scale=3.0))


def test_matrix_gaussian_noise_is_standard_in_the_frobenius_isometry():
    """Diagonal N(0, s^2), above it N(0, s^2/2), mirrored; the twin forgets the factor on the off-diagonal."""
    mechanism, contribution = MatrixGaussian(2.0), OuterSum(12, 1.0)
    noise = [mechanism.noise((12, 12), s) for s in streams(300)]
    assert all(np.array_equal(E, E.T) for E in noise)
    vectors = np.concatenate([contribution.to_vector(E) for E in noise])
    assert fits(vectors, stats.norm(scale=2.0))
    naive = np.concatenate([E[np.triu_indices(12)] for E in noise])
    assert not fits(naive, stats.norm(scale=2.0))


def test_matrix_gaussian_has_the_stated_spectral_norm():
    """About s sqrt(2 d) (docs/theory/model-protected.md#symmetric-gaussian), within 15 % at d = 60."""
    norms = [np.linalg.norm(MatrixGaussian(1.0).noise((60, 60), s), 2) for s in streams(20)]
    assert np.mean(norms) == pytest.approx(math.sqrt(120), rel=0.15)


def test_adding_gaussian_noise_to_a_matrix_uses_the_same_law():
    mechanism, contribution = MatrixGaussian(2.0), OuterSum(12, 1.0)
    total = np.diag(np.arange(12.0))
    vectors = [contribution.to_vector(mechanism.add(contribution, total, s) - total) for s in streams(300)]
    assert fits(np.concatenate(vectors), stats.norm(scale=2.0))


def test_laplace_noise_has_the_declared_scale():
    draws = Laplace(1.5).noise((20_000,), streams(1)[0])
    assert fits(draws, stats.laplace(scale=1.5))
    assert not fits(0.9 * draws, stats.laplace(scale=1.5))


def test_l2_laplace_noise_has_a_gamma_norm_and_a_uniform_direction():
    """Norm Gamma(d, s). The twin is the paper's density upside down: norm Gamma(d, 1/s)."""
    d, s = 7, 1.5
    draws = np.array([L2Laplace(s).noise((d,), stream) for stream in streams(6000)])
    norms = np.linalg.norm(draws, axis=1)
    assert fits(norms, stats.gamma(d, scale=s))
    assert not fits(norms / s**2, stats.gamma(d, scale=s))
    # One coordinate of a uniform direction: (u_1 + 1)/2 is Beta((d-1)/2, (d-1)/2).
    angle = stats.beta((d - 1) / 2, (d - 1) / 2, loc=-1, scale=2)
    assert fits(draws[:, 0] / norms, angle)
    cube = np.random.default_rng(0).uniform(-1, 1, (6000, d))
    assert not fits(cube[:, 0] / np.linalg.norm(cube, axis=1), angle)


def test_wishart_noise_by_bartlett_has_the_wishart_law():
    """v'Ev/(c v'v) is chi2_n and (v'v/c)/(v'E^-1 v) is chi2_(n-d+1) for W_d(n, cI), in every direction v."""
    d, c = 5, 0.7
    E = np.array([s.wishart(d, d + 1, c) for s in streams(5000)])
    v = np.array([1.0, -2.0, 0.5, 0.0, 3.0])
    quadratic = np.einsum("i,kij,j->k", v, E, v) / (c * v @ v)
    inverse = (v @ v / c) / np.einsum("i,kij,j->k", v, np.linalg.inv(E), v)
    assert fits(quadratic, stats.chi2(d + 1)) and fits(inverse, stats.chi2(2))
    assert not fits(quadratic, stats.chi2(d)) and not fits(0.9 * inverse, stats.chi2(2))


def test_two_sided_wishart_noise_in_one_dimension_is_laplace():
    """d = 1 is exactly Laplace(2c); the one-sided noise, the twin, is not."""
    c = 0.8
    draws = np.array([TwoSidedWishart(c).noise((1, 1), s)[0, 0] for s in streams(8000)])
    assert fits(draws, stats.laplace(scale=2 * c))
    one_sided = np.array([PaperWishart(c, 1.0).noise((1, 1), s)[0, 0] for s in streams(8000)])
    assert not fits(one_sided, stats.laplace(scale=2 * c))


def ratio_bounded(c: float, charged: float, seed: int) -> bool:
    """|log f(Z) - log f(Z - D)| <= |D|_*/(2 * charged) for random 2 x 2 matrices; 1e-2 for the quadrature."""
    rng = np.random.default_rng(seed)

    def symmetric(size):
        A = rng.standard_normal((2, 2)) * size
        return (A + A.T) / 2

    for _ in range(60):
        Z, D = symmetric(2.0), symmetric(1.5)
        change = two_sided_wishart_log_density_2x2(Z, c) - two_sided_wishart_log_density_2x2(Z - D, c)
        if abs(change) > np.linalg.norm(D, "nuc") / (2 * charged) + 1e-2:
            return False
    return True


def test_two_sided_wishart_likelihood_ratio_is_bounded_by_the_nuclear_norm():
    assert ratio_bounded(0.6, 0.6, SEED)


def test_the_likelihood_check_rejects_a_mechanism_charged_for_a_quarter_more_noise():
    assert not ratio_bounded(0.6, 0.75, SEED)


def test_the_reference_density_of_the_two_sided_wishart_falls_exponentially_along_the_cone():
    """Along the positive cone f is exp(-tr Z/(2c)) up to a constant: a closed form for the quadrature."""
    c = 0.6
    inside = two_sided_wishart_log_density_2x2(np.diag([1.0, 2.0]), c)
    further = two_sided_wishart_log_density_2x2(np.diag([2.0, 3.0]), c)
    assert inside - further == pytest.approx(2 / (2 * c), abs=1e-9)


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("d", [1, 6])
def test_one_sided_wishart_noise_shows_an_absent_task_with_probability_one_minus_exp_minus_epsilon(d, epsilon):
    """docs/theory/model-protected.md#wishart. 4000 draws; the exact binomial test at 1e-6."""
    contribution = OuterSum(d, 1.3)
    mechanism = PaperWishart.calibrated(contribution, "replace-one", epsilon, "paper")
    v = np.zeros(d)
    v[0] = contribution.bound
    caught = sum(v @ np.linalg.inv(mechanism.noise((d, d), s)) @ v > 1 for s in streams(4000))
    stated = mechanism.event(contribution, "replace-one").delta_at_least
    assert stated == pytest.approx(1 - math.exp(-epsilon), rel=1e-12)
    assert stats.binomtest(int(caught), 4000, stated).pvalue > ALARM


def test_two_sided_wishart_noise_never_shows_an_absent_task_with_certainty():
    """The twin of the test above: {S + vv' <= output fails} happens with and without the task."""
    d, contribution = 6, OuterSum(6, 1.3)
    mechanism = TwoSidedWishart.calibrated(contribution, "add-remove", 1.0)
    v = np.zeros(d)
    v[0] = contribution.bound
    fails = [np.linalg.eigvalsh(mechanism.noise((d, d), s)).min() < 0 for s in streams(500)]
    absent = [np.linalg.eigvalsh(mechanism.noise((d, d), s) - np.outer(v, v)).min() < 0 for s in streams(500)]
    assert np.mean(fails) > 0.5 and np.mean(absent) > 0.5


def test_the_diagonal_of_the_papers_noise_is_chi_square():
    d, c = 8, 0.5
    matrix = np.array([np.diag(PaperWishart(c, 1.0).noise((d, d), s)) for s in streams(1500)])
    vector = np.array([PaperWishart(c, 1.0).noise((d,), s) for s in streams(1500)])
    law = stats.chi2(d + 1, scale=c)
    assert fits(matrix, law) and fits(vector, law)
    assert not fits(0.93 * vector, law)


def test_diagonal_and_vector_noise_come_from_the_mechanism_scale():
    for mechanism, contribution, law in (
        (Gaussian(2.0), VectorSum((4000,), 1.0), stats.norm(scale=2.0)),
        (Laplace(2.0), DiagonalSum(4000, 1.0), stats.laplace(scale=2.0)),
    ):
        draws = mechanism.add(contribution, np.zeros(4000), streams(1)[0])
        assert fits(draws, law) and not fits(0.8 * draws, law)
