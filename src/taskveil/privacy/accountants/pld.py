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
from typing import Any

from taskveil.privacy.accountants.base import Accountant
from taskveil.privacy.events import Charge, Event, GaussianEvent, PureEvent, SampledGaussianEvent
from taskveil.privacy.guarantees import gaussian_epsilon
from taskveil.privacy.units import Neighbours

INTERVAL = 1e-3
DISTINCT_LIMIT = 12  # distinct sampled or pure events beyond which composing them one by one takes seconds


@dataclass(frozen=True)
class Loss:
    """mu^2 of the Gaussian part, and the privacy loss distribution of the rest (None: nothing)."""

    mu_squared: float
    rest: Any = None


class Pld(Accountant[Loss]):
    """Curve: a privacy loss distribution with the Gaussian part kept in closed form."""

    name = "pld"

    def __init__(self, interval: float = INTERVAL) -> None:
        self._interval = interval

    def supports(self, event: Event) -> bool:
        return isinstance(event, GaussianEvent | SampledGaussianEvent | PureEvent)

    def practical(self, charges: list[Charge]) -> bool:
        """Whether composing these numerically takes well under a second."""
        return sum(not isinstance(c.event, GaussianEvent) for c in charges) <= DISTINCT_LIMIT

    def total(self, charges: list[Charge]) -> Loss:
        pure = [c.event.pure_epsilon() for c in charges if isinstance(c.event, PureEvent)]
        if pure:
            return Pld(_fitted_interval(min(pure), self._interval))._total(charges)
        return self._total(charges)

    def _total(self, charges: list[Charge]) -> Loss:
        return super().total(charges)

    def curve(self, event: Event) -> Loss:
        from dp_accounting import NeighboringRelation
        from dp_accounting.pld import privacy_loss_distribution as pld

        if isinstance(event, GaussianEvent):
            return Loss(1 / event.noise_multiplier**2)
        if isinstance(event, SampledGaussianEvent):
            replace = event.neighbours is Neighbours.REPLACE_ONE
            relation = NeighboringRelation.REPLACE_ONE if replace else NeighboringRelation.ADD_OR_REMOVE_ONE
            return Loss(0.0, pld.from_gaussian_mechanism(
                event.noise_multiplier, value_discretization_interval=self._interval,
                sampling_prob=event.rate, neighboring_relation=relation,
            ))  # fmt: skip
        return Loss(0.0, _pure_pld(event.pure_epsilon(), self._interval))

    def times(self, curve: Loss, count: int) -> Loss:
        rest = curve.rest if curve.rest is None or count == 1 else curve.rest.self_compose(count)
        return Loss(count * curve.mu_squared, rest)

    def plus(self, first: Loss, second: Loss) -> Loss:
        if first.rest is None or second.rest is None:
            return Loss(
                first.mu_squared + second.mu_squared, second.rest if first.rest is None else first.rest
            )
        return Loss(first.mu_squared + second.mu_squared, first.rest.compose(second.rest))

    def read_epsilon(self, curve: Loss, delta: float) -> float:
        if delta <= 0:
            return math.inf
        if curve.rest is None:
            return gaussian_epsilon(delta, math.sqrt(curve.mu_squared))
        whole = curve.rest
        if curve.mu_squared > 0:
            from dp_accounting.pld import privacy_loss_distribution as pld

            interval = whole._pmf_remove._discretization
            whole = whole.compose(pld.from_gaussian_mechanism(
                1 / math.sqrt(curve.mu_squared), value_discretization_interval=interval
            ))  # fmt: skip
        return max(0.0, float(whole.get_epsilon_for_delta(delta)))


def _fitted_interval(epsilon: float, interval: float) -> float:
    """The largest grid step <= interval of which epsilon is a whole multiple (rounded up by 1e-12)."""
    return epsilon / max(1, math.ceil(epsilon / interval)) * (1 + 1e-12)


def _pure_pld(epsilon: float, interval: float) -> Any:
    """Randomised response with losses +-epsilon, rounded up to the grid."""
    from dp_accounting.pld import privacy_loss_distribution as pld

    upper = math.ceil(epsilon / interval)
    lower = math.ceil(-epsilon / interval)
    likely = 1 / (1 + math.exp(-epsilon))
    masses = {upper: likely}
    masses[lower] = masses.get(lower, 0.0) + 1 - likely
    return pld.PrivacyLossDistribution.create_from_rounded_probability(masses, 0.0, interval)
