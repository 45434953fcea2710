"""Survival when single rows are protected: hazards that are constant on the parts of a public time grid.

    hazard of a row in part k of [0, horizon]      exp(x'w + a_k)

A partial likelihood compares rows with one another; this one is a sum over rows, so that a row's gradient in (w, a) is its own
and can be clipped. With o_k the time a row spent in part k (the horizon is 1) and d whether its event was seen, in part k(t):

    g_k = o_k exp(x'w + a_k) - d [k = k(t)],     gradient (sum_k g_k x, g_1, ..., g_PARTS)

Only the row, the public model and the declared horizon enter. The baseline a is common to all tasks until they personalise.
Why this and not Cox's: docs/theory/preparation.md#rates-and-times.
"""

from __future__ import annotations

import numpy as np

from taskveil.losses.poisson import CEILING
from taskveil.methods.row_gradients import RowGradients
from taskveil.tasks.block import TaskBlock

PARTS = 4


def hazard_gradients(block: TaskBlock, point: np.ndarray) -> RowGradients:
    """The gradient of every row's loss at a public model (1, features + PARTS), before clipping."""
    X, d = np.asarray(block.X, dtype=float), block.n_features
    time = np.minimum(np.abs(block.y[:, 0]), 1.0)
    starts = np.arange(PARTS) / PARTS
    spent = np.clip(time[:, None] - starts, 0.0, 1.0 / PARTS)
    scores = (X @ point[0, :d])[:, None] + point[0, d:]
    last = np.minimum((time * PARTS).astype(np.int64), PARTS - 1)
    slopes = spent * np.exp(np.minimum(scores, CEILING))
    slopes[np.arange(len(time)), last] -= block.y[:, 0] > 0.0
    if block.weights is not None:
        slopes = slopes * block.weights[:, None]
    rows = np.concatenate([slopes.sum(axis=1, keepdims=True) * X, slopes], axis=1)
    return RowGradients(rows, np.ones((len(rows), 1)), block.offsets)
