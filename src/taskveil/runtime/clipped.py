"""What clipping took from the messages of every task: the bias of what is shared, as each owner can estimate it.

A message longer than its bound is shortened, so a task that differs much from the others counts for less than it holds. How much
is a function of its own rows: a figure for its owner, or for whoever simulates with all rows; never for a page that travels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.privacy.bounds import Bounded

ROUNDING = 1e-9  # what the clip takes from a message of just its bound's length


class ClippedShare:
    """Mean share of a message's length that was cut off, per task, over all messages it sent."""

    def __init__(self, n_tasks: int):
        self._lost, self._sent = np.zeros(n_tasks), np.zeros(n_tasks)

    def note(self, raw: Any, bounded: Bounded, active: np.ndarray | None) -> None:
        """One release: messages before and after clipping. Sums of rows, which are clipped row by row, are left out."""
        kept = np.asarray(bounded.value)
        if not isinstance(raw, np.ndarray) or raw.shape != kept.shape or len(raw) != len(self._lost):
            return
        with np.errstate(all="ignore"):
            before, after = (np.linalg.norm(m.reshape(len(m), -1), axis=1) for m in (raw, kept))
            sent = (before > 0) & np.isfinite(before) & (True if active is None else active)
            lost = np.clip(1.0 - after / before, 0.0, 1.0)
            self._lost += np.where(sent & (lost > ROUNDING), lost, 0.0)
        self._sent += sent

    def shares(self) -> np.ndarray:
        """(tasks,), zero for a task that sent nothing."""
        return self._lost / np.maximum(self._sent, 1.0)
