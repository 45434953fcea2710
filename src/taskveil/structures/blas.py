"""One BLAS thread for small matrices.

The eigenvalues of a 100 x 100 matrix take about a millisecond on one thread. On two, with anything else
running, the threads wait for one another in a busy loop: 400 ms were seen for the same matrix. Threads pay
off for large matrices only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

LARGE = 600  # rows of a square matrix from which a second thread helps even on a busy machine


@contextmanager
def small_matrix_threads(size: int) -> Iterator[None]:
    """Inside, BLAS runs on one thread if matrices have at most LARGE rows (the shorter side counts)."""
    if size > LARGE:
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


@lru_cache(maxsize=1)
def _controller() -> Any:
    import scipy.linalg  # noqa: F401  (its BLAS must be loaded to be found)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
