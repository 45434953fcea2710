"""One-run bounds: the recursion against brute force, validity and power by simulation along the canaries' directions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import binom

from taskveil.audits.one_run_bounds import (
    THEOREM_SHARE,
    count_correct,
    fdp_epsilon,
    gaussian_curve,
    gaussian_estimate,
    least_correct,
    outlook,
    recorded_p_value,
    refutes,
    simulated_scores,
    two_lines,
)
from taskveil.privacy.guarantees import gaussian_mu

MU = gaussian_mu(4.0, 1e-5)
ALARM = 0.05


def runs(mu: float, number: int, canaries: int, directions: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    coins = rng.integers(0, 2, (number, canaries)).astype(bool)
    return simulated_scores(coins, directions, mu, rng), coins


def refuted(scores: np.ndarray, coins: np.ndarray, mu: float, guesses: int) -> np.ndarray:
    """The verdict of audits.one_run.conclude, for many runs."""
    k = coins.shape[1]
    by_guesses = count_correct(scores, coins, guesses) >= least_correct(gaussian_curve(mu), k, guesses, THEOREM_SHARE * ALARM)
    return by_guesses | np.array([recorded_p_value(s, c, mu) <= (1 - THEOREM_SHARE) * ALARM for s, c in zip(scores, coins)])


def test_inverse_curves_undo_their_trade_off():
    from scipy.stats import norm

    for r in (0.01, 0.3, 0.9):
        h = gaussian_curve(1.3)(r)
        assert norm.cdf(norm.ppf(h) + 1.3) == pytest.approx(r)
        h = two_lines(1.0, 1e-3)(r)
        assert min(np.e * h + 1e-3, 1 - (1 - 1e-3 - h) / np.e) == pytest.approx(r, abs=1e-12)


def test_guesses_right_by_coin_tossing_refute_nothing_and_all_right_refute_a_small_epsilon():
    assert not refutes(gaussian_curve(0.1), 200, 200, 100, ALARM)
    assert refutes(gaussian_curve(0.1), 200, 200, 200, ALARM)
    assert fdp_epsilon(200, 200, 100, 1e-5, ALARM, True) == 0.0


def test_without_privacy_loss_the_bound_is_no_weaker_than_twice_the_binomial_tail():
    """mu = 0: guesses are coins, whatever the mechanism; the theorem must refute soon after the exact test does."""
    needed = least_correct(gaussian_curve(0.0), 300, 300, ALARM)
    assert binom.sf(needed - 1, 300, 0.5) <= ALARM
    assert needed <= binom.isf(ALARM, 300, 0.5) + 40


def test_a_lower_curve_is_refuted_whenever_a_higher_one_is():
    for correct in range(60, 91):
        verdicts = [refutes(gaussian_curve(mu), 300, 90, correct, ALARM) for mu in (0.2, 0.5, 1.0, 2.0)]
        assert verdicts == sorted(verdicts, reverse=True)


def test_correct_runs_are_refuted_at_most_at_the_stated_rate():
    """400 correct runs at epsilon 4; at a true rate of 5 %, more than 41 has probability below 1e-6."""
    scores, coins = runs(MU, 400, 300, 512, seed=1)
    assert refuted(scores, coins, MU, outlook(300, 700, 512, MU, MU, (4.0, 1e-5)).guesses).sum() <= 20


@pytest.mark.parametrize(
    "fault, mu", [("half the noise", 2 * MU), ("five rounds paid as one", np.sqrt(5) * MU), ("no clipping", 1e6)]
)
def test_faulty_runs_are_refuted_in_more_than_four_of_five(fault, mu):
    scores, coins = runs(mu, 100, 300, 512, seed=2)
    assert refuted(scores, coins, MU, outlook(300, 700, 512, MU, MU, (4.0, 1e-5)).guesses).mean() >= 0.8


def test_the_outlook_says_beforehand_where_nothing_can_be_shown():
    few, many = (outlook(300, 700, d, MU, MU, (4.0, 1e-5)) for d in (28, 512))
    assert few.power < 0.1 and "cannot show much" in few.words() and "share 28 directions" in few.words()
    assert many.power > 0.8 and "cannot" not in many.words()
    for said in (few.words(), many.words()):
        assert "divided by 1000 instead of 700" in said and "delta" in said


def test_the_estimate_is_near_the_truth_and_on_both_sides_of_it():
    scores, coins = runs(MU, 60, 1000, 1024, seed=3)
    found = np.array([gaussian_estimate(s, c, 1e-5) for s, c in zip(scores, coins)])
    assert abs(np.median(found) - 4.0) < 0.5 and (found > 4).any() and (found < 4).any()


@pytest.mark.audit
def test_figures_at_epsilon_one():
    """Reported, not required: what 300 canaries show at epsilon 1 (docs/audit.md)."""
    mu = gaussian_mu(1.0, 1e-5)
    guesses = outlook(300, 700, 512, mu, mu, (1.0, 1e-5)).guesses
    correct, half = (refuted(*runs(f * mu, 400, 300, 512, seed=4), mu, guesses).mean() for f in (1, 2))
    assert correct <= ALARM and 0.3 < half < 0.99
