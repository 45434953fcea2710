"""Events: what was released, as data. Each event knows its own privacy curves; accountants only add curves.

Rules for whoever extends this file: an event holds all an accountant needs and nothing more; its meaning
never changes (new behaviour is a new class, or a new version number); it is frozen and serialisable. An
event describes ONE release; how often it happened is the count that travels beside it (`Charge`), applied
once, in accountants/base.py.

Curves: `rdp(orders)` Renyi divergence; `zcdp()` rho; `pure_epsilon()`; `dp_event()` the dp-accounting
object where there is one. A curve that is infinite means: this route certifies nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from taskveil.checks import Number, Whole
from taskveil.errors import OptionError
from taskveil.privacy.units import Neighbours

FloatArray = NDArray[np.float64]
NOTHING_LEFT = 1e100  # noise multiplier of a total that is used up
SQUARABLE = Number(at_least=1e-100, at_most=1e100)  # what a certificate may say: its square and the inverse of that are numbers


class Event(ABC):
    """Base of all events."""

    kind: ClassVar[str]
    version: ClassVar[int] = 1

    @abstractmethod
    def rdp(self, orders: Sequence[float] | FloatArray) -> FloatArray:
        """Renyi divergence bound of one release at each order (> 1), in both directions."""

    def zcdp(self) -> float:
        """rho such that one release is rho-zCDP; infinite where unknown."""
        return math.inf

    def pure_epsilon(self) -> float:
        """epsilon such that one release is (epsilon, 0)-DP; infinite where it is not."""
        return math.inf

    def dp_event(self) -> Any:
        """The dp-accounting event with the same meaning, or None."""
        return None

    def slack(self) -> float:
        """Total variation between what was done and what the curves describe; delta pays for it."""
        return 0.0

    def failure(self) -> float:
        """Probability, the same for all data, that the curves do not apply at all; added to delta."""
        return 0.0

    def made_again(self) -> Event:
        """What is charged when the same release is made once more, outside the plan."""
        return self

    def without(self, event: Event) -> Event | None:
        """What is left of a total after this release; None where it does not fit, or this is no total."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `event_from_dict` reads it back."""
        return {"kind": self.kind, "version": self.version, **asdict(self)}  # type: ignore[call-overload]


@dataclass(frozen=True)
class Charge:
    """An event and how many times it happened."""

    event: Event
    count: int = 1

    def __post_init__(self) -> None:
        if self.count < 0 or int(self.count) != self.count:
            raise OptionError(f"a count must be a whole number >= 0; got {self.count!r}")


@dataclass(frozen=True)
class GaussianEvent(Event):
    """f + N(0, s^2 I), z = s / (l2 sensitivity): rho = 1/(2 z^2), Bun & Steinke 2016, Prop. 1.6."""

    kind = "gaussian"
    noise_multiplier: float

    def __post_init__(self) -> None:
        SQUARABLE.check("noise_multiplier", self.noise_multiplier)

    def rdp(self, orders: Sequence[float] | FloatArray) -> FloatArray:
        return np.asarray(orders, dtype=np.float64) * self.zcdp()

    def zcdp(self) -> float:
        return 0.5 / self.noise_multiplier**2

    def dp_event(self) -> Any:
        import dp_accounting

        return dp_accounting.GaussianDpEvent(self.noise_multiplier)


@dataclass(frozen=True)
class GaussianTotal(GaussianEvent):
    """Unsampled Gaussian releases chosen as a run goes on, of which the sum of 1/z_t^2 never exceeds 1/z^2.

    Whatever was released before decides which they are, their noise and when to stop: together they are as private as one release
    with z (Smith & Thakurta 2022; docs/theory/spending.md#adaptive). That holds for the total, not for what happened to be spent.
    """

    kind = "gaussian-total"

    def without(self, event: Event) -> Event | None:
        if type(event) is not GaussianEvent or self.noise_multiplier >= NOTHING_LEFT:
            return None
        left = 1 / self.noise_multiplier**2 - 1 / event.noise_multiplier**2
        return None if left < 0 else GaussianTotal(min(NOTHING_LEFT, 1 / math.sqrt(max(left, NOTHING_LEFT**-2))))


@dataclass(frozen=True)
class SampledGaussianEvent(Event):
    """Gaussian noise on a sum over a Poisson sample: every unit takes part with probability `rate`.

    `noise_multiplier` is noise / clipping norm C, for both neighbour relations: with replace-one the two
    worlds lie up to 2C apart, and the accountants know it (dp-accounting's PLD REPLACE_ONE has this
    meaning; its RDP has not, so it is not used there). Valid only against observers who cannot learn
    whether the unit took part.
    """

    kind = "sampled-gaussian"
    noise_multiplier: float
    rate: float
    neighbours: Neighbours = Neighbours.REPLACE_ONE

    def __post_init__(self) -> None:
        SQUARABLE.check("noise_multiplier", self.noise_multiplier)
        Number(above=0, at_most=1).check("a sampling rate", self.rate)
        object.__setattr__(self, "neighbours", Neighbours(self.neighbours))

    def rdp(self, orders: Sequence[float] | FloatArray) -> FloatArray:
        """Add-remove: dp-accounting (Mironov, Talwar, Zhang 2019). Replace-one: by joint convexity.

        exp((a-1) D_a) is an f-divergence, hence jointly convex. With P = q N(x) + (1-q) N(0), Q = q N(x') +
        (1-q) N(0) and |x - x'| <= 2C it is at most q exp(a (a-1) 2/z^2) + 1 - q. Loose, but proved.
        """
        a = np.asarray(orders, dtype=np.float64)
        if self.neighbours is Neighbours.REPLACE_ONE:
            exponent = a * (a - 1) * 2 / self.noise_multiplier**2
            if self.rate == 1:
                return np.asarray(exponent / (a - 1))
            return np.asarray(np.logaddexp(math.log(self.rate) + exponent, math.log1p(-self.rate)) / (a - 1))
        from dp_accounting import rdp

        accountant = rdp.RdpAccountant(orders=list(a))
        return np.asarray(accountant.compose(self.dp_event()).rdp, dtype=np.float64)

    def dp_event(self) -> Any:
        import dp_accounting

        return dp_accounting.PoissonSampledDpEvent(self.rate, dp_accounting.GaussianDpEvent(self.noise_multiplier))


@dataclass(frozen=True)
class PureEvent(Event):
    """Any (epsilon, 0)-DP release: Laplace, l2-Laplace, two-sided Wishart.

    Randomised response with the same epsilon dominates it (Kairouz, Oh, Viswanath 2015, Thm. 3.3 and its
    proof), so its Renyi curve bounds every pure mechanism: D_a = log((e^(a eps) + e^((1-a) eps)) / (1 +
    e^eps)) / (a - 1).
    """

    kind = "pure"
    epsilon: float

    def __post_init__(self) -> None:
        Number(above=0).check("epsilon", self.epsilon)

    def rdp(self, orders: Sequence[float] | FloatArray) -> FloatArray:
        a, e = np.asarray(orders, dtype=np.float64), self.epsilon
        curve = (np.logaddexp(a * e, (1 - a) * e) - np.logaddexp(0.0, e)) / (a - 1)
        return np.asarray(np.minimum(np.maximum(curve, 0.0), e))

    def zcdp(self) -> float:
        """rho = epsilon^2 / 2: Bun & Steinke 2016, Prop. 3.3."""
        return self.epsilon**2 / 2

    def pure_epsilon(self) -> float:
        return self.epsilon


class _NoCurve(Event):
    """Adds nothing to any curve."""

    def rdp(self, orders: Sequence[float] | FloatArray) -> FloatArray:
        return np.zeros(len(orders))

    def zcdp(self) -> float:
        return 0.0

    def pure_epsilon(self) -> float:
        return 0.0

    def dp_event(self) -> Any:
        import dp_accounting

        return dp_accounting.NoOpDpEvent()


@dataclass(frozen=True)
class ZeroEvent(_NoCurve):
    """Nothing about the unit was released."""

    kind = "zero"


@dataclass(frozen=True)
class CappedEvent(_NoCurve):
    """A release that is paid for already: no unit takes part in more than `most`, and that many `inner` are charged.

    Which releases a unit takes part in is drawn without looking at rows. Given the draw, even if all of it is known, the
    others do not depend on the unit, so its loss is that of at most `most` releases of `inner`. The runtime keeps the
    cap. What can go wrong in the release itself (slack, failure) is counted every time.
    """

    kind = "capped"
    inner: Event
    most: int

    def __post_init__(self) -> None:
        Whole(1).check("the most releases a unit takes part in", self.most)

    def slack(self) -> float:
        return self.inner.slack()

    def failure(self) -> float:
        return self.inner.failure()

    def made_again(self) -> Event:
        return self.inner

    def to_dict(self) -> dict[str, Any]:
        return {"kind": self.kind, "version": self.version, "inner": self.inner.to_dict(), "most": self.most}


@dataclass(frozen=True)
class UncertifiedEvent(Event):
    """A release no accountant certifies: no noise at all, or noise whose published claim is false.

    `claimed_epsilon` is what the paper says (None: nothing is claimed); `delta_at_least` is a proved lower
    bound: no finite epsilon holds with a smaller delta.
    """

    kind = "uncertified"
    reason: str
    claimed_epsilon: float | None = None
    delta_at_least: float = 1.0

    def rdp(self, orders: Sequence[float] | FloatArray) -> FloatArray:
        return np.full(len(orders), np.inf)

    def dp_event(self) -> Any:
        import dp_accounting

        return dp_accounting.NonPrivateDpEvent()


@dataclass(frozen=True)
class SelectEvent(Event):
    """Repeat a private run a random number of times and publish only the best: Papernot & Steinke 2022.

    `charges` is one run. The number of runs has mean `mean_runs`; `shape` is eta of the truncated negative
    binomial (1 geometric, 0 logarithmic), or infinity for Poisson. Thm. 2 (negative binomial), Thm. 6
    (Poisson) of arXiv:2110.03620. The score must itself be part of the private output of a run.
    """

    kind = "select"
    charges: tuple[Charge, ...]
    mean_runs: float
    shape: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "charges", tuple(self.charges))
        if not (self.mean_runs >= 1 and math.isfinite(self.mean_runs)) or not self.shape >= 0:
            raise OptionError("a selection needs mean_runs >= 1 and shape >= 0")

    def rdp(self, orders: Sequence[float] | FloatArray) -> FloatArray:
        from taskveil.privacy.guarantees import select_curve

        a = np.asarray(orders, dtype=np.float64)
        one_run = np.sum([c.count * c.event.rdp(a) for c in self.charges], axis=0)
        return select_curve(a, np.asarray(one_run), self.mean_runs, self.shape)

    def slack(self) -> float:
        return self.mean_runs * math.fsum(c.count * c.event.slack() for c in self.charges)

    def failure(self) -> float:
        return self.mean_runs * math.fsum(c.count * c.event.failure() for c in self.charges)

    def dp_event(self) -> Any:
        import dp_accounting

        inner = [dp_accounting.SelfComposedDpEvent(c.event.dp_event(), c.count) for c in self.charges]
        return dp_accounting.dp_event.RepeatAndSelectDpEvent(dp_accounting.ComposedDpEvent(inner), self.mean_runs, self.shape)

    def to_dict(self) -> dict[str, Any]:
        inner = [{"event": c.event.to_dict(), "count": c.count} for c in self.charges]
        shape = "inf" if math.isinf(self.shape) else self.shape  # JSON has no infinity
        return {"kind": self.kind, "version": self.version, "charges": inner, "mean_runs": self.mean_runs, "shape": shape}
