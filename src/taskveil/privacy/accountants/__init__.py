"""The table of accountants, and which of them is best for a list of charges."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from taskveil.privacy.accountants.base import Accountant, ExactGaussian, Kairouz, PureSum, Rdp, Zcdp, merge, with_curve
from taskveil.privacy.accountants.pld import Pld
from taskveil.privacy.events import Charge, GaussianEvent, PureEvent
from taskveil.registry import Table

ACCOUNTANTS: Table[Accountant[Any]] = Table("accountant")
ACCOUNTANTS.add("pure", PureSum())
ACCOUNTANTS.add("kairouz", Kairouz())
ACCOUNTANTS.add("zcdp", Zcdp())
ACCOUNTANTS.add("gaussian", ExactGaussian())
ACCOUNTANTS.add("rdp", Rdp())
ACCOUNTANTS.add("pld", Pld())


def candidates(charges: Iterable[Charge], delta: float) -> list[str]:
    """Names of the accountants worth asking: all are valid, the smallest answer counts."""
    merged = with_curve(merge(charges))
    events = [c.event for c in merged]
    if all(isinstance(e, GaussianEvent) for e in events):
        return ["gaussian"]
    if all(isinstance(e, PureEvent) for e in events):
        names = ["pure"] if delta <= 0 else ["pure", "kairouz", "rdp"]
    else:
        names = ["rdp"]
    pld = Pld()
    if delta > 0 and all(pld.supports(e) for e in events) and pld.practical(merged):
        names = [n for n in names if n != "rdp"] + ["pld"]
    return names


def best_epsilon(charges: Iterable[Charge], delta: float, accountant: str | None = None) -> tuple[float, str]:
    """Smallest certified epsilon and the accountant that certifies it; a named accountant is used alone."""
    charges = list(charges)
    if not merge(charges):
        return 0.0, accountant or "pure"
    names = [accountant] if accountant else candidates(charges, delta)
    best, best_name = math.inf, names[0]
    for name in names:
        epsilon = ACCOUNTANTS.get(name).epsilon(charges, delta)
        if epsilon < best:
            best, best_name = epsilon, name
    return best, best_name


__all__ = ["ACCOUNTANTS", "Accountant", "best_epsilon", "candidates", "merge"]
