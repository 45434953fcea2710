"""How much may be guessed right in one run: two theorems, an exact test, an estimate, and what to expect before the run.

K canaries, each with a fair coin of its own. The attacker guesses `guesses` of the coins and leaves the rest; `correct` hit.

    f-DP        Mahloujifar, Melis, Chaudhuri 2025 (arXiv:2410.22235), for two values a canary. With p_i the chance of exactly
                i correct guesses, r_j = sum over i >= j of i p_i / K and h_j = sum over i >= j of (guesses - i) p_i / K, every
                f-DP run has r_(j+1) <= 1 - f(h_j). Suppose P(correct or more) were alpha and walk down from there: if r_0 + h_0
                must exceed guesses / K, the supposition was wrong, and f is refuted at level alpha.
    threshold   Steinke, Nasr, Jagielski 2023, Thm. 5.2 (lower_bound.one_run_bound): any (epsilon, delta)-DP, weaker.
    as recorded the distance of the two groups of scores over their spread is a noncentral t, if every canary has a direction of
                its own and the noise is the Gaussian that the certificate records. It refutes the recorded noise, exactly at its
                level; it is no bound for releases of another shape.
    estimate    Andrew et al. 2023: the scores are read as Gaussian. No bound: it may lie on either side of the truth.

f is the curve of the claim: Gaussian DP with its mu, or the two lines of (epsilon, delta). The bound is the largest member of
that family which is refuted. How many guesses are made is settled before the run, from public sizes and the planned noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import nct

from taskveil.privacy.guarantees import gaussian_epsilon

Inverse = Callable[[float], float]  # r -> smallest h with r <= 1 - f(h)
LARGEST_MU, LARGEST_EPSILON = 40.0, 60.0
SIMULATIONS = 200
SHARES = tuple(k / 40 for k in range(4, 41))  # of the canaries that may be guessed
THEOREM_SHARE = 0.8  # of the false-alarm probability; the rest is for the exact test of the recorded noise
WEAK = 0.5  # chance of refuting half the noise below which an audit says that it cannot


def gaussian_curve(mu: float) -> Inverse:
    """The inverse trade-off curve of a mu-Gaussian mechanism."""
    return lambda r: float(ndtr(ndtri(r) - mu)) if r < 1 else 1.0


def two_lines(epsilon: float, delta: float) -> Inverse:
    """The inverse trade-off curve of (epsilon, delta): two straight lines."""
    grow = math.exp(min(epsilon, 700.0))
    return lambda r: min(1.0, max(0.0, (r - delta) / grow, 1 - delta - grow * (1 - r)))


def refutes(inverse: Inverse, canaries: int, guesses: int, correct: int, alpha: float) -> bool:
    """Whether so many correct guesses have probability below alpha under every run with this curve."""
    if not 0 < correct <= guesses <= canaries:
        return False
    r, h = alpha * correct / canaries, alpha * (guesses - correct) / canaries
    for i in range(correct - 1, -1, -1):
        higher = max(h, inverse(r))
        r += i / (guesses - i) * (higher - h)
        h = higher
        if r + h > guesses / canaries:
            return True
    return False


def largest_refuted(
    family: Callable[[float], Inverse], most: float, canaries: int, guesses: int, correct: int, alpha: float
) -> float:
    """The largest parameter whose curve is refuted; 0 where none is."""
    low, high = 0.0, most
    if not refutes(family(0.0), canaries, guesses, correct, alpha):
        return 0.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if refutes(family(middle), canaries, guesses, correct, alpha) else (low, middle)
    return low


def fdp_epsilon(canaries: int, guesses: int, correct: int, delta: float, alpha: float, gaussian: bool) -> float:
    """Lower bound on epsilon at delta with confidence 1 - alpha, for a claim of Gaussian DP or of (epsilon, delta) alone."""
    counts = (canaries, guesses, correct, alpha)
    if gaussian:
        return gaussian_epsilon(delta, largest_refuted(gaussian_curve, LARGEST_MU, *counts))
    return largest_refuted(lambda epsilon: two_lines(epsilon, delta), LARGEST_EPSILON, *counts)


def least_correct(inverse: Inverse, canaries: int, guesses: int, alpha: float) -> int:
    """The fewest correct guesses that refute; guesses + 1 where none do."""
    low, high = 0, guesses + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if refutes(inverse, canaries, guesses, middle, alpha) else (middle, high)
    return high


def gaussian_estimate(scores: np.ndarray, coins: np.ndarray, delta: float) -> float | None:
    """Epsilon if scores were Gaussian with one spread (Andrew et al. 2023); an estimate, not a bound."""
    inside, outside = scores[coins], scores[~coins]
    if min(len(inside), len(outside)) < 2:
        return None
    spread = math.sqrt((inside.var(ddof=1) + outside.var(ddof=1)) / 2)
    gap = float(inside.mean() - outside.mean())
    return gaussian_epsilon(delta, max(gap, 0.0) / spread) if spread > 0 else None


def recorded_p_value(scores: np.ndarray, coins: np.ndarray, mu: float) -> float:
    """How likely scores are this far apart if the two worlds of a canary lie at most `mu` Gaussian noise units apart."""
    n1, n0 = int(coins.sum()), int((~coins).sum())
    if min(n1, n0) < 2:
        return 1.0
    inside, outside = scores[coins], scores[~coins]
    degrees = n1 + n0 - 2
    pooled = (inside.var() * n1 + outside.var() * n0) / degrees
    unit = math.sqrt(1 / n1 + 1 / n0)
    if pooled <= 0:
        return 0.0
    t = float(inside.mean() - outside.mean()) / math.sqrt(pooled) / unit
    if t > 1e3 + 2 * mu / unit:  # beyond what the noncentral law's routine can handle
        return 0.0
    return float(nct.sf(t, degrees, mu / unit))


def surest(scores: np.ndarray, guesses: int) -> np.ndarray:
    """Positions of the guesses: the scores furthest from the middle, which is zero."""
    return np.argsort(-np.abs(scores), axis=-1, kind="stable")[..., :guesses]


def count_correct(scores: np.ndarray, coins: np.ndarray, guesses: int) -> np.ndarray:
    """How many of the surest guesses are right; runs in rows."""
    at = surest(scores, guesses)
    return (np.take_along_axis(scores > 0, at, -1) == np.take_along_axis(coins, at, -1)).sum(axis=-1)


def simulated_scores(
    coins: np.ndarray, directions: int, distance: float, rng: np.random.Generator, apart: bool = True
) -> np.ndarray:
    """Scores of runs in rows: canary i lies on direction i mod `directions`, its two worlds `distance` noise units apart.

    `apart=False`: on a direction of its own that is only nearly orthogonal to the others', with a squared cosine of 1/directions
    on average; the others' coins are then noise.
    """
    signs = np.where(coins, 1.0, -1.0) * distance / 2
    if not apart:
        spread = math.sqrt(1 + (distance / 2) ** 2 * (coins.shape[-1] - 1) / directions)
        return np.asarray(signs + spread * rng.standard_normal(coins.shape))
    of = np.arange(coins.shape[-1]) % directions
    seen = rng.standard_normal((*coins.shape[:-1], directions))
    for start in range(0, coins.shape[-1], directions):
        part = signs[..., start : start + directions]
        seen[..., : part.shape[-1]] += part
    return seen[..., of]


@dataclass(frozen=True)
class Outlook:
    """What a one-run audit can show, and what it costs, before the run; from public sizes and planned noise alone."""

    canaries: int
    tasks: int  # real ones
    directions: int
    guesses: int
    power: float  # chance that half the noise is refuted at `alarm`
    power_of_guesses: float  # of this, by the f-DP theorem alone
    alarm: float
    typical_bound: float  # median of the bound with 95 % confidence if all is well
    claimed_epsilon: float
    delta: float
    noise_growth: float  # of the standard deviation of what is shared, by the canaries' own coins
    exact: bool = True  # whether every canary has a direction of its own, orthogonal to the others'

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    def words(self) -> str:
        """What such an audit can show, in a sentence."""
        able = (
            f"half the noise would be refuted in about {self.power:.0%} of runs".replace("%", " %")
            if self.power >= WEAK
            else f"it cannot show much: half the noise would be refuted in about {self.power:.0%} of runs only".replace("%", " %")
        )
        why = "" if self.canaries <= self.directions else f", because {self.canaries} canaries share {self.directions} directions"
        return (
            f"one-run audit with {self.canaries} canary tasks beside {self.tasks}: {able}{why}; a correct run typically shows "
            f"epsilon {self.typical_bound:.2g} of the claimed {self.claimed_epsilon:.3g} at delta {self.delta:.2g}. "
            f"Price: what is "
            f"shared is divided by {self.tasks + self.canaries} instead of {self.tasks} tasks, and its noise is "
            f"{self.noise_growth:.2f} times as large."
        )


@lru_cache(maxsize=64)  # a function of public values, asked again and again where audits are repeated
def outlook(
    canaries: int, tasks: int, directions: int, seen_mu: float, claimed_mu: float | None, claim: tuple[float, float],
    alarm: float = 0.05, apart: bool = True,
) -> Outlook:  # fmt: skip
    """Simulated along the canaries' directions. `seen_mu`: distance of a canary's worlds in noise; claim: epsilon, delta."""
    rng = np.random.default_rng(20230516)  # the outlook is a function of public values: everybody computes the same
    coins = rng.integers(0, 2, (SIMULATIONS, canaries)).astype(bool)
    well, half = (simulated_scores(coins, directions, f * seen_mu, rng, apart) for f in (1.0, 2.0))
    exact = apart and canaries <= directions
    both = claimed_mu is not None and exact
    level = alarm * THEOREM_SHARE if both else alarm
    inverse = two_lines(*claim) if claimed_mu is None else gaussian_curve(claimed_mu)
    best = (-1.0, 0, 0)
    for share in SHARES:
        guesses = max(int(share * canaries), 1)
        needed = least_correct(inverse, canaries, guesses, level)
        correct = count_correct(half, coins, guesses)
        best = max(best, (float((correct >= needed).mean()) + 1e-3 * float((correct / needed).mean()), guesses, needed))
    guesses, needed = best[1], best[2]
    refuted = count_correct(half, coins, guesses) >= needed
    power = by_guesses = float(refuted.mean())
    if both and claimed_mu is not None:
        power = float((refuted | [recorded_p_value(s, c, claimed_mu) <= alarm - level for s, c in zip(half, coins)]).mean())
    middle = int(np.median(count_correct(well, coins, guesses)))
    typical = fdp_epsilon(canaries, guesses, middle, claim[1], 0.05, claimed_mu is not None)
    growth = math.sqrt(1 + (seen_mu / 2) ** 2 * canaries / directions)
    return Outlook(canaries, tasks, directions, guesses, power, by_guesses, alarm, typical, *claim, growth, exact)
