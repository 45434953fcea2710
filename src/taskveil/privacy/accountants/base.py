"""Accountant: adds the curves of events and reads off epsilon. The count is applied here and nowhere else.

An accountant says how to get the curve of ONE event, how to add two curves, and how to read epsilon off a
curve. The base class applies counts, so that n at once equals n times one for every event by construction;
a contract test checks it. Charges are those of a schedule fixed beforehand (adaptive inputs, non-adaptive
noise), as plans are.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar, Generic, TypeVar

from taskveil.errors import OptionError
from taskveil.privacy.events import CappedEvent, Charge, Event, UncertifiedEvent, ZeroEvent
from taskveil.privacy.guarantees import check_delta

C = TypeVar("C")
SMALLEST_DELTA = 1e-15
HALVINGS = 50


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
        delta = check_delta(delta)
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
