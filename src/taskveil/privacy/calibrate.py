"""The largest privacy loss (least noise) that meets a target, found by root finding and rounded toward more
noise.

One number c scales a whole plan: release t gets noise multiplier 1/(c w_t) or epsilon c w_t, w_t its
weight. Epsilon grows with c. Plans of unsampled Gaussian releases have a closed form; the others are solved
on a log-log scale, where epsilon is close to linear in c, so that few evaluations of an expensive
accountant suffice.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from taskveil.errors import OptionError
from taskveil.privacy.accountants import ACCOUNTANTS, best_epsilon, candidates, merge
from taskveil.privacy.events import Charge, GaussianEvent, SampledGaussianEvent
from taskveil.privacy.guarantees import gaussian_mu, rdp_to_epsilon
from taskveil.privacy.units import Neighbours

PLD_TOLERANCE = 2e-4  # relative, in epsilon; the answer lies below the target by at most about this much
CHEAP_TOLERANCE = 1e-10
_BRACKET_ORDERS = (2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 64.0)

ChargesAt = Callable[[float], list[Charge]]


def largest_feasible(
    epsilon_at: Callable[[float], float], target: float, start: float, tolerance: float, max_steps: int = 200
) -> float:
    """Largest c with epsilon_at(c) <= target, up to `tolerance` in log epsilon; always on the feasible side.

    `epsilon_at` must not decrease. Secant steps on (log c, log epsilon), safeguarded by a bracket.
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
        x = _next_point(points, goal, low, high)
    if math.isinf(low):
        raise OptionError("no amount of noise meets this target; check epsilon, delta and the mechanism")
    return math.exp(low)


def _next_point(points: list[tuple[float, float]], goal: float, low: float, high: float) -> float:
    (x, y) = points[-1]
    slope = 1.0
    if len(points) == 2 and points[0][0] != x and abs(y) < 30 and abs(points[0][1]) < 30:
        slope = (y - points[0][1]) / (x - points[0][0])
    step = (goal - y) / slope if slope > 1e-3 else math.copysign(1.0, goal - y)
    proposal = x + max(-3.0, min(3.0, step))
    inside = low < proposal < high
    if inside and (
        math.isinf(low) or math.isinf(high) or min(proposal - low, high - proposal) > 1e-6 * (high - low)
    ):
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
        return largest_feasible(
            lambda c: account.epsilon(charges_at(c), delta), epsilon, start, CHEAP_TOLERANCE
        )
    guess = largest_feasible(lambda c: _rough_epsilon(charges_at(c), delta), epsilon, start, 1e-2)
    return largest_feasible(lambda c: account.epsilon(charges_at(c), delta), epsilon, guess, PLD_TOLERANCE)


def _rough_epsilon(charges: list[Charge], delta: float) -> float:
    """A quick Renyi estimate at few orders, only to start the search; it certifies nothing."""
    curve = np.zeros(len(_BRACKET_ORDERS))
    for charge in merge(charges):
        event = charge.event
        if isinstance(event, SampledGaussianEvent) and event.neighbours is Neighbours.REPLACE_ONE:
            event = SampledGaussianEvent(
                event.noise_multiplier / math.sqrt(2), event.rate, Neighbours.ADD_REMOVE
            )
        curve += charge.count * event.rdp(_BRACKET_ORDERS)
    return rdp_to_epsilon(curve, _BRACKET_ORDERS, delta)


def verify_target(
    charges: list[Charge], epsilon: float, delta: float, accountant: str | None = None
) -> float:
    """The certified epsilon of the finished charges; an error if it exceeds the target."""
    reached, _ = best_epsilon(charges, delta, accountant)
    if reached > epsilon:
        raise OptionError(
            f"calibration ended above its target ({reached!r} > {epsilon!r}); nothing was released"
        )
    return reached
