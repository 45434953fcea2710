"""Simulated compute times, and how long a server waits for them (Ponomarenko-Timofeev et al., 3.1, 7.2).

Compute times are Gaussian with mean and spread fitted to rows and features, divided by a hardware factor per participant (1 to
10 when heterogeneous). They are keyed by (seed, round), so a wall-clock curve is reproducible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from taskveil.errors import OptionError
from taskveil.runtime.federation.server.waiting_time import agreed_waiting_time

SHARES = (0.10, 0.20, 0.25, 0.45, 0.75, 1.0)
LEAST_SHARE_OF_MEAN = 0.05  # a Gaussian time is cut off here: no computation takes no time


@dataclass(frozen=True)
class ComputeTimes:
    """Seconds for scoring `rows` rows of `n_features` features: Gaussian, mean base + per_cell rows n_features."""

    base: float = 1e-4
    per_cell: float = 5e-10
    spread: float = 0.1  # standard deviation relative to the mean
    hardware: np.ndarray | None = None  # (participants,) divides the time; None: all 1
    seed: int = 0

    def means(self, rows: np.ndarray, n_features: int) -> np.ndarray:
        factor = 1.0 if self.hardware is None else self.hardware
        return (self.base + self.per_cell * np.asarray(rows, dtype=np.float64) * n_features) / factor

    def draw(self, round: int, rows: np.ndarray, n_features: int) -> np.ndarray:
        """Seconds of every participant in one round."""
        mean = self.means(rows, n_features)
        noise = np.random.default_rng([self.seed, round]).standard_normal(mean.size)
        return mean * np.maximum(1.0 + self.spread * noise, LEAST_SHARE_OF_MEAN)

    def rows_within(self, seconds: float, n_features: int, count: int) -> np.ndarray:
        """Rows each of `count` participants can score in the given time, on average; at least one."""
        factor = np.ones(count) if self.hardware is None else self.hardware
        free = np.maximum(seconds * factor - self.base, 0.0)
        return np.maximum(np.floor(free / (self.per_cell * n_features)), 1.0)


def heterogeneous_hardware(count: int, slowest: float = 1.0, fastest: float = 10.0) -> np.ndarray:
    """Hardware factors that rise evenly from 1 to 10 over the participants (section 7.1)."""
    return np.linspace(slowest, fastest, count)


def fit_compute_times(rows: np.ndarray, n_features: np.ndarray, seconds: np.ndarray) -> ComputeTimes:
    """Least squares of measured seconds on 1 and rows * features; spread from the relative residuals."""
    cells = np.asarray(rows, dtype=np.float64) * np.asarray(n_features, dtype=np.float64)
    design = np.column_stack([np.ones_like(cells), cells])
    base, per_cell = np.linalg.lstsq(design, seconds, rcond=None)[0]
    base, per_cell = max(float(base), 0.0), max(float(per_cell), 1e-15)
    spread = float(np.std(seconds / np.maximum(base + per_cell * cells, 1e-12) - 1.0))
    return ComputeTimes(base, per_cell, spread)


def waiting_time(times: ComputeTimes, rows: np.ndarray, n_features: int, share: float, rounds: int = 200) -> float:
    """T_wait in which this share of the participants answers, on average over simulated rounds; share 1 is infinite."""
    if not 0.0 < share <= 1.0:
        raise OptionError(f"the share of participants to wait for must lie in (0, 1], got {share!r}")
    if share == 1.0:
        return float("inf")
    drawn = np.concatenate([times.draw(10**6 + t, rows, n_features) for t in range(rounds)])
    return float(np.quantile(drawn, share))


def benchmark_waiting_time(times: ComputeTimes, rows: np.ndarray, n_features: int, repeats: int = 20) -> float:
    """The paper's suggestion (7.2.2) on the virtual clock: everybody reports the longest of its own benchmark epochs."""
    drawn = [times.draw(2 * 10**6 + t, rows, n_features) for t in range(repeats)]
    return agreed_waiting_time(np.max(drawn, axis=0))
