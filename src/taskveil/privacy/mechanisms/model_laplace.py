"""Noise on every task's own model, before anything is summed: Algorithm 5 of MP-MTL.

Printed      w~ = clip(w, K) + b with density proportional to exp(-(2K/eps) |b|), then W~W~' plus one-sided
             Wishart noise. The density is upside down: a smaller epsilon would add less noise. The claim for
             the later noise uses |w~| <= K, which no longer holds after b is added. And the Wishart noise is
             not private (paper_wishart.py). `PaperModelLaplace` computes just that, for variants paper and
             preprint; per-round epsilons of both noises are taken equal.
Corrected    density proportional to exp(-|b|/s), s = D2/eps, D2 = K (add-remove) or 2K (replace-one): the
             norm is Gamma(d, s), the direction uniform. Then clip again.
Theorem      exp(-|z|/s) changes by at most exp(|w - w'|/s) when w changes: pure epsilon (Chaudhuri,
             Monteleoni, Sarwate 2011, Lemma 1). Clipping again, outer products and sums are post-processing.
Unit         the task: D2 bounds ANY change of the message, not only that of one record.
Observer     everybody, the server included: what leaves a task is already noisy. No other noise is needed.
Not proved   real arithmetic only (no exact sampler). The noise grows with d and is added m times: at equal
             epsilon a secure sum is far more accurate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np

from taskveil.errors import OptionError
from taskveil.privacy.contributions import Contribution
from taskveil.privacy.events import PureEvent, UncertifiedEvent
from taskveil.privacy.mechanisms.base import INFLATION, GaussianLaw
from taskveil.privacy.mechanisms.laplace import l2_laplace
from taskveil.privacy.mechanisms.paper_wishart import PaperWishart
from taskveil.privacy.randomness import FloatArray, Stream
from taskveil.privacy.units import Neighbours, Unit

REASON = (
    "Algorithm 5 as printed draws noise with density exp(-(2K/eps)|b|), so that one message costs (2K)^2/eps "
    "instead of eps; the Wishart noise added later is one-sided and relies on a bound that b breaks"
)

NOT_ON_TOTALS = "this noise goes on every task's own message; use aggregation='local-model'"


@dataclass(frozen=True)
class ModelLaplace(GaussianLaw):
    """Density proportional to exp(-|b| / scale) on one task's clipped message."""

    name = "model-laplace"
    family = "pure"
    on_messages = True

    @classmethod
    def accepts(cls, contribution: Contribution) -> bool:
        return contribution.unit is Unit.TASK

    @classmethod
    def calibrated(cls, contribution: Contribution, neighbours: Neighbours, parameter: float, variant: str = "sound") -> Self:
        return cls(message_sensitivity(contribution, neighbours) / parameter * INFLATION)

    def event(self, contribution: Contribution, neighbours: Neighbours) -> PureEvent:
        return PureEvent(message_sensitivity(contribution, neighbours) / self.scale * INFLATION)

    def noise(self, total_shape: tuple[int, ...], stream: Stream) -> FloatArray:
        """One draw for a message of this shape."""
        return l2_laplace(self.scale, total_shape, stream)

    def add(self, contribution: Contribution, total: FloatArray, stream: Stream) -> FloatArray:
        raise OptionError(NOT_ON_TOTALS)  # the event is that of a message, not of a sum

    def noisy_total(self, contribution: Contribution, messages: FloatArray, streams: list[Stream]) -> FloatArray:
        """Every message with its own noise, clipped again, and summed."""
        noisy = [w + self.noise(contribution.message_shape, s) for w, s in zip(messages, streams, strict=True)]
        return contribution.total(contribution.clip(np.stack(noisy)))

    def coordinate_deviation(self, contribution: Contribution) -> float:
        """Of what one task's noise does to the sum, root mean square over coordinates.

        A message that is clipped again is noise for a part of its length, and puts at most the add-remove sensitivity into
        the sum. Exact for sums of messages while the noise stays within the bound: s sqrt(p + 1).
        """
        p, most = math.prod(contribution.message_shape), contribution.sensitivity(Neighbours.ADD_REMOVE).l2
        part = min(1.0, self.scale * math.sqrt(p * (p + 1.0)) / contribution.bound)
        return part * most / math.sqrt(contribution.vector_size)


@dataclass(frozen=True)
class PaperModelLaplace(PaperWishart):
    """Lines 4 to 6 of Algorithm 5 as printed. Not private."""

    name = "paper-model-laplace"
    on_messages = True

    def event(self, contribution: Contribution, neighbours: Neighbours) -> UncertifiedEvent:
        return UncertifiedEvent(REASON, self.claimed_epsilon, 0.0)  # no lower bound on delta is proved here

    def add(self, contribution: Contribution, total: FloatArray, stream: Stream) -> FloatArray:
        raise OptionError(NOT_ON_TOTALS)

    def noisy_total(self, contribution: Contribution, messages: FloatArray, streams: list[Stream], common: Stream) -> FloatArray:
        """w~ = clip(w) + b, b of scale eps/(2K); then W~W~' + E. Nothing is clipped again."""
        scale = self.claimed_epsilon / (2 * contribution.bound)
        shape = contribution.message_shape
        noisy = [w + l2_laplace(scale, shape, s) for w, s in zip(messages, streams, strict=True)]
        return contribution.unclipped_total(np.stack(noisy)) + self.noise(contribution.total_shape, common)


def message_sensitivity(contribution: Contribution, neighbours: Neighbours) -> float:
    """How far one task's clipped message can move: K or 2K."""
    if contribution.unit is not Unit.TASK:
        raise OptionError("noise on a whole message protects the task; choose unit='task'")
    return (1 if Neighbours(neighbours) is Neighbours.ADD_REMOVE else 2) * contribution.bound
