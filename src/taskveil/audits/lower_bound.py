"""From counts to a lower bound on epsilon: a threshold test, its exact confidence interval, both directions.

(epsilon, delta)-DP bounds every test between two neighbours (Kairouz, Oh, Viswanath 2015, Thm. 2.1): for every event E and
either order of the neighbours, P1(E) <= e^epsilon P0(E) + delta. An event seen in k1 of n1 runs of one and k0 of n0 runs of
the other therefore shows, with confidence 1 - alpha,

    epsilon >= log((p1 - delta) / p0),    p1 a lower, p0 an upper Clopper-Pearson limit, each at alpha / 2.

The event is a half-line of a score. Score, threshold, side and order are chosen on a selection part of the runs, counts come
from the other part, so the interval is exact whatever was tried. `refuted` needs confidence 1 - 1e-6: a correct mechanism is
refuted with probability at most 1e-6, over all stages of an audit together.

Where the claim is mu-Gaussian DP, as for unsampled Gaussian releases, it is the whole curve that is claimed, and any test refutes
it: mu >= Phi^-1(p1) - Phi^-1(p0) for every mu-GDP release, whatever its true shape (Dong, Roth, Su 2022, Thm. 2.7; used for
audits by Nasr et al. 2023). Tests in the middle of the curve need far fewer runs than those in the tail where delta lives.

A lower bound refutes; it proves nothing. A small one says that this attack, with this many runs, found no more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from scipy.special import betaincinv, ndtri

from taskveil.errors import OptionError

CONFIDENCE = 0.95
FALSE_ALARM = 1e-6  # of the verdict `refuted`, for a mechanism that keeps its claim
LEVELS = 400  # candidate thresholds per score

Scores = Mapping[str, np.ndarray]
Bound = Callable[[np.ndarray, int, np.ndarray, int, float, float], np.ndarray]


@dataclass(frozen=True)
class Test:
    """An event {score above threshold} or {score at most threshold}, likelier in the world `more`."""

    score: str
    threshold: float
    above: bool
    more: int  # the world (0 or 1) whose probability stands in the numerator
    guess: float  # the bound seen on the selection part; only for choosing


def clopper_pearson(successes: np.ndarray, runs: int, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """One-sided limits at level alpha each: P(p < lower) <= alpha and P(p > upper) <= alpha."""
    k = np.asarray(successes, dtype=np.float64)
    inside_low, inside_high = k > 0, k < runs
    low = betaincinv(np.where(inside_low, k, 1.0), runs - k + 1, alpha)
    high = betaincinv(k + 1, np.where(inside_high, runs - k, 1.0), 1 - alpha)
    return np.where(inside_low, low, 0.0), np.where(inside_high, high, 1.0)


def epsilon_bound(more: np.ndarray, more_runs: int, fewer: np.ndarray, fewer_runs: int, delta: float, alpha: float) -> np.ndarray:
    """max(0, log((p1 - delta)/p0)) with confidence 1 - alpha from counts of one event in both worlds; vectorised."""
    p1 = clopper_pearson(more, more_runs, alpha / 2)[0] - delta
    p0 = clopper_pearson(fewer, fewer_runs, alpha / 2)[1]
    with np.errstate(divide="ignore"):
        return np.maximum(0.0, np.log(np.maximum(p1, 1e-300) / p0))


def mu_bound(more: np.ndarray, more_runs: int, fewer: np.ndarray, fewer_runs: int, delta: float, alpha: float) -> np.ndarray:
    """max(0, Phi^-1(p1) - Phi^-1(p0)): mu of any mu-GDP release is at least this; `delta` plays no part."""
    p1 = clopper_pearson(more, more_runs, alpha / 2)[0]
    p0 = clopper_pearson(fewer, fewer_runs, alpha / 2)[1]
    return np.where((p1 > 0) & (p0 < 1), np.maximum(0.0, ndtri(np.maximum(p1, 1e-300)) - ndtri(np.minimum(p0, 1.0))), 0.0)


def choose_test(first: Scores, second: Scores, delta: float, alpha: float, bound: Bound = epsilon_bound) -> Test:
    """The score, threshold, side and order with the largest bound on the selection part (worlds 0 and 1)."""
    best = Test("none", math.inf, True, 1, -1.0)
    for name, scores in first.items():
        candidate = _best_threshold(name, np.sort(scores), np.sort(second[name]), delta, alpha, bound)
        best = max(best, candidate, key=lambda test: test.guess)
    return best


def _best_threshold(name: str, s0: np.ndarray, s1: np.ndarray, delta: float, alpha: float, bound: Bound) -> Test:
    thresholds = _candidates(s0, s1)
    n0, n1 = s0.size, s1.size
    below0, below1 = (np.searchsorted(s, thresholds, side="right") for s in (s0, s1))
    counts = {True: (n0 - below0, n1 - below1), False: (below0, below1)}
    options = []
    for above, (k0, k1) in counts.items():
        for more, bounds in ((1, bound(k1, n1, k0, n0, delta, alpha)), (0, bound(k0, n0, k1, n1, delta, alpha))):
            at = int(np.argmax(bounds))
            options.append(Test(name, float(thresholds[at]), above, more, float(bounds[at])))
    return max(options, key=lambda test: test.guess)


def _candidates(s0: np.ndarray, s1: np.ndarray) -> np.ndarray:
    """All values of small samples; quantiles of large ones, dense in the tails where ratios are extreme, ends included."""
    if s0.size + s1.size <= 4 * LEVELS:
        return np.unique(np.concatenate([s0, s1]))
    levels = 1 / (1 + np.exp(-np.linspace(-14.0, 14.0, LEVELS)))
    picked = [s[np.minimum((levels * s.size).astype(int), s.size - 1)] for s in (s0, s1)]
    ends = [s[[0, -1]] for s in (s0, s1)]
    return np.unique(np.concatenate([*picked, *ends]))


def held_out_bound(test: Test, first: Scores, second: Scores, delta: float, alpha: float, bound: Bound = epsilon_bound) -> float:
    """The bound of a chosen test on runs that took no part in choosing it."""
    if test.score == "none":
        return 0.0
    hits = [int(np.sum((s[test.score] > test.threshold) == test.above)) for s in (first, second)]
    runs = [s[test.score].size for s in (first, second)]
    one, other = test.more, 1 - test.more
    return float(bound(np.array(hits[one]), runs[one], np.array(hits[other]), runs[other], delta, alpha))


# ------------------------------------------------------- one run, many canaries


def one_run_p_value(canaries: int, guesses: int, correct: int, epsilon: float, delta: float) -> float:
    """How likely an (epsilon, delta)-DP run lets `correct` of `guesses` be right: Steinke, Nasr, Jagielski 2023, Thm. 5.2.

    Every canary's bit is a fair coin of its own; the attacker abstains on canaries - guesses of them. With q = e^eps / (1 +
    e^eps) the number of correct guesses is stochastically below Binomial(guesses, q), up to delta:
    p <= P(Bin >= v) + 2 m delta max_i P(v - i <= Bin < v) / i.
    """
    from scipy.stats import binom

    q = 1 / (1 + math.exp(-epsilon))
    tail = float(binom.sf(correct - 1, guesses, q))
    if delta > 0 and correct > 0:
        steps = np.arange(1, correct + 1)
        inside = np.cumsum(binom.pmf(correct - steps, guesses, q))
        tail += 2 * canaries * delta * float(np.max(inside / steps))
    return min(tail, 1.0)


def one_run_bound(canaries: int, guesses: int, correct: int, delta: float, alpha: float) -> float:
    """The largest epsilon rejected at level alpha; 0 where none is."""
    if not 0 <= correct <= guesses <= canaries:
        raise OptionError("expected 0 <= correct <= guesses <= canaries")
    low, high = 0.0, 50.0
    if one_run_p_value(canaries, guesses, correct, low, delta) > alpha:
        return 0.0
    for _ in range(60):
        middle = (low + high) / 2
        rejected = one_run_p_value(canaries, guesses, correct, middle, delta) <= alpha
        low, high = (middle, high) if rejected else (low, middle)
    return low
