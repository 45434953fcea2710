"""Two-sided Wishart mechanism: pure epsilon-DP on symmetric matrices.

Theorem      E = E1 - E2, independent W_d(d+1, c I). The density of E at Z is proportional to the integral
             of exp(-tr(2A - Z)/(2c)) over {A >= 0, A >= Z} (E1 = A, E2 = A - Z; at d+1 degrees of freedom
             the Wishart density is exp(-tr A/(2c)) on the cone, without a determinant). Let D = P - N be a
             symmetric shift, P, N >= 0 its positive and negative parts. The domain for Z - P contains the
             one for Z, and the integrand at Z - P is exp(-tr P/(2c)) times the one at Z: f(Z - P) >=
             exp(-tr P/(2c)) f(Z). Substituting A -> A + P turns the domain for Z - P into {A >= P, A >= Z},
             a part of the one for Z, and the integrand into exp(+tr P/(2c)) times the one at Z: f(Z - P) <=
             exp(tr P/(2c)) f(Z). Shift by P, then back by N: |log f(Z) - log f(Z - D)| <= (tr P + tr
             N)/(2c) = |D|_*/(2c), and the mechanism is epsilon-DP with epsilon = (nuclear
             sensitivity)/(2c). d = 1 is exactly Laplace(2c). This is our own result
             (docs/theory/model-protected.md#two-sided-wishart); d'Orsi & Novikov 2025 is a known alternative.
Unit         read from the contribution.
Neighbours   read from the caller; they select the nuclear sensitivity.
Observer     whoever sees the returned value.
Not proved   no exact sampler: the guarantee covers real arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from taskveil.privacy.contributions import Contribution
from taskveil.privacy.events import PureEvent
from taskveil.privacy.mechanisms.base import INFLATION, Mechanism, gaussian_tail
from taskveil.privacy.randomness import FloatArray, Stream
from taskveil.privacy.units import Neighbours


@dataclass(frozen=True)
class TwoSidedWishart(Mechanism):
    """Difference of two independent W_d(d+1, scale I)."""

    name = "two-sided-wishart"
    family = "pure"

    @classmethod
    def accepts(cls, contribution: Contribution) -> bool:
        return contribution.symmetric and contribution.sensitivity(Neighbours.REPLACE_ONE).nuclear is not None

    @classmethod
    def calibrated(cls, contribution: Contribution, neighbours: Neighbours, parameter: float, variant: str = "sound") -> Self:
        return cls(_nuclear(contribution, neighbours) / (2 * parameter) * INFLATION)

    def event(self, contribution: Contribution, neighbours: Neighbours) -> PureEvent:
        return PureEvent(_nuclear(contribution, neighbours) / (2 * self.scale) * INFLATION)

    def noise(self, total_shape: tuple[int, ...], stream: Stream) -> FloatArray:
        d = total_shape[0]
        return np.asarray(stream.wishart(d, d + 1, self.scale) - stream.wishart(d, d + 1, self.scale))

    def coordinate_deviation(self, contribution: Contribution) -> float:
        """That of the symmetric Gaussian matrix with this spectral norm: a sixth more than of a diagonal entry, 2c sqrt(d+1)."""
        return self.typical_norm(contribution) / math.sqrt(2 * contribution.total_shape[0])

    def typical_norm(self, contribution: Contribution) -> float:
        """About 3.3 c d (docs/theory/model-protected.md#noise-lift)."""
        return 3.3 * self.scale * contribution.total_shape[0]

    def log_tail(self, deviations: float) -> float:
        return gaussian_tail(deviations)


def _nuclear(contribution: Contribution, neighbours: Neighbours) -> float:
    nuclear = contribution.sensitivity(neighbours).nuclear
    assert nuclear is not None  # accepts() was asked first
    return nuclear
