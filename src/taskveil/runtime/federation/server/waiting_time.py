"""How long a synchronous server should wait for its participants (Ponomarenko-Timofeev et al., 7.2.2).

Times of real epochs depend on private row counts, so T_wait comes from a benchmark of public size that everybody runs when it
joins. Missing messages count as zero and lower neither the noise nor the divisor.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from taskveil.errors import OptionError


def agreed_waiting_time(reports: Sequence[float] | np.ndarray, share: float = 1.0) -> float:
    """T_wait from what participants reported when they joined: the longest report, or the one that this share stays below."""
    seconds = np.asarray(reports, dtype=float)
    if not 0.0 < share <= 1.0:
        raise OptionError(f"the share of participants to wait for must lie in (0, 1], got {share!r}")
    if seconds.size == 0 or not np.all(np.isfinite(seconds) & (seconds > 0.0)):
        raise OptionError("every participant reports the seconds of its benchmark, a positive number; ask those who did not")
    return float(np.quantile(seconds, share, method="higher"))


def benchmark_seconds(rows: int, n_features: int, repeats: int = 5) -> float:
    """What a participant reports (7.2.2): the longest of `repeats` epochs over made-up rows, on this machine, now.

    The size is common to all and public, and nobody's rows are touched: unlike the time of a real epoch, the report says nothing
    about how many rows its participant has.
    """
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((rows, n_features)), np.where(rng.random(rows) < 0.5, -1.0, 1.0)
    squares, longest = np.einsum("nd,nd->n", X, X), 0.0
    for _ in range(repeats):
        started, w = time.perf_counter(), np.zeros(n_features)
        for x, target, square in zip(X, y, squares):  # one pass of dual coordinate steps
            w += max(0.0, 1.0 - target * float(x @ w)) / square * target * x
        longest = max(longest, time.perf_counter() - started)
    return longest
