"""Sums of what tasks say where nothing is private: exact, so that every grouping of tasks gives the same bits."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from taskveil.privacy.bounds import Bounded
from taskveil.privacy.contributions import Contribution, VectorSum, seal_clipped_sum
from taskveil.privacy.partial_sums import Partial, add_up, joined

CHUNK = 2**22  # numbers of single tasks in memory at once: one large array for every task would not fit


def summed(some: Iterable[np.ndarray], shape: tuple[int, ...], n_tasks: int) -> Bounded:
    """The sum over all tasks of their arrays of this shape, of which a few come at a time (k, *shape)."""
    bound = Contribution.unbounded
    total = Partial((add_up(np.zeros((0, *shape)), bound),))
    for arrays in some:
        total = joined([total, Partial((add_up(arrays, bound),))])
    return seal_clipped_sum(VectorSum(shape, bound), total, n_tasks)
