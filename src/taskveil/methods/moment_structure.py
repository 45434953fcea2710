"""From one noisy second moment S = sum_i w_i w_i' to the structure that stands out in it: post-processing of a release.

Messages are directions (trace of S: the number of tasks), or models clipped to a norm K that somebody gave. Then the
trace says how much energy there is, and because no task holds more than K^2 of it, lengths that differ can at most
multiply the variance that chance alone gives S by K^2 tasks / trace.
"""

from __future__ import annotations

import math

import numpy as np

from taskveil.methods.base import PublicInfo, View
from taskveil.methods.shared_prior import common_directions, common_features, noise_deviation, priors
from taskveil.privacy.plan import PlannedRelease
from taskveil.solvers.posterior import Prior

SURE = 3.0  # standard deviations by which the energy must exceed zero
HEAVY_TAILS = ("laplace", "l2-laplace")


def structure(
    S: np.ndarray, planned: PlannedRelease, public: PublicInfo, aggregation: str, clip: float | None
) -> dict[str, np.ndarray]:
    """share (d,), basis (d, d) and share_doubt of S (d, d) or of its diagonal (d,); shares are zero where nothing stands out.

    `clip`: the norm messages were clipped to; None: they are directions.
    """
    d, m, r = public.n_features, public.n_tasks, public.n_outputs
    deviation = noise_deviation(planned, m, aggregation)
    if clip is not None:
        energy = float(np.sum(S) if S.ndim == 1 else np.trace(S))
        if energy <= SURE * deviation * math.sqrt(d):
            return {"share": np.zeros(d), "basis": np.eye(d), "share_doubt": np.array(0.0)}
        unit = m / energy
        uneven = max(0.0, clip**2 * unit - 1.0)
        S, deviation = S * unit, math.sqrt((deviation * unit) ** 2 + uneven * 2 * m / (r * d * (d + 2)))
    if S.ndim == 1:
        share, doubt = common_features(S, deviation, m, r, heavy_tails=planned.mechanism.name in HEAVY_TAILS)
        return {"share": share, "basis": np.eye(d), "share_doubt": np.array(doubt)}
    share, basis, doubt = common_directions(S, deviation, m, r)
    return {"share": share, "basis": basis, "share_doubt": np.array(doubt)}


def options(view: View, n_outputs: int) -> list[Prior]:
    """What a task weighs once it has read the structure: learning alone first."""
    share = view["share"]
    return priors(np.zeros((n_outputs, share.size)), share, view["basis"], (0.0, float(view["share_doubt"])))
