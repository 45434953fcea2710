"""Noise shares inside a secure sum: every site quantises the clipped messages of its tasks and adds ONE share of
integer noise.

Theorem      privacy/secure_events.py; sensitivity on the grid: privacy/quantise.py.
Unit         read from the contribution.
Neighbours   fixed at calibration: they choose the rounding condition; `event` recomputes for the relation
             asked for.
Sensitivity  l2 of the integer vectors after rounding.
Shares       h = min_cohort - colluders, all counted in sites. A site knows all its own noise, so it adds one share
             however many tasks it has, and a colluding site can subtract one. Every total that is opened holds at
             least h shares no colluder knows; that of the protected task's site is one of them. More shares only
             add noise (post-processing).
Observer     the server, honest or not, with up to `colluders` sites; up to `colluders` other sites.
Not proved   more colluders, timing.

The sum is taken modulo 2^bits (post-processing, so an overflow costs accuracy, never privacy); it overflows
with probability at most 2^-40. Clipping bounds what honest sites send; a malicious site can add anything to the
sum, and only a total that no honest run reaches is noticed (`finish`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from taskveil.errors import OptionError, SecureSumRefused
from taskveil.privacy.contributions import Contribution
from taskveil.privacy.events import Event
from taskveil.privacy.integer_sampler import KeyStream, integer_noise
from taskveil.privacy.integer_tables import LARGEST_DEVIATION, LARGEST_DISTANCE
from taskveil.privacy.mechanisms.base import INFLATION, GaussianLaw
from taskveil.privacy.quantise import OVERFLOW_BITS, Grid, best_grid, ring_bits
from taskveil.privacy.randomness import FloatArray, Stream
from taskveil.privacy.secure_events import (
    ROUNDING_VARIANCE,
    SMALLEST_SHARE_VARIANCE,
    SharedGaussianEvent,
    SharedSkellamEvent,
    gaussian_share_distance,
)
from taskveil.privacy.secure_options import SECURITY_BITS, SecureOptions
from taskveil.privacy.units import Neighbours, Unit

COMFORTABLE_DEVIATION = 2.0**14  # of one share, in grid steps: tables up to here stay in the processor's cache
WIDEST = 64  # bits of the largest ring
STEPS_PER_ROOT = 64  # grid steps per sqrt(coordinate): keeps what rounding adds to the sensitivity below a percent


@dataclass(frozen=True)
class SharedNoise(GaussianLaw):
    """`scale` is the deviation of the h guaranteed shares together, in real units, as for a curator."""

    law = "discrete-gaussian"
    family = "shared"
    step: float
    condition: str
    rotate: bool
    share_variance: float  # grid steps squared
    bits: int
    n_tasks: int
    colluders: int  # sites
    min_cohort: int  # sites
    site_sizes: tuple[int, ...] | None = None  # tasks of every site; None: one each

    def __post_init__(self) -> None:
        if self.site_sizes is not None:
            object.__setattr__(self, "site_sizes", tuple(self.site_sizes))

    @classmethod
    def accepts(cls, contribution: Contribution) -> bool:
        return contribution.kind in ("vector-sum", "outer-sum", "moment-sum", "diagonal-sum", "row-sum")

    @classmethod
    def calibrated(
        cls,
        contribution: Contribution,
        neighbours: Neighbours,
        parameter: float,
        variant: str = "sound",
        secure: SecureOptions | None = None,
    ) -> SharedNoise:
        """The least noise whose event has at least the noise multiplier `parameter`."""
        if secure is None:
            raise OptionError(f"mechanism {cls.name!r} needs aggregation='secure' and its options")
        grid, variance = cls._grid(contribution, neighbours, parameter, secure)
        if contribution.unit is Unit.RECORD:
            return cls._made(grid, variance, WIDEST, secure)  # a task's sum of rows has no public bound
        bits = ring_bits(grid, secure.n_tasks, math.sqrt(secure.n_sites * variance))
        flat = Grid(grid.length, grid.norm, grid.step, grid.condition, rotate=True)
        flat_variance = cls._share_variance(flat, contribution, neighbours, parameter, secure.shares)
        flat_bits = ring_bits(flat, secure.n_tasks, math.sqrt(secure.n_sites * flat_variance))
        if flat_bits * flat.size <= (bits - 2) * grid.size and flat_variance <= 1.01 * variance:
            grid, variance, bits = flat, flat_variance, flat_bits
        if bits > 64:
            raise OptionError("the sum does not fit into 64 bits; use fewer grid_bits")
        return cls._made(grid, variance, bits, secure)

    @classmethod
    def _made(cls, grid: Grid, variance: float, bits: int, secure: SecureOptions) -> SharedNoise:
        scale = grid.step * math.sqrt(secure.shares * variance)
        return cls(
            scale, grid.step, grid.condition, grid.rotate, variance, bits,
            secure.n_tasks, secure.colluders, secure.min_cohort, secure.site_sizes,
        )  # fmt: skip

    @classmethod
    def _grid(
        cls, contribution: Contribution, neighbours: Neighbours, parameter: float, secure: SecureOptions
    ) -> tuple[Grid, float]:
        """A grid fine enough for messages, on which shares are neither too narrow nor too wide."""
        norm = contribution.sensitivity(Neighbours.ADD_REMOVE).l2
        real = contribution.sensitivity(neighbours).l2
        steps = max(2.0**secure.grid_bits, STEPS_PER_ROOT * math.sqrt(contribution.vector_size))
        exponent = math.floor(math.log2(norm / steps))
        for _ in range(64):
            grid = Grid(contribution.vector_size, norm, math.ldexp(1.0, exponent), "error")
            if contribution.unit is Unit.TASK:
                grid = best_grid(grid.length, norm, grid.step, real, two_messages(contribution, neighbours))
            variance = cls._share_variance(grid, contribution, neighbours, parameter, secure.shares)
            if variance < SMALLEST_SHARE_VARIANCE:
                exponent -= 1
            elif variance > COMFORTABLE_DEVIATION**2 and grid.reach > 8 * math.sqrt(grid.length) + 32:
                exponent += 1
            elif variance <= LARGEST_DEVIATION**2:
                return grid, variance
            else:
                break
        raise OptionError(
            "no grid suits these noise shares: too much noise for one site to add; use fewer rounds, more "
            "sites or a larger epsilon"
        )

    @classmethod
    def _share_variance(
        cls, grid: Grid, contribution: Contribution, neighbours: Neighbours, parameter: float, shares: int
    ) -> float:
        distance = grid_sensitivity(grid, contribution, neighbours)
        return ((parameter * distance) ** 2 * INFLATION**2 + ROUNDING_VARIANCE) / shares * INFLATION

    @property
    def n_sites(self) -> int:
        """How many sites add a share of the noise."""
        return self.n_tasks if self.site_sizes is None else len(self.site_sizes)

    @property
    def shares(self) -> int:
        """How many shares of noise hold all of it: those of honest sites in the smallest cohort."""
        return self.min_cohort - self.colluders

    def coordinate_deviation(self, contribution: Contribution) -> float:
        """Of the noise a total usually holds: more than `scale`, because the spare shares are in it."""
        return self.scale * math.sqrt(self.n_sites / self.shares)

    def sites(self) -> list[range]:
        """The places of every site's tasks among all tasks."""
        sizes = self.site_sizes or (1,) * self.n_tasks
        return [range(end - size, end) for end, size in zip(accumulate(sizes), sizes)]

    def grid(self, contribution: Contribution) -> Grid:
        """The public grid of this contribution."""
        norm = contribution.sensitivity(Neighbours.ADD_REMOVE).l2
        return Grid(contribution.vector_size, norm, self.step, self.condition, self.rotate)  # type: ignore[arg-type]

    def event(self, contribution: Contribution, neighbours: Neighbours) -> Event:
        grid = self.grid(contribution)
        return self._event(grid_sensitivity(grid, contribution, Neighbours(neighbours)), grid.size)

    def _event(self, l2: float, size: int) -> Event:
        table = LARGEST_DISTANCE * size * self.shares
        laws = gaussian_share_distance(self.share_variance, self.shares, size)
        multiplier = math.sqrt(self.shares * self.share_variance - ROUNDING_VARIANCE) / (l2 * INFLATION)
        return SharedGaussianEvent(multiplier, table + laws, 2.0**-SECURITY_BITS)

    def message(self, contribution: Contribution, own: FloatArray, streams: Sequence[Stream]) -> NDArray[np.int64]:
        """One site's integers for the secure sum: its tasks' rounded messages plus one share of the noise."""
        grid, words = self.grid(contribution), [KeyStream(stream.key()) for stream in streams]
        rounded = [grid.to_integers(contribution.to_vector(one), w) for one, w in zip(own, words, strict=True)]
        return np.sum(rounded, axis=0) + integer_noise(self.law, self.share_variance, grid.size, words[0])

    def limits(self, contribution: Contribution) -> tuple[float, float]:
        """The largest coordinate and the largest norm, in grid steps, that honest sites reach but with probability 2^-40.

        Every rounded message has norm at most c + sqrt(D) and coordinates at most c + 1. Noise: sub-Gaussian
        coordinates, and Hsu, Kakade, Zhang 2012, Thm. 2.1 for their norm; deviations are doubled for Skellam
        shares, whose tails are heavier. Sums of rows (unit record) have no public bound.
        """
        if contribution.unit is Unit.RECORD:
            return math.inf, math.inf
        grid = self.grid(contribution)
        odds = math.log(4 * grid.size) + OVERFLOW_BITS * math.log(2)
        deviation = math.sqrt(self.n_sites * self.share_variance) * (1 if self.law == "discrete-gaussian" else 2)
        coordinate = self.n_tasks * (grid.reach + 1) + math.sqrt(2 * odds) * deviation
        norm = self.n_tasks * (grid.reach + math.sqrt(grid.size)) + (math.sqrt(grid.size) + math.sqrt(2 * odds)) * deviation
        return coordinate, norm

    def finish(self, contribution: Contribution, integers: NDArray[np.int64]) -> FloatArray:
        """The noisy total in real units, refused where no honest sites could have made it.

        The answer depends on the released total and public figures only, so it costs nothing. It bounds what one
        malicious site can do; a false message inside the limits goes unnoticed.
        """
        values = np.abs(integers.astype(np.float64))
        coordinate, norm = self.limits(contribution)
        if values.max(initial=0.0) > coordinate or np.linalg.norm(values) > norm:
            raise SecureSumRefused(
                "a secure sum is larger than all tasks and their noise together can be: a site sent what it may not. "
                "Nothing is published; compare the sites and start a new run"
            )
        return contribution.from_vector(self.grid(contribution).to_vector(integers))

    def noise(self, total_shape: tuple[int, ...], stream: Stream) -> FloatArray:
        raise OptionError(f"mechanism {self.name!r} adds noise inside messages; use aggregation='secure'")


@dataclass(frozen=True)
class SharedGaussian(SharedNoise):
    """Discrete Gaussian shares (Kairouz, Liu, Steinke 2021)."""

    name = "shared-gaussian"


@dataclass(frozen=True)
class SharedSkellam(SharedNoise):
    """Skellam shares (Agarwal, Kairouz, Liu 2021); accounted by Renyi divergence: some 8 % more noise."""

    name = "shared-skellam"
    law = "skellam"

    def _event(self, l2: float, size: int) -> Event:
        table = LARGEST_DISTANCE * size * self.shares
        l1 = min(math.sqrt(size) * l2, l2**2)  # integers: |k| <= k^2
        variance = self.shares * self.share_variance
        return SharedSkellamEvent(variance, l1 * INFLATION, l2 * INFLATION, table, 2.0**-SECURITY_BITS)


def two_messages(contribution: Contribution, neighbours: Neighbours) -> bool:
    """Whether both neighbours send a rounded message: yes, but for a null task, whose zero rounds to itself."""
    return neighbours is Neighbours.REPLACE_ONE or contribution.unit is Unit.RECORD


def grid_sensitivity(grid: Grid, contribution: Contribution, neighbours: Neighbours) -> float:
    """How far one unit moves the integers. A record is part of a task's sum, whose norm is not bounded."""
    if contribution.unit is Unit.RECORD and grid.condition != "error":
        raise OptionError("sums of rows are rounded with a bound on the error; the condition must be 'error'")
    real = contribution.sensitivity(neighbours).l2
    return grid.sensitivity(real, two_messages(contribution, neighbours))
