"""Gaussian mechanism on vectors and, in the Frobenius isometry, on symmetric matrices.

Theorem      f(x) + N(0, s^2 I) is rho-zCDP with rho = D^2 / (2 s^2): Bun & Steinke 2016, arXiv:1605.02065,
             Prop. 1.6; its exact (epsilon, delta) curve is Balle & Wang 2018, Thm. 8. Discrete noise on a
             grid: Canonne, Kamath, Steinke 2020, Thm. 4 (same rho); the exact curve of the discrete law
             differs from the continuous one by the error of a Riemann sum with 2^40 points per standard
             deviation, far below the 1e-9 inflation.
Unit         read from the contribution (record or task); never chosen here.
Neighbours   read from the caller: they select the sensitivity D.
Sensitivity  l2 of the isometric vector, plus sqrt(n) grid steps for rounding to the grid (randomness.py).
Observer     whoever sees the returned value; the input stays in this process.
Not proved   float64 samples of seeded and simulated draws (Mironov 2012); `describe()` of the source says so.

Symmetric matrices: N(0, s^2) on the diagonal, N(0, s^2/2) above it, mirrored. Spectral norm about s sqrt(2d).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

from taskveil.privacy.contribution import Contribution, symmetric_matrix
from taskveil.privacy.events import GaussianEvent
from taskveil.privacy.mechanisms.base import INFLATION, GaussianLaw
from taskveil.privacy.randomness import FloatArray, Stream, grid, snap
from taskveil.privacy.units import Neighbours


@dataclass(frozen=True)
class Gaussian(GaussianLaw):
    """Independent N(0, scale^2) on every coordinate of a vector."""

    name = "gaussian"
    family = "gaussian"

    @classmethod
    def accepts(cls, contribution: Contribution) -> bool:
        return not contribution.symmetric

    @classmethod
    def calibrated(cls, contribution: Contribution, neighbours: Neighbours, parameter: float, variant: str = "sound") -> Self:
        scale = parameter * contribution.sensitivity(neighbours).l2
        rounding = math.sqrt(contribution.vector_size) * 2 * grid(scale)  # 2: the inflated scale may cross a power of 2
        return cls((scale + parameter * rounding) * INFLATION)

    def event(self, contribution: Contribution, neighbours: Neighbours) -> GaussianEvent:
        rounding = math.sqrt(contribution.vector_size) * grid(self.scale)
        return GaussianEvent(self.scale / ((contribution.sensitivity(neighbours).l2 + rounding) * INFLATION))

    def noise(self, total_shape: tuple[int, ...], stream: Stream) -> FloatArray:
        return stream.normal(self.scale, total_shape)

    def draw(self, contribution: Contribution, stream: Stream) -> FloatArray:
        return stream.normal(self.scale, contribution.vector_size)

    def put(self, contribution: Contribution, total: FloatArray, drawn: FloatArray) -> FloatArray:
        vector = snap(contribution.to_vector(total), self.scale)
        return contribution.from_vector(vector + drawn)


@dataclass(frozen=True)
class MatrixGaussian(Gaussian):
    """The same in the Frobenius isometry of symmetric matrices."""

    name = "matrix-gaussian"

    @classmethod
    def accepts(cls, contribution: Contribution) -> bool:
        return contribution.symmetric

    def noise(self, total_shape: tuple[int, ...], stream: Stream) -> FloatArray:
        side = total_shape[0]
        return symmetric_matrix(stream.normal(self.scale, side * (side + 1) // 2), side)
