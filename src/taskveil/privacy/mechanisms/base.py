"""Mechanism: how noise is added to a bounded sum, and which event that is.

A mechanism is frozen and holds its absolute scale. It knows four things: the event it gives for a
contribution and a neighbour relation (`event`), the scale that reaches a wanted event parameter
(`calibrated`), how to draw its noise (`noise`, `add`), and how large it is, for whoever must tell it from
a signal (`coordinate_deviation`, `typical_norm`, `log_tail`). It never charges and is never called by a method:
`release.py` charges the account and then calls it.

`parameter` is what plans calibrate: the noise multiplier z (Gaussian) or the epsilon of one release (pure
and paper mechanisms). Scales are inflated by INFLATION relative, so that rounding in sums and square roots
is on the safe side.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from scipy.special import log_ndtr

from taskveil.checks import Number
from taskveil.privacy.contributions import Contribution
from taskveil.privacy.events import Event
from taskveil.privacy.randomness import FloatArray, Stream
from taskveil.privacy.units import Neighbours

INFLATION = 1 + 1e-9
Family = Literal["gaussian", "pure", "shared", "paper", "select", "none"]


@dataclass(frozen=True)
class Mechanism(ABC):
    """Base of all mechanisms."""

    name: ClassVar[str]
    family: ClassVar[Family]
    on_messages: ClassVar[bool] = False  # noise on every task's own message, before anything is summed
    scale: float

    def __post_init__(self) -> None:
        Number(at_least=0).check(f"the scale of mechanism {self.name!r}", self.scale)

    @classmethod
    @abstractmethod
    def accepts(cls, contribution: Contribution) -> bool:
        """Whether this noise fits such a total."""

    @classmethod
    @abstractmethod
    def calibrated(cls, contribution: Contribution, neighbours: Neighbours, parameter: float, variant: str = "sound") -> Self:
        """The mechanism whose event has at most the privacy loss of `parameter`."""

    @abstractmethod
    def event(self, contribution: Contribution, neighbours: Neighbours) -> Event:
        """What one release with this scale costs."""

    @abstractmethod
    def noise(self, total_shape: tuple[int, ...], stream: Stream) -> FloatArray:
        """One draw of the noise, in the shape of the total."""

    def draw(self, contribution: Contribution, stream: Stream) -> FloatArray:
        """The noise of one release. It does not depend on the total, so it can be drawn while that is still computed."""
        return self.noise(contribution.total_shape, stream)

    def put(self, contribution: Contribution, total: FloatArray, drawn: FloatArray) -> FloatArray:
        """The total with the noise of `draw` on it."""
        return np.asarray(total + drawn)

    def add(self, contribution: Contribution, total: FloatArray, stream: Stream) -> FloatArray:
        """The total with fresh noise on it."""
        return self.put(contribution, total, self.draw(contribution, stream))

    @abstractmethod
    def coordinate_deviation(self, contribution: Contribution) -> float:
        """Standard deviation of one coordinate of the noise in a total; of a diagonal entry, for symmetric matrices."""

    @abstractmethod
    def typical_norm(self, contribution: Contribution) -> float:
        """Spectral norm of matrix noise, largest entry of vector noise; typical size, not a bound."""

    @abstractmethod
    def log_tail(self, deviations: float) -> float:
        """Log of the chance that one coordinate exceeds so many standard deviations."""

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `mechanism_from_dict` reads it back."""
        return {"name": self.name, **asdict(self)}


class GaussianLaw(Mechanism):
    """Shared by noise that is Gaussian or nearly so in every coordinate of the isometric vector."""

    def coordinate_deviation(self, contribution: Contribution) -> float:
        return self.scale

    def typical_norm(self, contribution: Contribution) -> float:
        """s sqrt(2d) for symmetric matrices of side d, s sqrt(2 log 2n) for the largest of n entries."""
        shape = contribution.total_shape
        spread = 2 * shape[0] if contribution.symmetric else 2 * math.log(2 * math.prod(shape))
        return self.coordinate_deviation(contribution) * math.sqrt(spread)

    def log_tail(self, deviations: float) -> float:
        return gaussian_tail(deviations)


def gaussian_tail(deviations: float) -> float:
    """log P(Z > deviations), Z standard normal."""
    return float(log_ndtr(-deviations))


def laplace_tail(deviations: float) -> float:
    """The same for Laplace noise, whose deviation is sqrt(2) times its scale."""
    return math.log(0.5) - math.sqrt(2) * deviations
