"""What an account has committed or reserved, composed, and whether one more plan fits.

Three rules, one per account. The first two are chosen by its first plan, which no output of the account can have influenced; the
third by whoever opens the account:

renyi   Renyi curves at fixed orders add up over runs, also when later runs depend on earlier outputs: an RDP filter
        (Feldman & Zrnic 2021). The total is read at the account's delta, less the slack of the events.
sum     epsilons and deltas of whole plans add up (Rogers et al. 2016, simple composition filter). Only where the first
        plan fits the limit by its own accountant (exact for one fixed plan) and not by the Renyi bound: a limit of
        epsilon 1 then allows one run of epsilon 1.
gaussian  squares of mu = 1/noise multiplier add up, and the whole is one Gaussian: fully adaptive, exact (Smith & Thakurta 2022;
        Koskela, Tobaben & Honkela 2023). Unsampled Gaussian releases only; what was not released goes back event by event.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.accountants.base import DEFAULT_ORDERS, ExactGaussian, Rdp, rdp_curve
from taskveil.privacy.events import CappedEvent, Charge, Event, GaussianEvent, ZeroEvent

OPEN, RENYI, SUM, GAUSSIAN = "open", "renyi", "sum", "gaussian"


@dataclass(frozen=True)
class Cost:
    """What a list of charges costs under every rule."""

    curve: NDArray[np.float64]
    slack: float  # total variation from what the curve describes
    failure: float  # probability that the curve does not apply
    epsilon: float
    delta: float
    mu_squared: float = math.nan  # infinite: not all are Gaussian; nan: unknown, in books kept before there was the rule

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.curve + other.curve,
            self.slack + other.slack,
            self.failure + other.failure,
            self.epsilon + other.epsilon,
            self.delta + other.delta,
            self.mu_squared + other.mu_squared,
        )

    def minus(self, other: Cost) -> Cost:
        """Never below zero: rounding must not create budget."""
        return Cost(
            np.maximum(self.curve - other.curve, 0.0),
            max(self.slack - other.slack, 0.0),
            max(self.failure - other.failure, 0.0),
            max(self.epsilon - other.epsilon, 0.0),
            max(self.delta - other.delta, 0.0),
            self.mu_squared if math.isinf(other.mu_squared) else max(self.mu_squared - other.mu_squared, 0.0),
        )


def nothing() -> Cost:
    """The cost of a run without releases."""
    return Cost(np.zeros(len(DEFAULT_ORDERS)), 0.0, 0.0, 0.0, 0.0, 0.0)


def cost_of(charges: Sequence[Charge], delta: float) -> Cost:
    """The cost of one fixed plan; `delta` is what it may use under the rule "sum"."""
    return _cost_of(tuple(charges), delta) if charges else nothing()


@lru_cache(maxsize=64)
def _cost_of(charges: tuple[Charge, ...], delta: float) -> Cost:
    curve = np.sum([rdp_curve(c.event, c.count) for c in charges], axis=0)
    epsilon, accountant = best_epsilon(list(charges), delta)
    used = 0.0 if accountant == "pure" else delta
    slack = math.fsum(c.count * c.event.slack() for c in charges)
    failure = math.fsum(c.count * c.event.failure() for c in charges)
    curve = np.asarray(curve)
    curve.flags.writeable = False
    return Cost(curve, slack, failure, epsilon, used, math.fsum(c.count * _mu_squared(c.event) for c in charges))


def _mu_squared(event: Event) -> float:
    """Of one release; infinite for all but a Gaussian, and what is exactly nothing."""
    if isinstance(event, GaussianEvent):
        return 1 / event.noise_multiplier**2
    paid = isinstance(event, CappedEvent) and isinstance(event.inner, GaussianEvent)
    return 0.0 if isinstance(event, ZeroEvent) or paid else math.inf


@dataclass(frozen=True)
class Limit:
    """epsilon at delta, and the rule by which totals are read."""

    epsilon: float
    delta: float
    rule: str = OPEN

    def total(self, cost: Cost) -> float:
        """Composed epsilon at the account's delta; infinite where it cannot be certified."""
        if self.rule == SUM:
            return cost.epsilon if cost.delta <= self.delta * (1 + 1e-12) else math.inf
        if self.rule == GAUSSIAN:
            if not cost.mu_squared < math.inf:
                return math.inf
            return ExactGaussian().read(np.array([cost.mu_squared]), self.delta - cost.failure, cost.slack)
        if not cost.curve.any():
            return 0.0
        return Rdp().read(cost.curve, self.delta - cost.failure, cost.slack)

    def fits(self, cost: Cost) -> bool:
        """Whether a total cost stays within this limit, up to rounding."""
        return self.total(cost) <= self.epsilon * (1 + 1e-9)

    def decided(self, first: Cost) -> Limit:
        """The rule, fixed by the first plan."""
        if self.rule != OPEN:
            return self
        renyi = Limit(self.epsilon, self.delta, RENYI)
        if renyi.fits(first):
            return renyi
        summed = Limit(self.epsilon, self.delta, SUM)
        return summed if summed.fits(first) else renyi


@dataclass(frozen=True)
class Holdings:
    """Committed and reserved, together, as stored in the account's row."""

    cost: Cost = field(default_factory=nothing)

    def to_json(self) -> str:
        """As stored in the ledger."""
        c = self.cost
        values = c.curve.tolist()
        finite = values if np.isfinite(c.curve).all() else [_plain(v) for v in values]
        parts = {"slack": c.slack, "failure": c.failure, "epsilon": _plain(c.epsilon), "delta": c.delta}
        parts |= {} if math.isnan(c.mu_squared) else {"mu_squared": _plain(c.mu_squared)}
        return json.dumps({"curve": finite, **parts})

    @staticmethod
    def from_json(text: str) -> Holdings:
        """What `to_json` wrote, in this version or an older one."""
        data = json.loads(text)
        finite = '"inf"' not in text
        curve = np.asarray(data["curve"] if finite else [math.inf if v == "inf" else v for v in data["curve"]], np.float64)
        epsilon, mu_squared = (float(data.get(name, "nan")) for name in ("epsilon", "mu_squared"))
        return Holdings(Cost(curve, data["slack"], data["failure"], epsilon, data["delta"], mu_squared))


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else "inf"
