"""Mechanism: how noise is added to a bounded sum, and which event that is.

A mechanism is frozen and holds its absolute scale. It knows three things: the event it gives for a
contribution and a neighbour relation (`event`), the scale that reaches a wanted event parameter
(`calibrated`), and its noise (`noise`, `add`). It never charges and is never called by a method:
`release.py` charges the account and then calls it.

`parameter` is what plans calibrate: the noise multiplier z (Gaussian) or the epsilon of one release (pure
and paper mechanisms). Scales are inflated by INFLATION relative, so that rounding in sums and square roots
is on the safe side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal

import numpy as np

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
    scale: float

    def __post_init__(self) -> None:
        Number(at_least=0).check(f"the scale of mechanism {self.name!r}", self.scale)

    @classmethod
    @abstractmethod
    def accepts(cls, contribution: Contribution) -> bool:
        """Whether this noise fits such a total."""

    @classmethod
    @abstractmethod
    def calibrated(
        cls, contribution: Contribution, neighbours: Neighbours, parameter: float, variant: str = "sound"
    ) -> Mechanism:
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

    @property
    def typical_scale(self) -> float:
        """Deviation of the noise a release usually holds; more than `scale` where spare shares are in it."""
        return self.scale

    def to_dict(self) -> dict[str, Any]:
        """Plain data; `mechanism_from_dict` reads it back."""
        return {"name": self.name, **asdict(self)}
