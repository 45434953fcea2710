"""Exact noise for large releases: its tables, its coins and its law, against closed forms and OpenDP."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
from scipy.stats import chi2, chisquare, gamma, ks_2samp, kstest, laplace, norm

from taskveil.privacy import grid_sampler
from taskveil.privacy.grid_sampler import CELL_BITS, grid_steps
from taskveil.privacy.integer_sampler import KeyStream
from taskveil.privacy.keyed_laws import KeyedLaws
from taskveil.privacy.randomness import _opendp_noise, grid, system_noise

REFERENCE = {"gaussian": norm, "laplace": laplace}
FALSE_ALARM = 1e-6
N = 100_000


def steps(law, deviation, size=N, key=1):
    return grid_steps(law, deviation, size, KeyStream(bytes([key]) * 32))


@pytest.mark.parametrize("law", grid_sampler.LAWS)
@pytest.mark.parametrize("deviation", [2.0**40, 1.37 * 2**40, 1.999 * 2**40])
def test_large_draws_follow_their_law(law, deviation):
    """KS on 100,000 draws at 1e-6; the same test rejects noise that is 5 % too small."""
    draws = steps(law, deviation) / deviation
    assert kstest(draws, REFERENCE[law].cdf).pvalue > FALSE_ALARM
    assert kstest(0.95 * draws, REFERENCE[law].cdf).pvalue < FALSE_ALARM


@pytest.mark.parametrize("law", grid_sampler.LAWS)
def test_ours_and_opendp_draw_the_same_law(law):
    """Two-sample KS, 20,000 against 10,000 at 1e-6; noise of another scale is told apart."""
    ours = steps(law, 2.5 / grid(2.5), 20_000) * grid(2.5)
    theirs = _opendp_noise(law, 2.5, 10_000)
    assert ks_2samp(ours, theirs).pvalue > FALSE_ALARM
    assert ks_2samp(1.4 * ours, theirs).pvalue < FALSE_ALARM


@pytest.mark.parametrize("law", grid_sampler.LAWS)
def test_places_within_a_cell_follow_the_density_there(law):
    """Chi-square over 8 parts of the first cells, at 1e-6: without the acceptance coin they would be equally likely."""
    deviation = 2.0**40  # s = 16 cells
    drawn = np.abs(steps(law, deviation, 400_000)) / 2.0**CELL_BITS
    for first in (0, 20):
        inside = drawn[(drawn >= first) & (drawn < first + 8)] - first
        edges = (first + np.arange(9)) / 16
        mass = np.diff(REFERENCE[law].cdf(edges))
        counts = np.histogram(inside, np.arange(9))[0]
        assert chisquare(counts, mass / mass.sum() * counts.sum()).pvalue > FALSE_ALARM
    within = drawn[drawn < 200] % 1
    halves = np.array([(within < 0.5).sum(), (within >= 0.5).sum()])
    assert chisquare(halves).pvalue < FALSE_ALARM  # twin: the law inside a cell is not uniform
    assert abs(halves[0] / halves.sum() - 0.5) < 0.02


def test_low_bits_of_the_noise_are_fair():
    """Each of the 30 lowest bits on 100,000 draws, two-sided at 1e-6 over all of them."""
    bits = (steps("gaussian", 1.3 * 2**40)[:, None] >> np.arange(30)) & 1
    worst = np.abs(bits.mean(axis=0) - 0.5).max()
    assert worst < norm.isf(FALSE_ALARM / 60) * 0.5 / math.sqrt(N)


@pytest.mark.parametrize("law", grid_sampler.LAWS)
def test_tables_hold_the_laws_weights(law):
    """Against 60-digit arithmetic, entry by entry; the whole adds up to one exactly."""
    getcontext().prec = 60
    s = 17.25
    table = grid_sampler._cells(law, s)
    size = 1 << table.column_bits
    mass = [0] * size
    capacity = 1 << (128 - table.column_bits)
    for column in range(size):
        split = (int(table.split_high[column]) << 64) | int(table.split_low[column])
        mass[column] += split
        mass[int(table.alias[column])] += capacity - split
    assert sum(mass) == 1 << 128
    cost = (lambda a: a * a / (2 * Decimal(s) ** 2)) if law == "gaussian" else (lambda a: a / Decimal(s))
    exact = [(-cost(Decimal(a))).exp() for a in range(size)]
    norm_ = sum(exact)
    for a in range(200):
        assert abs(Decimal(mass[a]) / Decimal(2) ** 128 - exact[a] / norm_) < Decimal(2) ** -98
    assert table.distance <= 2.0**-98


def test_coins_that_float64_cannot_decide_are_decided_with_128_bits():
    """Words one unit around exp(-t): float64 sees a tie, the exact comparison does not."""
    getcontext().prec = 60
    s, cell, x = 20.0, 7, 0.625
    for law in grid_sampler.LAWS:
        t = Decimal(x) * (2 * cell + Decimal(x)) / (2 * Decimal(s) ** 2) if law == "gaussian" else Decimal(x) / Decimal(s)
        threshold = int((-t).exp() * Decimal(2) ** 64)
        for word, expected in ((threshold - 1, True), (threshold + 1, False)):
            coins = grid_sampler._accepts(
                law, s, np.array([cell]), np.array([x]), np.array([word], dtype=np.uint64), KeyStream(bytes(32))
            )
            assert coins[0] == expected
        low = int((-t).exp() * Decimal(2) ** 128) - (threshold << 64)
        assert grid_sampler._accepts_exactly(law, s, cell, x, threshold, low - 1)
        assert not grid_sampler._accepts_exactly(law, s, cell, x, threshold, low + 1)


class Words(KeyStream):
    """A key stream that gives out the same word for ever."""

    def __init__(self, word):
        self.word = word

    def words(self, count):
        return np.full(count, self.word, dtype=np.uint64)


def test_zero_counts_once():
    """Word 1: cell 0, place 0, negative. Word 0 is the positive zero."""
    assert not grid_sampler._propose("gaussian", 20.0, 1, Words(1))[1][0]
    step, accepted = grid_sampler._propose("gaussian", 20.0, 1, Words(0))
    assert accepted[0] and step[0] == 0


def test_noise_fills_every_coordinate_whatever_is_rejected():
    for size in (0, 1, grid_sampler.CHUNK, grid_sampler.CHUNK + 1):
        assert len(np.unique(steps("laplace", 2.0**40, size))) == size


INVERTED = {
    "standard_normal": (lambda laws: laws.standard_normal(N), norm),
    "laplace": (lambda laws: laws.laplace(N), laplace),
    "random": (lambda laws: laws.random(N), None),
    "gamma": (lambda laws: laws.gamma(3.5, 1.0, N), gamma(3.5)),
    "chisquare": (lambda laws: laws.chisquare(5.0, N), chi2(5)),
}


@pytest.mark.parametrize("name", INVERTED)
def test_laws_by_inversion_follow_their_closed_forms(name):
    """KS on 100,000 draws at 1e-6; draws shrunk by 5 % are rejected."""
    draw, law = INVERTED[name]
    x = draw(KeyedLaws(KeyStream(bytes([3]) * 32)))
    cdf = law.cdf if law is not None else (lambda v: np.clip(v, 0, 1))
    assert kstest(x, cdf).pvalue > FALSE_ALARM
    assert kstest(0.95 * x, cdf).pvalue < FALSE_ALARM


def test_inversion_is_finite_at_both_ends_of_the_key_stream():
    for word in (0, 2**64 - 1):
        laws = KeyedLaws(Words(word))
        assert np.isfinite(laws.standard_normal(3)).all() and np.isfinite(laws.gamma(2.0, 1.0, 3)).all()
        assert 0 <= laws.random(1)[0] < 1


def test_whole_numbers_are_uniform_and_words_beyond_the_last_multiple_are_drawn_again():
    counts = np.bincount(KeyedLaws(KeyStream(bytes(32))).integers(2, 9, 70_000) - 2, minlength=7)
    assert counts.size == 7 and chisquare(counts).pvalue > FALSE_ALARM

    class TwoWords(KeyStream):
        def __init__(self):
            self.queue = [2**64 - 1, 5]

        def words(self, count):
            return np.array([self.queue.pop(0) for _ in range(count)], dtype=np.uint64)

    assert KeyedLaws(TwoWords()).integers(0, 3, 1)[0] == 5 % 3  # 2^64 - 1 is a multiple's last but one: 2^64 = 3 k + 1


def test_streams_do_not_repeat_each_other():
    source = system_noise()
    a, b = (source.at(1, "S").normal(1.0, 20_000) for _ in range(2))
    assert np.count_nonzero(a == b) < 5
