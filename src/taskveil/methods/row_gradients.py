"""Row gradients of linear models, as a message before sampling, clipping and summing (unit: record).

A task side that protects records may not sum its rows itself: which rows take part is decided by secret coins of the
one randomness source, each row is clipped, and only then they are summed. The task side hands over this object; the
runtime does the three steps at the site, in `runtime.round.bounded_rows`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class RowGradients:
    """Row i's gradient is slopes_i x_i', of shape (outputs, features); task t owns rows offsets[t] to offsets[t + 1]."""

    X: np.ndarray  # (N, d)
    slopes: np.ndarray  # (N, r)
    offsets: np.ndarray  # (k + 1,)

    def __repr__(self) -> str:  # never shows private values
        return f"RowGradients({len(self.offsets) - 1} tasks)"
