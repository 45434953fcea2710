"""Counts to lower bounds: exact intervals, both directions, and the theorem for one run with many canaries."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import beta, binom

from taskveil.audits.lower_bound import (
    choose_test,
    clopper_pearson,
    epsilon_bound,
    held_out_bound,
    one_run_bound,
    one_run_p_value,
)


def test_limits_are_those_of_the_beta_distribution():
    low, high = clopper_pearson(np.array([3, 50, 97]), 100, 0.01)
    assert np.allclose(low, beta.ppf(0.01, [3, 50, 97], [98, 51, 4]))
    assert np.allclose(high, beta.ppf(0.99, [4, 51, 98], [97, 50, 3]))


def test_no_hits_and_only_hits_have_the_closed_form_limits():
    low, high = clopper_pearson(np.array([0, 20]), 20, 0.05)
    assert np.allclose(low, [0.0, 0.05 ** (1 / 20)])
    assert np.allclose(high, [1 - 0.05 ** (1 / 20), 1.0])


@pytest.mark.parametrize("p", [0.01, 0.3, 0.9])
def test_the_lower_limit_covers_at_its_level(p):
    """Exact, by summing the binomial law: P(lower limit > p) <= alpha."""
    n, alpha = 200, 0.05
    k = np.arange(n + 1)
    assert binom.pmf(k, n, p)[clopper_pearson(k, n, alpha)[0] > p].sum() <= alpha


def test_delta_is_taken_off_before_the_ratio():
    without, with_delta = (float(epsilon_bound(np.array(300), 1000, np.array(10), 1000, d, 0.05)) for d in (0.0, 0.25))
    assert with_delta < without
    assert float(epsilon_bound(np.array(300), 1000, np.array(10), 1000, 0.9, 0.05)) == 0.0


@pytest.mark.parametrize("swap", [False, True])
def test_both_orders_of_the_neighbours_are_tried(swap):
    """Uniform on [0, 1) against [0, 0.5): certainty in one order only; found whichever world it is."""
    rng = np.random.default_rng(0)
    wide, narrow = rng.random(4000), rng.random(4000) / 2
    first, second = (narrow, wide) if swap else (wide, narrow)
    test = choose_test({"s": first[:1000]}, {"s": second[:1000]}, 0.0, 0.05)
    assert held_out_bound(test, {"s": first[1000:]}, {"s": second[1000:]}, 0.0, 0.05) > 4.0


def test_one_run_p_value_without_delta_is_the_binomial_tail():
    assert one_run_p_value(50, 40, 35, 1.0, 0.0) == pytest.approx(binom.sf(34, 40, np.e / (1 + np.e)))


def test_one_run_delta_term_is_the_one_of_the_theorem():
    """Thm. 5.2, computed by the plain double loop."""
    q = np.e / (1 + np.e)
    largest = max(sum(binom.pmf(35 - j, 40, q) for j in range(1, i + 1)) / i for i in range(1, 36))
    expected = binom.sf(34, 40, q) + 2 * 50 * 1e-4 * largest
    assert one_run_p_value(50, 40, 35, 1.0, 1e-4) == pytest.approx(expected)


def test_one_run_bound_is_the_largest_rejected_epsilon():
    bound = one_run_bound(200, 200, 200, 0.0, 0.05)
    q = 0.05 ** (1 / 200)
    assert bound == pytest.approx(np.log(q / (1 - q)), rel=1e-6)
    assert one_run_bound(200, 200, 100, 1e-5, 0.05) == 0.0
