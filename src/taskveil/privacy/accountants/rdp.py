"""Renyi accounting at fixed orders: curves add up (Mironov 2017, Prop. 1).

Fixed orders make it usable as a filter over runs whose noise depends on earlier outputs (Feldman & Zrnic
2021), which is what the ledger needs; PLD is for schedules fixed beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from taskveil.privacy.accountants.additive import Additive, FloatArray
from taskveil.privacy.events import Event, UncertifiedEvent
from taskveil.privacy.guarantees import rdp_to_delta, rdp_to_epsilon

DEFAULT_ORDERS: tuple[float, ...] = (
    *(1 + x / 10 for x in range(1, 100)),
    *(float(x) for x in range(11, 64)),
    *(128.0, 256.0, 512.0, 1024.0),
)


def rdp_curve(event: Event, count: int = 1, orders: Sequence[float] | FloatArray = DEFAULT_ORDERS) -> FloatArray:
    """Renyi divergences of `count` occurrences of `event` at `orders`."""
    return np.asarray(count * event.rdp(orders))


class Rdp(Additive):
    """Curve: Renyi divergence at the default orders."""

    name = "rdp"

    def supports(self, event: Event) -> bool:
        return not isinstance(event, UncertifiedEvent)

    def curve(self, event: Event) -> FloatArray:
        return event.rdp(DEFAULT_ORDERS)

    def read_epsilon(self, curve: FloatArray, delta: float) -> float:
        return rdp_to_epsilon(curve, DEFAULT_ORDERS, delta)

    def read_delta(self, curve: FloatArray, epsilon: float) -> float:
        return rdp_to_delta(curve, np.asarray(DEFAULT_ORDERS), epsilon)


__all__ = ["DEFAULT_ORDERS", "Rdp", "rdp_curve", "rdp_to_epsilon"]
