"""From one noisy second moment S = sum_i w_i w_i' to the structure that stands out in it: post-processing of a release.

Messages are directions (trace of S: the number of tasks), or models clipped to a norm K that somebody gave. Then the
trace says how much energy there is, and because no task holds more than K^2 of it, lengths that differ can at most
multiply the variance that chance alone gives S by K^2 tasks / trace.
"""

from __future__ import annotations

import math

import numpy as np

from taskveil.methods.base import PublicInfo
from taskveil.methods.shared_prior import common_directions, common_features, noise_deviation
from taskveil.privacy.plan import PlannedRelease

SURE = 3.0  # standard deviations by which the energy must exceed zero


def structure(
    S: np.ndarray, planned: PlannedRelease, public: PublicInfo, aggregation: str, clip: float | None
) -> dict[str, np.ndarray]:
    """What stands out in S (d, d): share (d,) and basis (d, d) with their doubt; in its diagonal (d,): features. Else zeros.

    `clip`: the norm messages were clipped to; None: they are directions.
    """
    m, r = public.n_tasks, public.n_outputs
    deviation = noise_deviation(planned, m, aggregation)
    if clip is not None:
        S, deviation = _in_directions(S, deviation, clip, m, r)
    if S.ndim == 1:
        features, doubt = common_features(S, deviation, m, r, planned.mechanism.log_tail)
        return {"features": features, "features_doubt": np.array(doubt)}
    share, basis, doubt = common_directions(S, deviation, m, r)
    return {"share": share, "basis": basis, "share_doubt": np.array(doubt)}


def _in_directions(S: np.ndarray, deviation: float, clip: float, m: int, r: int) -> tuple[np.ndarray, float]:
    """S and its deviation as if directions had been sent; even, hence without structure, where its energy may be noise."""
    d = len(S)
    energy = float(np.sum(S) if S.ndim == 1 else np.trace(S))
    if energy <= SURE * deviation * math.sqrt(d):
        return (np.full(d, m / d) if S.ndim == 1 else np.eye(d) * m / d), deviation
    unit = m / energy
    uneven = max(0.0, clip**2 * unit - 1.0)
    return S * unit, math.sqrt((deviation * unit) ** 2 + uneven * 2 * m / (r * d * (d + 2)))
