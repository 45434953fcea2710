"""The one-sided Wishart noise of MP-MTL (Alg. 1, line 5). NOT private; variants paper and preprint only.

Paper        S + E, E ~ W_d(d+1, K^2/(2 eps_t) I), for WW' and W'W (journal version). Preprint: sensitivity
             s = 2K in place of K^2, E ~ W_d(d+1, (2K)/(2 eps_t) I), and W_m(m+1, diag(s/(2 eps_t))) for
             W'W, which with s_i = 2K for all i is the same multiple of the identity.
Why not DP   E is positive semidefinite, so S <= S + E always. Neighbours w_i = 0 and w_i = v, |v| = K:
             given v the event {S_0 + vv' <= output fails} has probability 0; given 0 it has probability
             P(chi2_2 < K^2/c) = 1 - exp(-K^2/(2c)), in every dimension, which is 1 - exp(-eps_t) for the
             paper's c. So no finite epsilon holds with a smaller delta (docs/theory/model-protected.md#wishart; Sarwate 2017
             retracted the same claim for his own version of the mechanism). Several rounds: the observer is
             certain unless every round fails him, 1 - exp(-sum K^2/(2c_t)). For W'W take all other models
             zero: the change is K^2 e_i e_i', of rank one, and the same number holds.
Diagonal     Alg. 3 takes the diagonal of the noisy matrix; that of W_d(d+1, cI) is c chi2_{d+1},
             independent entries.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from taskveil.errors import OptionError
from taskveil.privacy.contributions import Contribution, DiagonalSum
from taskveil.privacy.events import UncertifiedEvent
from taskveil.privacy.mechanisms.base import Mechanism, gaussian_tail
from taskveil.privacy.randomness import FloatArray, Stream
from taskveil.privacy.units import Neighbours

REASON = (
    "one-sided Wishart noise is positive semidefinite, so the output can show with certainty that a task "
    "is absent; "
    "the mechanism is not differentially private for any finite epsilon with delta < 1 - exp(-epsilon)"
)


@dataclass(frozen=True)
class PaperWishart(Mechanism):
    """W_d(d+1, scale I) added to a symmetric matrix; `claimed_epsilon` is what the paper says it costs."""

    name = "paper-wishart"
    family = "paper"
    claimed_epsilon: float

    @classmethod
    def accepts(cls, contribution: Contribution) -> bool:
        return contribution.symmetric or isinstance(contribution, DiagonalSum)

    @classmethod
    def calibrated(cls, contribution: Contribution, neighbours: Neighbours, parameter: float, variant: str = "sound") -> Self:
        if variant not in ("paper", "preprint"):
            raise OptionError("mechanism 'paper-wishart' is not private and exists only for variant='paper' or 'preprint'")
        sensitivity = contribution.bound**2 if variant == "paper" else 2 * contribution.bound
        return cls(sensitivity / (2 * parameter), parameter)

    def event(self, contribution: Contribution, neighbours: Neighbours) -> UncertifiedEvent:
        certain = -math.expm1(-(contribution.bound**2) / (2 * self.scale))
        return UncertifiedEvent(REASON, self.claimed_epsilon, certain)

    def noise(self, total_shape: tuple[int, ...], stream: Stream) -> FloatArray:
        d = total_shape[0]
        if len(total_shape) == 1:
            return np.asarray(self.scale * stream.chi_square(d + 1, d))
        return stream.wishart(d, d + 1, self.scale)

    def coordinate_deviation(self, contribution: Contribution) -> float:
        return self.scale * math.sqrt(2 * (contribution.total_shape[0] + 1))

    def typical_norm(self, contribution: Contribution) -> float:
        """About 3.8 c d (docs/theory/model-protected.md#noise-lift)."""
        return 3.8 * self.scale * contribution.total_shape[0]

    def log_tail(self, deviations: float) -> float:
        return gaussian_tail(deviations)
