"""Laplace mechanism (l1 sensitivity) and l2-Laplace mechanism (l2 sensitivity): pure epsilon-DP.

Theorem      Laplace(b) on every coordinate: epsilon = D1 / b (Dwork, McSherry, Nissim, Smith 2006, Prop.
             1). Density proportional to exp(-|z|_2 / b): epsilon = D2 / b by the triangle inequality; its
             norm is Gamma(p, b) and its direction uniform (Chaudhuri, Monteleoni, Sarwate 2011, used in
             MP-MTL Alg. 5, whose printed density exp(-(2K/eps)|b|) is upside down:
             docs/theory/model-protected.md#algorithm-5).
Unit         read from the contribution.
Neighbours   read from the caller.
Sensitivity  l1 plus n grid steps (Laplace, exact discrete noise on a grid); l2 (l2-Laplace).
Observer     whoever sees the returned value.
Not proved   l2-Laplace has no exact sampler: its guarantee covers real arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from taskveil.privacy.contributions import Contribution, TaskStack
from taskveil.privacy.events import PureEvent
from taskveil.privacy.mechanisms.base import INFLATION, Family, Mechanism, laplace_tail
from taskveil.privacy.randomness import FloatArray, Stream, grid, snap
from taskveil.privacy.units import Neighbours


@dataclass(frozen=True)
class Laplace(Mechanism):
    """Independent Laplace noise on every coordinate."""

    name = "laplace"
    family = "pure"

    @classmethod
    def accepts(cls, contribution: Contribution) -> bool:
        return contribution.sensitivity(Neighbours.REPLACE_ONE).l1 is not None

    @classmethod
    def calibrated(cls, contribution: Contribution, neighbours: Neighbours, parameter: float, variant: str = "sound") -> Self:
        scale = _l1(contribution, neighbours) / parameter
        return cls((scale + contribution.vector_size * 2 * grid(scale) / parameter) * INFLATION)

    def event(self, contribution: Contribution, neighbours: Neighbours) -> PureEvent:
        rounding = contribution.vector_size * grid(self.scale)
        return PureEvent((_l1(contribution, neighbours) + rounding) * INFLATION / self.scale)

    def noise(self, total_shape: tuple[int, ...], stream: Stream) -> FloatArray:
        return stream.laplace(self.scale, total_shape)

    def put(self, contribution: Contribution, total: FloatArray, drawn: FloatArray) -> FloatArray:
        return np.asarray(snap(total, self.scale) + drawn)

    def coordinate_deviation(self, contribution: Contribution) -> float:
        return math.sqrt(2) * self.scale

    def typical_norm(self, contribution: Contribution) -> float:
        return self.scale * math.log(2 * math.prod(contribution.total_shape))

    def log_tail(self, deviations: float) -> float:
        return laplace_tail(deviations)


@dataclass(frozen=True)
class L2Laplace(Mechanism):
    """Noise with density proportional to exp(-|z|_2 / scale) on a vector."""

    name = "l2-laplace"
    family: ClassVar[Family] = "pure"

    @classmethod
    def accepts(cls, contribution: Contribution) -> bool:
        return not contribution.symmetric

    @classmethod
    def calibrated(cls, contribution: Contribution, neighbours: Neighbours, parameter: float, variant: str = "sound") -> Self:
        return cls(contribution.sensitivity(neighbours).l2 / parameter * INFLATION)

    def event(self, contribution: Contribution, neighbours: Neighbours) -> PureEvent:
        return PureEvent(contribution.sensitivity(neighbours).l2 / self.scale * INFLATION)

    def noise(self, total_shape: tuple[int, ...], stream: Stream) -> FloatArray:
        return l2_laplace(self.scale, total_shape, stream)

    def draw(self, contribution: Contribution, stream: Stream) -> FloatArray:
        if not isinstance(contribution, TaskStack):
            return super().draw(contribution, stream)
        # One task moves one row, so every row gets its own draw of the row's dimension.
        return np.stack([self.noise(contribution.shape, stream) for _ in range(contribution.total_shape[0])])

    def coordinate_deviation(self, contribution: Contribution) -> float:
        """E|z|^2 / p = (p + 1) b^2, because |z| is Gamma(p, b)."""
        return math.sqrt(_drawn_together(contribution) + 1.0) * self.scale

    def typical_norm(self, contribution: Contribution) -> float:
        return self.scale * _drawn_together(contribution)

    def log_tail(self, deviations: float) -> float:
        return laplace_tail(deviations)


def l2_laplace(scale: float, shape: tuple[int, ...], stream: Stream) -> FloatArray:
    """One draw with density proportional to exp(-|z|_2 / scale): Gamma(p, scale) times a uniform direction."""
    p = math.prod(shape)
    return np.asarray(stream.gamma(p, scale) * stream.direction(p)).reshape(shape)


def _drawn_together(contribution: Contribution) -> int:
    """Coordinates of one draw: a row of a stack, else the whole total."""
    return math.prod(contribution.message_shape if isinstance(contribution, TaskStack) else contribution.total_shape)


def _l1(contribution: Contribution, neighbours: Neighbours) -> float:
    l1 = contribution.sensitivity(neighbours).l1
    assert l1 is not None  # accepts() was asked first
    return l1
