"""Sums of products over stacks of tasks, the same to the last bit however many tasks stand there.

Which tasks share a stack depends on the numbers of rows of all of them, which are private. NumPy's einsum adds up 8192 products
at a time where a stack holds one task, and all at once where it holds several; so a task that is alone stands there twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["per_task"]


def per_task(pattern: str, *operands: np.ndarray) -> Any:
    """np.einsum of arrays whose first axis runs over the tasks of a stack."""
    if len(operands[0]) != 1:
        return np.einsum(pattern, *operands)
    return np.einsum(pattern, *(np.broadcast_to(a, (2, *a.shape[1:])) for a in operands))[:1]
