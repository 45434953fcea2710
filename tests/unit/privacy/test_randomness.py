"""The one sampler: keys, grids, exactness, and what it says about itself."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import ks_2samp, kstest, laplace, norm

from taskveil.errors import OptionError
from taskveil.privacy import randomness
from taskveil.privacy.contributions import DiagonalSum, OuterSum, VectorSum
from taskveil.privacy.mechanisms.gaussian import Gaussian, MatrixGaussian
from taskveil.privacy.mechanisms.laplace import Laplace
from taskveil.privacy.randomness import again, exact_measurement, grid, insecure_seeded_noise, snap, system_noise


def test_seeded_noise_depends_on_seed_round_release_and_task_and_on_nothing_else():
    source = insecure_seeded_noise(7)
    keys = [(1, "S", None), (2, "S", None), (1, "T", None), (1, "S", "a"), (1, "S", "b")]
    first = [source.at(*key).normal(1.0, 4) for key in keys]
    again = [source.at(*key).normal(1.0, 4) for key in reversed(keys)][::-1]
    for x, y in zip(first, again, strict=True):
        assert np.array_equal(x, y)
    assert len({tuple(x) for x in first}) == len(keys)
    assert not np.array_equal(first[0], insecure_seeded_noise(8).at(1, "S").normal(1.0, 4))


def test_a_release_made_again_gets_fresh_noise_and_the_first_attempt_the_planned_one():
    source = insecure_seeded_noise(7)
    draws = [tuple(again(source, attempt).at(1, "S").normal(1.0, 4)) for attempt in (0, 1, 2)]
    assert len(set(draws)) == 3 and draws[0] == tuple(source.at(1, "S").normal(1.0, 4))
    assert again(source, 2).voids_certificate and again(source, 2).describe()["seeded"]


def test_seeded_keys_cannot_run_into_each_other():
    source = insecure_seeded_noise(1)
    assert not np.array_equal(source.at(1, "1S").uniform(4), source.at(11, "S").uniform(4))
    assert not np.array_equal(source.at(1, "S", "None").uniform(4), source.at(1, "S", None).uniform(4))


def test_system_noise_is_never_the_same_twice():
    source = system_noise()
    draws = {tuple(source.at(1, "S").normal(1.0, 3)) for _ in range(20)}
    assert len(draws) == 20


@pytest.mark.parametrize(
    "draw",
    [
        lambda stream: stream.normal(1.0, randomness.OPENDP_LIMIT + 1)[0], lambda stream: float(stream.uniform(1)[0]),
        lambda stream: float(stream.gamma(2.0, 1.0)), lambda stream: stream.key(),
        lambda stream: tuple(stream.bits(64)),
    ],
    ids=["large", "uniform", "gamma", "key", "bits"],
)  # fmt: skip
def test_every_stream_has_a_key_of_its_own(draw):
    source = system_noise()
    assert len({draw(source.at(1, "S")) for _ in range(8)}) == 8


@pytest.mark.parametrize("law", ["normal", "laplace"])
@pytest.mark.parametrize("scale", [1e-6, 0.3, 1.0, 12345.6])
@pytest.mark.parametrize("source", [system_noise(), system_noise(exact=False), insecure_seeded_noise(0)])
def test_noise_lies_on_the_public_grid(source, scale, law):
    noise = getattr(source.at(1, "S"), law)(scale, 50)
    steps = noise / grid(scale)
    assert np.array_equal(steps, np.rint(steps)) and np.abs(steps).max() < 2**53


def test_the_grid_is_a_power_of_two_far_below_the_scale():
    for scale in (1e-9, 0.5, 0.999, 1.0, 3.7, 1e9):
        assert math.frexp(grid(scale))[0] == 0.5
        assert 2.0**-41 < grid(scale) / scale <= 2.0**-40


def test_snapping_moves_a_value_by_at_most_half_a_grid_step_and_is_idempotent():
    values = np.random.default_rng(0).standard_normal(1000) * 100
    snapped = snap(values, 2.5)
    assert np.abs(snapped - values).max() <= grid(2.5) / 2
    assert np.array_equal(snap(snapped, 2.5), snapped)


def test_values_beyond_the_grid_are_left_as_they_are():
    assert np.array_equal(snap(np.array([1e300, -1e300]), 1e-3), [1e300, -1e300])


CASES = [
    (MatrixGaussian, OuterSum(30, 1.0), "gaussian"),
    (Gaussian, VectorSum((500,), 2.0), "gaussian"),
    (Gaussian, DiagonalSum(40, 0.1), "gaussian"),
    (Laplace, DiagonalSum(40, 0.1), "laplace"),
]


@pytest.mark.parametrize("neighbours", ["add-remove", "replace-one"])
@pytest.mark.parametrize(("kind", "contribution", "law"), CASES)
def test_events_charge_at_least_what_opendp_charges_for_rounding_to_the_grid(kind, contribution, law, neighbours):
    """rho (or epsilon) of the event is not below OpenDP's own `.map` of the same draw, and not far above."""
    for parameter in (0.3, 3.0):
        mechanism = kind.calibrated(contribution, neighbours, parameter)
        event = mechanism.event(contribution, neighbours)
        measurement = exact_measurement(law, mechanism.scale, contribution.vector_size)
        s = contribution.sensitivity(neighbours)
        theirs = measurement.map(s.l2 if law == "gaussian" else s.l1)
        ours = event.zcdp() if law == "gaussian" else event.pure_epsilon()
        assert theirs <= ours <= theirs * (1 + 1e-8)


def test_the_check_rejects_an_event_that_ignores_the_grid():
    """Twin: on a coarse grid (k = -10) rounding costs 48 % of rho, and OpenDP charges for it."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="f64", nan=False), size=50_000)
    coarse = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=1.0, k=-10)
    assert coarse.map(1.0) > 1.4 * 0.5


@pytest.mark.parametrize("law", ["normal", "laplace"])
def test_draws_of_every_size_are_exact_and_say_by_which_sampler(monkeypatch, law):
    monkeypatch.setattr(randomness, "OPENDP_LIMIT", 100)
    source = system_noise()
    getattr(source.at(1, "S"), law)(1.0, 100)
    assert source.describe()["exact"] and source.describe()["seeded"] is False
    assert "OpenDP" in source.describe()["samplers"][0]
    getattr(source.at(1, "S"), law)(1.0, (101, 2))
    said = source.describe()
    assert said["exact"] and any("ChaCha20" in s for s in said["samplers"])
    inexact = system_noise(exact=False)
    getattr(inexact.at(1, "S"), law)(1.0, 3)
    assert not inexact.describe()["exact"] and inexact.describe()["samplers"][0].startswith("float64")


@pytest.mark.parametrize(("law", "reference"), [("normal", norm), ("laplace", laplace)])
def test_without_opendp_small_draws_are_ours_follow_the_same_law_and_lie_on_the_same_grid(monkeypatch, law, reference):
    """KS at 1e-6 on 20,000 numbers drawn five at a time, against the law and against 5,000 of OpenDP's; a tenth less is told."""
    scale = 0.7
    theirs = getattr(system_noise().at(1, "S"), law)(scale, 5_000)
    monkeypatch.setattr(randomness, "opendp_is_installed", lambda: False)
    source = system_noise()
    ours = np.concatenate([getattr(source.at(k, "S"), law)(scale, 5) for k in range(4_000)])
    assert ks_2samp(ours, theirs).pvalue > 1e-6 and ks_2samp(1.4 * ours, theirs).pvalue < 1e-6
    assert kstest(ours / scale, reference.cdf).pvalue > 1e-6 and kstest(0.8 * ours / scale, reference.cdf).pvalue < 1e-6
    assert np.array_equal(snap(ours, scale), ours) and len(np.unique(ours)) == len(ours)
    said = source.describe()
    assert said["exact"] and all("ChaCha20" in s and "OpenDP" not in s for s in said["samplers"])


def every_draw(source, size):
    stream = source.at(1, "S")
    stream.normal(1.0, size), stream.laplace(1.0, size), stream.uniform(size), stream.gamma(2.0, 1.0, size)
    stream.chi_square(3.0, size), stream.chi_square(np.arange(1.0, 4.0)), stream.direction(size), stream.wishart(4, 5, 1.0)
    stream.wishart(3, 4, 1.0, (2,)), stream.integers(0, 7, size), stream.bits(size), stream.key()


def test_no_unseeded_draw_of_any_size_comes_from_a_generator_that_is_not_cryptographic(monkeypatch):
    """The attack of old: above 100,000 coordinates noise came from Philox, whose outputs give its state away."""

    def refuse(*arguments, **options):
        raise AssertionError("a NumPy generator was made for unseeded noise")

    for name in ("Philox", "PCG64", "MT19937", "SFC64", "default_rng", "Generator"):
        monkeypatch.setattr(np.random, name, refuse)
    for size in (10, randomness.OPENDP_LIMIT + 1, 100_001):
        every_draw(system_noise(), size)
        every_draw(system_noise(exact=False), 10)
    with pytest.raises(AssertionError):  # twin: the same net catches the seeded source
        every_draw(insecure_seeded_noise(0), 10)


def test_laws_without_an_exact_sampler_are_named():
    source = system_noise()
    source.at(1, "S").wishart(3, 4, 1.0)
    assert not source.describe()["exact"] and "wishart" in source.describe()["samplers"][0]


def test_seeded_noise_says_what_it_is():
    said = insecure_seeded_noise(5).describe()
    assert said["seeded"] and not said["exact"] and insecure_seeded_noise(5).voids_certificate
    assert "5" not in said["source"]


@pytest.mark.parametrize("seed", [-1, 1.5, True])
def test_a_seed_is_a_whole_number(seed):
    with pytest.raises(OptionError, match="seed"):
        insecure_seeded_noise(seed)


@pytest.mark.parametrize("source", [system_noise(), insecure_seeded_noise(0)])
def test_coins_come_at_their_rate_and_uniforms_lie_in_the_unit_interval(source):
    stream = source.at(1, "cohort")
    assert 0.08 < stream.bernoulli(0.1, 20_000).mean() < 0.12
    assert not stream.bernoulli(0.0, 1000).any() and stream.bernoulli(1.0, 1000).all()
    u = stream.uniform((100, 3))
    assert u.shape == (100, 3) and (u >= 0).all() and (u < 1).all()
    assert stream.normal(1.0, 0).shape == (0,)
    assert set(np.unique(stream.integers(0, 3, 200))) == {0, 1, 2}
