"""No noise: what `epsilon=None` means. No accountant certifies it, and the certificate says so."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from taskveil.privacy.contributions import Contribution
from taskveil.privacy.events import UncertifiedEvent
from taskveil.privacy.mechanisms.base import GaussianLaw
from taskveil.privacy.randomness import FloatArray, Stream
from taskveil.privacy.units import Neighbours


@dataclass(frozen=True)
class NoNoise(GaussianLaw):
    """Releases the clipped sum as it is."""

    name = "none"
    family = "none"
    scale: float = 0.0

    @classmethod
    def accepts(cls, contribution: Contribution) -> bool:
        return True

    @classmethod
    def calibrated(cls, contribution: Contribution, neighbours: Neighbours, parameter: float, variant: str = "sound") -> Self:
        return cls()

    def event(self, contribution: Contribution, neighbours: Neighbours) -> UncertifiedEvent:
        return UncertifiedEvent("no noise was added (epsilon=None): nothing is protected")

    def noise(self, total_shape: tuple[int, ...], stream: Stream) -> FloatArray:
        return np.zeros(total_shape)
