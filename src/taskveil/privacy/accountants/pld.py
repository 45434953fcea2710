"""Privacy loss distributions through dp-accounting: numerically exact composition, rounded pessimistically.

Sampled Gaussian events: both directions (add, remove) for add-remove; dp-accounting's REPLACE_ONE for
replace-one, with noise relative to the clipping norm (the two worlds lie 2C apart). Unsampled Gaussian
events are collapsed to one before any numerics. Pure events: randomised response dominates them (Kairouz,
Oh, Viswanath 2015), losses +-epsilon rounded up to the grid; the grid is fitted to the smallest epsilon so
that equal epsilons lose nothing. dp-accounting forgets counts in some of its branches
(RandomizedResponseDpEvent, exponential mechanism in RDP) and returns inf at delta = 0; neither route is
used here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from taskveil.privacy.accountants.base import Accountant
from taskveil.privacy.events import Charge, Event, GaussianEvent, PureEvent, SampledGaussianEvent
from taskveil.privacy.guarantees import gaussian_delta, gaussian_epsilon
from taskveil.privacy.units import Neighbours

FloatArray = NDArray[np.float64]

INTERVAL = 1e-3  # of pure events
FINEST, COARSEST, POINTS = 1e-5, 1e-2, 4000  # of sampled Gaussian events, see _interval_for
DISTINCT_LIMIT = 12  # distinct sampled or pure events beyond which composing them one by one takes seconds


@dataclass(frozen=True)
class Loss:
    """mu^2 of the Gaussian part, and the privacy loss distribution of the rest (None: nothing)."""

    mu_squared: float
    rest: Any = None


class Pld(Accountant[Loss]):
    """Curve: a privacy loss distribution with the Gaussian part kept in closed form."""

    name = "pld"

    def __init__(self, interval: float | None = None, points: int = POINTS) -> None:
        self._fixed = interval
        self._points = points
        self._interval = interval or COARSEST

    def supports(self, event: Event) -> bool:
        return isinstance(event, GaussianEvent | SampledGaussianEvent | PureEvent)

    def practical(self, charges: list[Charge]) -> bool:
        """Whether composing these numerically takes well under a second."""
        return sum(not isinstance(c.event, GaussianEvent) for c in charges) <= DISTINCT_LIMIT

    def total(self, charges: list[Charge]) -> Loss:
        interval = self._fixed or _interval_for(charges, self._points)
        return Pld(interval)._total(charges)

    def _total(self, charges: list[Charge]) -> Loss:
        return super().total(charges)

    def curve(self, event: Event) -> Loss:
        if isinstance(event, GaussianEvent):
            return Loss(1 / event.noise_multiplier**2)
        if isinstance(event, SampledGaussianEvent):
            return Loss(0.0, sampled_gaussian_pld(event, self._interval))
        return Loss(0.0, _pure_pld(event.pure_epsilon(), self._interval))

    def times(self, curve: Loss, count: int) -> Loss:
        rest = curve.rest if curve.rest is None or count == 1 else curve.rest.self_compose(count)
        return Loss(count * curve.mu_squared, rest)

    def plus(self, first: Loss, second: Loss) -> Loss:
        if first.rest is None or second.rest is None:
            return Loss(first.mu_squared + second.mu_squared, second.rest if first.rest is None else first.rest)
        return Loss(first.mu_squared + second.mu_squared, first.rest.compose(second.rest))

    def read_epsilon(self, curve: Loss, delta: float) -> float:
        if delta <= 0:
            return math.inf
        if curve.rest is None:
            return gaussian_epsilon(delta, math.sqrt(curve.mu_squared))
        return max(0.0, float(_whole(curve).get_epsilon_for_delta(delta)))

    def read_delta(self, curve: Loss, epsilon: float) -> float:
        if curve.rest is None:
            return gaussian_delta(epsilon, math.sqrt(curve.mu_squared))
        return min(1.0, max(0.0, float(_whole(curve).get_delta_for_epsilon(epsilon))))


def _whole(curve: Loss) -> Any:
    """The distribution of all losses, the Gaussian part composed in."""
    if curve.mu_squared == 0:
        return curve.rest
    from dp_accounting.pld import privacy_loss_distribution as pld

    interval = curve.rest._pmf_remove._discretization
    scale = 1 / math.sqrt(curve.mu_squared)
    return curve.rest.compose(pld.from_gaussian_mechanism(scale, value_discretization_interval=interval))


def sampled_gaussian_pld(event: SampledGaussianEvent, interval: float) -> Any:
    """The distribution dp-accounting's `from_gaussian_mechanism` gives, several times faster.

    Its losses, bounds and connect-the-dots rounding (Doroshenko et al. 2022) are used as they are; only the
    inverse of the loss, a Python loop over grid points there, is evaluated for all points at once.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution, privacy_loss_mechanism

    kinds = privacy_loss_mechanism.AdjacencyType
    replace = event.neighbours is Neighbours.REPLACE_ONE
    parts = []
    for kind in (kinds.REPLACE,) if replace else (kinds.REMOVE, kinds.ADD):
        loss = privacy_loss_mechanism.GaussianPrivacyLoss(event.noise_multiplier, sampling_prob=event.rate, adjacency_type=kind)
        bounds = loss.connect_dots_bounds()
        lowest, highest = floor(bounds.epsilon_lower / interval), ceil(bounds.epsilon_upper / interval)
        epsilons = np.arange(lowest, highest + 1) * interval
        deltas = -np.expm1(np.minimum(epsilons, 0.0))  # where the loss is never or always above
        x, reached = _cutoffs(kind.name, epsilons, event.noise_multiplier, event.rate)
        deltas[reached] = loss.mu_upper_cdf(x) - np.exp(epsilons[reached] + loss.mu_lower_log_cdf(x))
        parts.append(pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(interval, lowest, highest, np.clip(deltas, 0.0, 1.0)))
    return privacy_loss_distribution.PrivacyLossDistribution(*parts)


def _cutoffs(kind: str, epsilons: FloatArray, z: float, q: float) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The points x at which the privacy loss falls below each epsilon, and the epsilons it passes through."""
    if kind == "REPLACE":
        half = np.abs(epsilons) / 2
        with np.errstate(divide="ignore"):
            log_sinh = half + np.log(-np.expm1(-2 * half)) - math.log(2)
            odds = math.log1p(-q) - math.log(q) if q < 1 else -math.inf
        y = 1 / (2 * z**2) + odds + log_sinh  # log of alpha sinh(|epsilon|/2)
        area = np.where(y > 20, y + math.log(2), np.arcsinh(np.exp(np.minimum(y, 20.0))))
        return np.asarray(z**2 * np.sign(epsilons) * (-area - half)), np.ones(len(epsilons), dtype=bool)
    sign = 1.0 if kind == "REMOVE" else -1.0
    with np.errstate(over="ignore"):  # an infinite loss is a point that is never reached
        inner = np.expm1(sign * epsilons) + q
    reached = inner > 0
    return np.asarray(-sign * (0.5 + z**2 * (np.log(inner[reached]) - math.log(q)))), reached


def _interval_for(charges: list[Charge], points: int) -> float:
    """A grid step that follows from the charges alone, so that everybody recomputes the same epsilon.

    Sampled Gaussians: a fiftieth of the loss's standard deviation in one round (rounding then costs some 1e-4
    of epsilon; a fixed step of 1e-3 costs a tenth where losses are narrow and rounds many), unless that means
    too many points for one loss or for the composed one; a power of two. Pure events: the smallest epsilon
    becomes a whole number of steps, so equal epsilons lose nothing.
    """
    step, variance = 0.0, 0.0
    for charge in charges:
        if isinstance(charge.event, SampledGaussianEvent):
            own = charge.event.rate**2 * math.expm1(min(1 / charge.event.noise_multiplier**2, 50.0))
            step = max(step, math.sqrt(own) * (80 / points), _width(charge.event) / (2 * points))
            variance += charge.count * own
    step = max(step, (14 * math.sqrt(variance) + variance) / (8 * points)) or INTERVAL
    step = math.ldexp(1.0, math.frexp(min(max(step, FINEST), COARSEST))[1] - 1)
    pure = [c.event.pure_epsilon() for c in charges if isinstance(c.event, PureEvent)]
    if not pure:
        return step
    return min(pure) / max(1, ceil(min(pure) / step)) * (1 + 1e-12)


def _width(event: SampledGaussianEvent) -> float:
    """Range of the privacy loss up to the tails that dp-accounting cuts off."""
    from dp_accounting.pld import privacy_loss_mechanism

    kinds = privacy_loss_mechanism.AdjacencyType
    kind = kinds.REPLACE if event.neighbours is Neighbours.REPLACE_ONE else kinds.REMOVE
    bounds = privacy_loss_mechanism.GaussianPrivacyLoss(
        event.noise_multiplier, sampling_prob=event.rate, adjacency_type=kind
    ).connect_dots_bounds()
    return float(bounds.epsilon_upper - bounds.epsilon_lower)


def _pure_pld(epsilon: float, interval: float) -> Any:
    """Randomised response with losses +-epsilon, rounded up to the grid."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    upper = math.ceil(epsilon / interval)
    lower = math.ceil(-epsilon / interval)
    likely = 1 / (1 + math.exp(-epsilon))
    masses = {upper: likely}
    masses[lower] = masses.get(lower, 0.0) + 1 - likely
    return pld.PrivacyLossDistribution.create_from_rounded_probability(masses, 0.0, interval)
