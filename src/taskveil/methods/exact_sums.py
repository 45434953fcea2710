"""Sums of what tasks say where nothing is private: exact, so that every grouping of tasks gives the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import Lock
from typing import Any

import numpy as np

from taskveil.privacy.bounds import Bounded
from taskveil.privacy.contribution import Contribution, VectorSum, seal_clipped_sum
from taskveil.privacy.partial_sums import Partial, add_up
from taskveil.threads import each, small_matrix_threads

CHUNK = 2**22  # numbers of single tasks in memory at once: one large array for every task would not fit


def summed(some: Iterable[Any], arrays: Callable[[Any], np.ndarray], shape: tuple[int, ...], n_tasks: int) -> Bounded:
    """The sum over all tasks of their arrays of this shape: arrays(few) (k, *shape) are those of a few tasks, on all threads."""
    bound, alone = Contribution.unbounded, Lock()
    total = add_up(np.zeros((0, *shape)), bound)

    def add(few: Any) -> None:
        own = arrays(few)
        with alone:  # whole numbers: the same in any order
            add_up(own, bound, onto=total)

    with small_matrix_threads(0):
        each(add, some)
    return seal_clipped_sum(VectorSum(shape, bound), Partial((total,)), n_tasks)
