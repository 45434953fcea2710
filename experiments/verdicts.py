"""What becomes of a claim: it holds, it fails, or our runs cannot tell. Always from an interval, never typed.

A claim is an inequality between two measured numbers. The unit is a *run*: its own split of the rows and its own noise. Tasks that
share a noise draw are not independent and are never counted as repeats; an item averages over them first. Scores come as an array
over runs, or as (runs, draws) where a run was repeated with other noise: then the draws of a run are averaged, and a single run is
judged over its draws. The interval is Student's, two-sided, at 95 %, so about one decided verdict in forty is decided wrongly.

    below, positive       strict: the interval of the difference must lie above zero (holds) or below it (fails)
    not_above             with a margin that was fixed beforehand; a tie holds if the margin covers the interval, else cannot tell
    near                  the paper's printed number: the interval lies inside printed (1 +- tolerance), outside it, or across its edge
    computed              two numbers without chance (an epsilon, a bound): known up to a relative accuracy, within it cannot tell

Every verdict says which quantity, where in the paper, what is printed there and what we found; what a call leaves out, the item's
result fills in (`complete`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import t

LEVEL = 0.95
WORDS = {True: "holds", False: "fails", None: "cannot tell"}
OF_PAPER, OF_OURS = "paper", "ours"
ONE_NUMBER = (int, float, np.floating, np.integer)


@dataclass(frozen=True)
class Check:
    """One claim with its interval. `holds` is None where our runs cannot tell; `ours` says both sides in words."""

    claim: str
    left: float
    right: float
    low: float  # interval of what must be positive for the claim to hold
    high: float
    runs: int  # independent runs, or noise draws of the only run; 0 for numbers without chance
    holds: bool | None
    about: str = OF_PAPER  # or "ours": a claim about what we ship
    quantity: str = ""
    place: str = ""
    printed: str = ""

    @property
    def ours(self) -> str:
        return f"{self.left:.4g} against {self.right:.4g}"


def below(claim: str, left: Any, right: Any, about: str = OF_PAPER, **named: str) -> Check:
    """`left` is smaller than `right`."""
    a, b = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
    low, high, runs = interval(b - a)
    return Check(claim, float(a.mean()), float(b.mean()), low, high, runs, decided(low, high), about, **named)


def not_above(claim: str, left: Any, right: Any, margin: float = 0.0, about: str = OF_PAPER, **named: str) -> Check:
    """`left` is at most `right` (1 + margin)."""
    a, b = np.asarray(left, dtype=float), np.asarray(right, dtype=float)
    low, high, runs = interval(b + margin * np.abs(b) - a)
    holds = True if runs > 1 and low >= 0 else decided(low, high)
    return Check(claim, float(a.mean()), float(b.mean()), low, high, runs, holds, about, **named)


def positive(claim: str, values: Any, about: str = OF_PAPER, **named: str) -> Check:
    """The mean of `values` is above zero."""
    return replace(below(claim, np.zeros(np.shape(values)), values, about, **named), left=float(np.mean(values)), right=0.0)


def near(claim: str, ours: Any, printed: float, tolerance: float, about: str = OF_PAPER, **named: str) -> Check:
    """Our mean is the printed number within a relative tolerance: the interval of tolerance - |deviation| decides."""
    values = np.asarray(ours, dtype=float)
    low, high, runs = interval(values - printed)
    allowed = tolerance * abs(printed)
    furthest, closest = max(abs(low), abs(high)), 0.0 if low <= 0 <= high else min(abs(low), abs(high))
    said = {"printed": f"{printed:g}"} | named
    return Check(claim, float(values.mean()), printed, allowed - furthest, allowed - closest, runs,
                 decided(allowed - furthest, allowed - closest), about, **said)  # fmt: skip


def computed(claim: str, left: float, right: float, accuracy: float = 1e-3, about: str = OF_PAPER, **named: str) -> Check:
    """`left` is smaller than `right`, both computed without chance up to a relative accuracy."""
    if not isinstance(left, ONE_NUMBER) or not isinstance(right, ONE_NUMBER):
        raise TypeError("computed compares two single numbers; measured scores belong to below or not_above")
    slack = accuracy * max(abs(left), abs(right))
    low, high = right - left - slack, right - left + slack
    return Check(claim, float(left), float(right), low, high, 0, decided(low, high), about, **named)


def interval(differences: Any) -> tuple[float, float, int]:
    """Low and high end for the mean, and the number of runs behind it; endless where one number says nothing about spread."""
    values = np.atleast_1d(np.asarray(differences, dtype=float))
    if values.ndim > 2:
        raise ValueError("scores come as (runs,) or (runs, draws)")
    if values.ndim == 2:
        values = values.mean(axis=1) if len(values) > 1 else values[0]
    if values.size < 2 or not np.isfinite(values).all():
        return -np.inf, np.inf, int(values.size)
    half = t.ppf((1 + LEVEL) / 2, values.size - 1) * values.std(ddof=1) / np.sqrt(values.size)
    return float(values.mean() - half), float(values.mean() + half), int(values.size)


def decided(low: float, high: float) -> bool | None:
    return True if low > 0 else False if high < 0 else None


def complete(check: Check, place: str, printed: str, quantity: str) -> Check:
    """A check that leaves something unsaid says what its item says; a claim of ours has nothing printed."""
    printed = printed if check.about == OF_PAPER else "not in the paper"
    return replace(check, quantity=check.quantity or quantity, place=check.place or place, printed=check.printed or printed)


def document(check: Check) -> dict[str, Any]:
    """As it is kept in JSON, where an endless interval is null."""
    kept = asdict(check)
    return kept | {end: kept[end] if np.isfinite(kept[end]) else None for end in ("low", "high")}
