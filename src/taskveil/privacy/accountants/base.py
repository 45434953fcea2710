"""Accountant: adds the curves of events and reads off epsilon. The count is applied here and nowhere else.

An accountant says how to get the curve of ONE event, how to add two curves, and how to read epsilon off a
curve. The base class applies counts, so that n at once equals n times one for every event by construction;
a contract test checks it. Charges are those of a schedule fixed beforehand (adaptive inputs, non-adaptive
noise), as plans are.

Below it stand those whose curve is an array of numbers that simply add up: pure, kairouz, zcdp, gaussian, rdp. The one whose
curves are convolved has a file of its own, pld.py.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import OptionError
from taskveil.privacy import guarantees
from taskveil.privacy.events import CappedEvent, Charge, Event, GaussianEvent, UncertifiedEvent, ZeroEvent

C = TypeVar("C")
SMALLEST_DELTA = 1e-15
HALVINGS = 50
FloatArray = NDArray[np.float64]


def merge(charges: Iterable[Charge]) -> list[Charge]:
    """The same charges, equal events counted together, zero events left out, in order of appearance."""
    counts: dict[Event, int] = {}
    for charge in charges:
        if charge.count and not isinstance(charge.event, ZeroEvent):
            counts[charge.event] = counts.get(charge.event, 0) + charge.count
    return [Charge(event, count) for event, count in counts.items()]


def with_curve(charges: Iterable[Charge]) -> list[Charge]:
    """Without the releases that others of the plan have paid for; their slack and failure still count."""
    return [c for c in charges if not isinstance(c.event, CappedEvent)]


class Accountant(ABC, Generic[C]):
    """Base of all accountants."""

    name: ClassVar[str]

    @abstractmethod
    def supports(self, event: Event) -> bool:
        """Whether this accountant has a finite curve for such an event."""

    @abstractmethod
    def curve(self, event: Event) -> C:
        """The curve of one occurrence."""

    @abstractmethod
    def times(self, curve: C, count: int) -> C:
        """The curve of `count` occurrences."""

    @abstractmethod
    def plus(self, first: C, second: C) -> C:
        """The curve of both together."""

    @abstractmethod
    def read_epsilon(self, curve: C, delta: float) -> float:
        """Smallest epsilon this curve certifies at delta."""

    def read_delta(self, curve: C, epsilon: float) -> float:
        """Smallest delta this curve certifies at epsilon, rounded up; epsilon falls with delta, so bisection turns it round."""
        low, high = math.log(SMALLEST_DELTA), 0.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (low, middle) if self.read_epsilon(curve, math.exp(middle)) <= epsilon else (middle, high)
        return math.exp(high)

    def epsilon(self, charges: Iterable[Charge], delta: float) -> float:
        """Smallest epsilon certified for all charges together; infinite where one is uncertified."""
        delta = guarantees.check_delta(delta)
        merged = merge(charges)
        if not merged:
            return 0.0
        if any(isinstance(c.event, UncertifiedEvent) for c in merged):
            return math.inf
        paid = with_curve(merged)
        for charge in paid:
            if not self.supports(charge.event):
                raise OptionError(f"accountant {self.name!r} cannot account for event {charge.event.kind!r}")
        slack = math.fsum(c.count * c.event.slack() for c in merged)
        failure = math.fsum(c.count * c.event.failure() for c in merged)
        return self.read(self.total(paid), delta - failure, slack) if paid else math.inf

    def read(self, curve: C, delta: float, slack: float) -> float:
        """Epsilon at delta of outputs that lie within total variation `slack` of what the curve describes.

        P' <= P + s <= e^eps Q + delta' + s <= e^eps Q' + delta' + (1 + e^eps) s. Epsilon at delta/2 bounds
        the epsilon in the last factor from above, as long as that much of delta is left.
        """
        if delta < 0:
            return math.inf
        if slack == 0:
            return self.read_epsilon(curve, delta)
        rough = self.read_epsilon(curve, delta / 2)
        cost = (1 + math.exp(min(rough, 700.0))) * slack
        return self.read_epsilon(curve, delta - cost) if cost <= delta / 2 else math.inf

    def total(self, charges: list[Charge]) -> C:
        """The curve of all charges; the one place where counts are applied."""
        total = self.times(self.curve(charges[0].event), charges[0].count)
        for charge in charges[1:]:
            total = self.plus(total, self.times(self.curve(charge.event), charge.count))
        return total


class Additive(Accountant[FloatArray]):
    """Curves are arrays; composition is addition."""

    def times(self, curve: FloatArray, count: int) -> FloatArray:
        return np.asarray(count * curve)

    def plus(self, first: FloatArray, second: FloatArray) -> FloatArray:
        return np.asarray(first + second)


class ExactGaussian(Additive):
    """Unsampled Gaussian releases are together one Gaussian with 1/z^2 = sum 1/z_t^2 (Dong, Roth, Su 2022, Cor. 3.3).

    Curve: mu^2 = 1/z^2, read off exactly (Balle & Wang 2018, Thm. 8).
    """

    name = "gaussian"

    def supports(self, event: Event) -> bool:
        return isinstance(event, GaussianEvent)

    def curve(self, event: Event) -> FloatArray:
        assert isinstance(event, GaussianEvent)
        return np.array([1 / event.noise_multiplier**2])

    def read_epsilon(self, curve: FloatArray, delta: float) -> float:
        return guarantees.gaussian_epsilon(delta, math.sqrt(float(curve[0])))

    def read_delta(self, curve: FloatArray, epsilon: float) -> float:
        return guarantees.gaussian_delta(epsilon, math.sqrt(float(curve[0])))


class PureSum(Additive):
    """Basic composition: the epsilons of pure releases add up, with delta = 0 (Dwork & Roth 2014, Thm. 3.14). Curve: epsilon."""

    name = "pure"

    def supports(self, event: Event) -> bool:
        return math.isfinite(event.pure_epsilon())

    def curve(self, event: Event) -> FloatArray:
        return np.array([event.pure_epsilon()])

    def read_epsilon(self, curve: FloatArray, delta: float) -> float:
        return float(curve[0])


class Zcdp(Additive):
    """rho adds up (Bun & Steinke 2016, Lemma 1.7); read off by the optimal Renyi conversion. Curve: rho."""

    name = "zcdp"

    def supports(self, event: Event) -> bool:
        return math.isfinite(event.zcdp())

    def curve(self, event: Event) -> FloatArray:
        return np.array([event.zcdp()])

    def read_epsilon(self, curve: FloatArray, delta: float) -> float:
        return guarantees.zcdp_to_epsilon(float(curve[0]), delta)


def composition_bound(epsilons: Sequence[float] | FloatArray, delta: float) -> float:
    """CB({epsilons}, delta) of MP-MTL Def. 7."""
    e = np.asarray(epsilons, dtype=np.float64)
    return read_bound(float(e.sum()), float((e * np.tanh(e / 2)).sum()), float((e * e).sum()), delta)


def read_bound(total: float, drift: float, squares: float, delta: float) -> float:
    """The minimum of the three terms, from their three sums."""
    if delta <= 0 or squares == 0:
        return total
    second = drift + math.sqrt(2 * squares * math.log(1 / delta))
    third = drift + math.sqrt(2 * squares * math.log(math.e + math.sqrt(squares) / delta))
    return min(total, second, third)


class Kairouz(Additive):
    """Composition bound of Kairouz, Oh, Viswanath 2015/2017, Thm. 3.5 = MP-MTL Def. 7 (eq. 6), for pure releases.

    CB({e_t}, delta) = min{ S1,  S2 + sqrt(2 Q log(1/delta)),  S2 + sqrt(2 Q log(e + sqrt(Q)/delta)) } with
    S1 = sum e_t,  S2 = sum e_t (exp(e_t) - 1)/(exp(e_t) + 1) = sum e_t tanh(e_t/2),  Q = sum e_t^2.  delta = 0 leaves S1.
    Curve: the three sums.
    """

    name = "kairouz"

    def supports(self, event: Event) -> bool:
        return math.isfinite(event.pure_epsilon())

    def curve(self, event: Event) -> FloatArray:
        e = event.pure_epsilon()
        return np.array([e, e * math.tanh(e / 2), e * e])

    def read_epsilon(self, curve: FloatArray, delta: float) -> float:
        return read_bound(float(curve[0]), float(curve[1]), float(curve[2]), delta)


DEFAULT_ORDERS: tuple[float, ...] = (
    *(1 + x / 10 for x in range(1, 100)),
    *(float(x) for x in range(11, 64)),
    *(128.0, 256.0, 512.0, 1024.0),
)


def rdp_curve(event: Event, count: int = 1, orders: Sequence[float] | FloatArray = DEFAULT_ORDERS) -> FloatArray:
    """Renyi divergences of `count` occurrences of `event` at `orders`."""
    return np.asarray(count * event.rdp(orders))


class Rdp(Additive):
    """Renyi divergences at fixed orders add up (Mironov 2017, Prop. 1). Curve: those of the default orders.

    Fixed orders make it usable as a filter over runs whose noise depends on earlier outputs (Feldman & Zrnic 2021), which is what
    the ledger needs; PLD is for schedules fixed beforehand.
    """

    name = "rdp"

    def supports(self, event: Event) -> bool:
        return not isinstance(event, UncertifiedEvent)

    def curve(self, event: Event) -> FloatArray:
        return event.rdp(DEFAULT_ORDERS)

    def read_epsilon(self, curve: FloatArray, delta: float) -> float:
        return guarantees.rdp_to_epsilon(curve, DEFAULT_ORDERS, delta)

    def read_delta(self, curve: FloatArray, epsilon: float) -> float:
        return guarantees.rdp_to_delta(curve, np.asarray(DEFAULT_ORDERS), epsilon)
