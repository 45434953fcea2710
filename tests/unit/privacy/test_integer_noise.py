"""Tables are exact to 2^-128, and what is drawn from them follows OpenDP's exact sampler and the closed
forms."""

import numpy as np
import pytest
from scipy import stats

from taskveil.errors import OptionError
from taskveil.privacy.integer_sampler import KeyStream, integer_noise, look_up
from taskveil.privacy.integer_tables import LARGEST_DISTANCE, LAWS, NoiseTable, half_weights, integer_weights, noise_table

FALSE_ALARM = 1e-6


def closed_form(law: str, variance: float, k: np.ndarray) -> np.ndarray:
    if law == "skellam":
        return stats.skellam(variance / 2, variance / 2).pmf(k)
    wide = np.arange(-2000, 2001)
    return np.exp(-(k**2) / (2 * variance)) / np.exp(-(wide**2) / (2 * variance)).sum()


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("variance", [0.3, 2.0, 400.0])
def test_weights_are_the_law_and_add_up_exactly(law, variance):
    weights = integer_weights(half_weights(law, variance))
    assert sum(weights) == 1 << 128 and weights == weights[::-1]
    k = np.arange(-(len(weights) // 2), len(weights) // 2 + 1)
    ours = np.array([float(w) for w in weights]) * 2.0**-128
    assert np.abs(ours - closed_form(law, variance, k)).sum() < 1e-13  # the reference is only a double


@pytest.mark.parametrize("law", LAWS)
def test_the_alias_table_holds_exactly_the_weights(law):
    """Column by column, in integers: what is below the split plus what is aliased adds up to every weight."""
    weights = integer_weights(half_weights(law, 30.0))
    table = noise_table(law, 30.0)
    capacity = 1 << (128 - table.column_bits)
    held = dict.fromkeys(range(table.lowest, table.lowest + (1 << table.column_bits)), 0)
    for column, (high, low, alias) in enumerate(zip(table.split_high, table.split_low, table.alias)):
        split = (int(high) << 64) + int(low)
        held[table.lowest + column] += split
        held[int(alias)] += capacity - split
    assert [held[table.lowest + i] for i in range(len(weights))] == weights
    assert sum(held.values()) == 1 << 128
    assert table.distance <= LARGEST_DISTANCE


def two_sample_p_value(first: np.ndarray, second: np.ndarray, width: int) -> float:
    edges = np.arange(-width, width + 1)
    counts = [np.histogram(np.clip(x, -width, width - 1), bins=edges)[0] for x in (first, second)]
    keep = sum(counts) >= 20
    return float(stats.chi2_contingency(np.stack(counts)[:, keep]).pvalue)


@pytest.mark.statistical
def test_discrete_gaussian_draws_follow_the_exact_sampler_of_opendp():
    """Two-sample chi-square at 1e-6, 60,000 exact against 2,000,000 ours; rejects a table with 5 % less
    deviation."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=60_000)
    exact = np.array(dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=6.0)([0] * 60_000))
    ours = integer_noise("discrete-gaussian", 36.0, 2_000_000, KeyStream(bytes(31) + b"a"))
    short = integer_noise("discrete-gaussian", 36.0 * 0.95**2, 2_000_000, KeyStream(bytes(31) + b"b"))
    assert two_sample_p_value(exact, ours, 40) > FALSE_ALARM
    assert two_sample_p_value(exact, short, 40) < FALSE_ALARM
    assert stats.ks_2samp(exact + 0.0, ours[:200_000] + 0.0, method="asymp").pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS)
def test_draws_follow_the_closed_form(law):
    """Chi-square at 1e-6 on 2,000,000 draws; the same test rejects 1 % less deviation."""
    k = np.arange(-60, 61)
    expected = closed_form(law, 100.0, k)
    expected[[0, -1]] += (1 - expected.sum()) / 2

    def p_value(variance: float, key: bytes) -> float:
        draws = np.clip(integer_noise(law, variance, 2_000_000, KeyStream(key)), -60, 60)
        keep = expected * draws.size > 5
        counts, law_counts = np.bincount(draws + 60, minlength=121)[keep], expected[keep] * draws.size
        return float(stats.chisquare(counts, law_counts * counts.sum() / law_counts.sum()).pvalue)

    assert p_value(100.0, bytes(31) + b"c") > FALSE_ALARM
    assert p_value(100.0 * 0.99**2, bytes(31) + b"d") < FALSE_ALARM


def test_a_key_gives_the_same_noise_everywhere_and_never_the_same_words_twice():
    first, again = KeyStream(bytes(32)), KeyStream(bytes(32))
    a = integer_noise("skellam", 9.0, 100_000, first)
    assert np.array_equal(a, integer_noise("skellam", 9.0, 100_000, again))
    assert not np.array_equal(a, integer_noise("skellam", 9.0, 100_000, first))


def test_impossible_laws_are_refused():
    for law, variance in (("laplace", 1.0), ("skellam", 0.0), ("skellam", 2.0**40)):
        with pytest.raises(OptionError):
            noise_table(law, variance)


def test_ties_with_a_split_are_decided_by_64_further_bits():
    """Column 0 and rest 7 tie with the stored split; the lower half, 5, decides: below it the column, else its alias."""
    table = NoiseTable(10, 1, np.full(2, 7, np.uint64), np.full(2, 5, np.uint64), np.full(2, 99), 0.0)

    class Further(KeyStream):
        def __init__(self, word):
            self.word = word

        def words(self, count):
            return np.full(count, self.word, np.uint64)

    drawn = [int(look_up(table, np.array([7], np.uint64), Further(word))[0]) for word in (4, 5, 6)]
    assert drawn == [10, 99, 99]
