"""The largest privacy loss (least noise) that meets a target, found by root finding and rounded toward more
noise.

One number c scales a whole plan: release t gets noise multiplier 1/(c w_t) or epsilon c w_t, w_t its
weight. Epsilon grows with c. Plans of unsampled Gaussian releases have a closed form; the others are solved
on a log-log scale, where epsilon is close to linear in c, so that few evaluations of an expensive
accountant suffice.

Budget schedules over rounds: how much of the budget each round gets, and the largest base epsilon.

MP-MTL section 3.5: eps_t = eps_0 t^alpha (convex) or eps_0 Q^-t (strongly convex), eps_0 the largest value
with CB({eps_t}, delta) <= eps, CB the composition bound of Def. 7. alpha = 0 is uniform. Weights are
relative: plans rescale them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, logsumexp, xlog1py, xlogy

from taskveil.checks import Number, Whole
from taskveil.errors import OptionError
from taskveil.privacy.accountants import ACCOUNTANTS, best_epsilon, candidates, merge
from taskveil.privacy.accountants.base import composition_bound
from taskveil.privacy.accountants.pld import Pld
from taskveil.privacy.events import Charge, GaussianEvent, SampledGaussianEvent
from taskveil.privacy.guarantees import gaussian_mu, rdp_to_epsilon
from taskveil.privacy.units import Neighbours

PLD_TOLERANCE = 5e-4  # relative, in epsilon; the answer lies below the target by at most about this much
CHEAP_TOLERANCE = 1e-10
ROUNDS = Whole(1)
COARSE_POINTS = 600  # of a first, quick pass that only finds the neighbourhood
_ROUGH_ORDERS = np.array([1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64, 128, 256, 512])

FloatArray = NDArray[np.float64]
ChargesAt = Callable[[float], list[Charge]]


def largest_feasible(
    epsilon_at: Callable[[float], float],
    target: float,
    start: float,
    *,
    tolerance: float,
    slope: float = 1.0,
    max_steps: int = 200,
) -> float:
    """Largest c with epsilon_at(c) <= target, up to `tolerance` in log epsilon; always on the feasible side.

    `epsilon_at` must not decrease. Secant steps on (log c, log epsilon), safeguarded by a bracket; `slope` is
    a first guess of d log epsilon / d log c.
    """
    goal = -tolerance / 2
    x, low, high = math.log(start), -math.inf, math.inf
    points: list[tuple[float, float]] = []
    for _ in range(max_steps):
        y = _log_ratio(epsilon_at(math.exp(x)), target)
        if -tolerance <= y <= 0:
            return math.exp(x)
        low, high = (x, high) if y <= 0 else (low, x)
        if high - low < 1e-15 * max(1.0, abs(low)):
            break
        points = [*points[-1:], (x, y)]
        x = _next_point(points, goal, low, high, slope)
    if not math.isinf(low):
        return math.exp(low)
    if max_steps < 200:
        return math.exp(x)  # a quick look for a starting point only
    raise OptionError("no amount of noise meets this target; check epsilon, delta and the mechanism")


def _next_point(points: list[tuple[float, float]], goal: float, low: float, high: float, slope: float) -> float:
    x, y = points[-1]
    if len(points) == 2 and points[0][0] != x and abs(y) < 30 and abs(points[0][1]) < 30:
        slope = (y - points[0][1]) / (x - points[0][0])
    step = (goal - y) / slope if slope > 1e-3 else math.copysign(1.0, goal - y)
    proposal = x + max(-3.0, min(3.0, step))
    inside = low < proposal < high
    if inside and (math.isinf(low) or math.isinf(high) or min(proposal - low, high - proposal) > 1e-6 * (high - low)):
        return proposal
    if math.isinf(low) or math.isinf(high):
        return x + math.copysign(1.0, goal - y)
    return (low + high) / 2


def _log_ratio(epsilon: float, target: float) -> float:
    if epsilon <= 0:
        return -50.0
    return 50.0 if not math.isfinite(epsilon) else math.log(epsilon / target)


def largest_loss(charges_at: ChargesAt, epsilon: float, delta: float, accountant: str | None = None) -> float:
    """Largest c for which `charges_at(c)` is (epsilon, delta)-DP by the best (or the named) accountant."""
    probe = merge(charges_at(1.0))
    names = [accountant] if accountant else candidates(probe, delta)
    if names == ["gaussian"]:
        return _gaussian_loss(probe, epsilon, delta)
    return max(_loss_for(name, charges_at, epsilon, delta) for name in names)


def _gaussian_loss(probe: Sequence[Charge], epsilon: float, delta: float) -> float:
    """Closed form: the probe at c = 1 is one Gaussian with mu_1; mu scales with c."""
    squares = [c.count / c.event.noise_multiplier**2 for c in probe if isinstance(c.event, GaussianEvent)]
    mu_one = math.sqrt(math.fsum(squares))
    return gaussian_mu(epsilon, delta) / mu_one * (1 - 1e-12)


def _loss_for(name: str, charges_at: ChargesAt, epsilon: float, delta: float) -> float:
    account = ACCOUNTANTS.get(name)
    start = epsilon / sum(c.count for c in charges_at(1.0))
    if name != "pld":
        sampled = any(isinstance(c.event, SampledGaussianEvent) for c in charges_at(1.0))
        tolerance = PLD_TOLERANCE if sampled else CHEAP_TOLERANCE  # sampled Renyi curves take 50 ms each
        start = _rough_start(charges_at, epsilon, delta, start) if sampled else start
        return largest_feasible(lambda c: account.epsilon(charges_at(c), delta), epsilon, start, tolerance=tolerance)
    guess = _rough_start(charges_at, epsilon, delta, start)
    coarse = Pld(points=COARSE_POINTS)
    guess = largest_feasible(lambda c: coarse.epsilon(charges_at(c), delta), epsilon, guess, tolerance=2e-2)
    nearby = [coarse.epsilon(charges_at(c), delta) for c in (guess * 0.99, guess * 1.01)]
    slope = math.log(max(nearby[1] / max(nearby[0], 1e-300), 1.001)) / math.log(1.01 / 0.99)
    return largest_feasible(lambda c: account.epsilon(charges_at(c), delta), epsilon, guess, tolerance=PLD_TOLERANCE, slope=slope)


def _rough_start(charges_at: ChargesAt, epsilon: float, delta: float, start: float) -> float:
    return largest_feasible(lambda c: _rough_epsilon(charges_at(c), delta), epsilon, start, tolerance=0.2, max_steps=12)


def _rough_epsilon(charges: list[Charge], delta: float) -> float:
    """A quick Renyi estimate at few orders, only to start the search; it certifies nothing."""
    curve = np.zeros(len(_ROUGH_ORDERS))
    for charge in merge(charges):
        event = charge.event
        if isinstance(event, SampledGaussianEvent):
            curve += charge.count * _rough_sampled(event)
        else:
            curve += charge.count * event.rdp(_ROUGH_ORDERS)
    return rdp_to_epsilon(curve, _ROUGH_ORDERS, delta) * (1 - 1e-12) + 1e-12


def _rough_sampled(event: SampledGaussianEvent) -> FloatArray:
    """Mironov, Talwar, Zhang 2019, eq. (binomial sum) at integer orders, rounded up to the next one."""
    z, q = event.noise_multiplier, event.rate
    z = z / math.sqrt(2) if event.neighbours is Neighbours.REPLACE_ONE else z
    curve = []
    for a in np.ceil(_ROUGH_ORDERS):
        i = np.arange(a + 1)
        terms = gammaln(a + 1) - gammaln(i + 1) - gammaln(a - i + 1) + (i * i - i) / (2 * z**2)
        terms = terms + xlogy(i, q) + xlog1py(a - i, -q)
        curve.append(max(float(logsumexp(terms)), 0.0) / (a - 1))
    return np.array(curve)


def verify_target(charges: list[Charge], epsilon: float, delta: float, accountant: str | None = None) -> float:
    """The certified epsilon of the finished charges; an error if it exceeds the target."""
    reached, _ = best_epsilon(charges, delta, accountant)
    if reached > epsilon:
        raise OptionError(f"calibration ended above its target ({reached!r} > {epsilon!r}); nothing was released")
    return reached


def uniform(rounds: int) -> FloatArray:
    """The same share for every round."""
    return np.ones(ROUNDS.check("rounds", rounds))


def power(rounds: int, alpha: float) -> FloatArray:
    """Shares proportional to t^alpha, t = 1, ..., rounds."""
    return np.arange(1, ROUNDS.check("rounds", rounds) + 1, dtype=np.float64) ** alpha


def geometric(rounds: int, Q: float) -> FloatArray:
    """Shares proportional to Q^-t, t = 1, ..., rounds, the largest being 1 (Q^-t may overflow)."""
    exponents = -np.arange(1, ROUNDS.check("rounds", rounds) + 1) * np.log(Number(above=0).check("Q", Q))
    # A share of 1e-100 is nothing, but not zero.
    return np.asarray(np.exp(np.maximum(exponents - exponents.max(), -230.0)))


def largest_base_epsilon(weights: Sequence[float] | FloatArray, epsilon: float, delta: float) -> float:
    """Largest eps_0 with CB({eps_0 * weight_t}, delta) <= epsilon, rounded toward more noise."""
    w = np.asarray(weights, dtype=np.float64)
    if not (len(w) and np.all(w > 0) and np.all(np.isfinite(w))):
        raise OptionError("schedule weights must be positive and finite, one per round")
    start = epsilon / float(w.sum())  # always feasible: the first of the three terms
    return largest_feasible(lambda e: composition_bound(e * w, delta), epsilon, start, tolerance=1e-13)
