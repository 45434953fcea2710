"""Private selection: repeat a private run a random number of times, publish only the best (Papernot & Steinke 2022).

Theorem      one run rho-Renyi bounded at all orders by a Gaussian release of noise multiplier z; the number of runs K is
             drawn from a truncated negative binomial law with mean m and shape eta, independent of everything else; each
             run takes a configuration uniformly at random. The published (configuration, models, score) then has the
             Renyi curve of SelectEvent: arXiv:2110.03620, Thm. 2. K itself is not published.
Unit, neighbours, observer   those of the runs.
Not proved   that time does not show K: whoever can watch the clock of the run learns how often it was repeated.

`scale` is z of one whole run, its score included. The noise is that of the runs; nothing is added here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from taskveil.errors import OptionError
from taskveil.privacy.contributions import Contribution, VectorSum
from taskveil.privacy.events import Charge, GaussianEvent, SelectEvent
from taskveil.privacy.guarantees import negative_binomial_gamma
from taskveil.privacy.mechanisms.base import Mechanism
from taskveil.privacy.randomness import FloatArray, Stream
from taskveil.privacy.units import Neighbours


@dataclass(frozen=True)
class Selection(Mechanism):
    """Best of a random number of runs."""

    name = "private-selection"
    family = "select"
    mean_runs: float = 1.0
    shape: float = 1.0

    @classmethod
    def accepts(cls, contribution: Contribution) -> bool:
        return isinstance(contribution, VectorSum)

    @classmethod
    def calibrated(cls, contribution: Contribution, neighbours: Neighbours, parameter: float, variant: str = "sound") -> Self:
        raise OptionError("private selection is calibrated by TaskSearch, not by a plan")

    def event(self, contribution: Contribution, neighbours: Neighbours) -> SelectEvent:
        return SelectEvent((Charge(GaussianEvent(self.scale)),), self.mean_runs, self.shape)

    def noise(self, total_shape: tuple[int, ...], stream: Stream) -> FloatArray:
        raise OptionError("the noise of a selection is that of its runs")

    def coordinate_deviation(self, contribution: Contribution) -> float:
        raise OptionError("the noise of a selection is that of its runs")

    def typical_norm(self, contribution: Contribution) -> float:
        raise OptionError("the noise of a selection is that of its runs")

    def log_tail(self, deviations: float) -> float:
        raise OptionError("the noise of a selection is that of its runs")

    def draw_runs(self, stream: Stream) -> int:
        """K >= 1 from the truncated negative binomial law, by inverting its distribution function."""
        if self.mean_runs == 1:
            return 1
        gamma = negative_binomial_gamma(self.mean_runs, self.shape)
        u, k, total = float(stream.uniform(())), 0, 0.0
        while total < u and k < 1_000_000:
            k += 1
            total += truncated_negative_binomial(k, gamma, self.shape)
        return max(k, 1)


def truncated_negative_binomial(k: int, gamma: float, shape: float) -> float:
    """P(K = k), k = 1, 2, ... (Papernot & Steinke 2022, Def. 1); shape 0 is the logarithmic law."""
    if shape == 0:
        return float((1 - gamma) ** k / (k * math.log(1 / gamma)))
    steps = np.arange(k)
    log_rising = float(np.sum(np.log((steps + shape) / (steps + 1))))
    return math.exp(k * math.log1p(-gamma) + log_rising) / (gamma**-shape - 1)
