"""Learning alone, once for each block of rows: a run asks for it in a round and at the end, a comparison for both its sides.

Inside `solved_once()` models that follow from a block's own rows alone are kept, by the block itself (no noise, no billboard goes
into them), and forgotten where it ends: nothing outlives a run, and a block whose rows were changed since is never met again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

_kept: ContextVar[dict[Hashable, np.ndarray] | None] = ContextVar("kept", default=None)


@contextmanager
def solved_once() -> Iterator[None]:
    before = _kept.set({})
    try:
        yield
    finally:
        _kept.reset(before)


def keep_aside(found: np.ndarray, block: Any, *options: Hashable) -> None:
    """What was found on the way to something else, for `kept_or`."""
    if (kept := _kept.get()) is not None:
        found.flags.writeable = False
        kept[block, *options] = found


def kept_or(solve: Callable[[], np.ndarray], block: Any, *options: Hashable) -> np.ndarray:
    """solve(), or what it said of this very block and these options before: not to be written into, and no second one is made."""
    kept = _kept.get()
    if kept is None:
        return solve()
    if (block, *options) not in kept:  # blocks are equal to nothing but themselves
        keep_aside(solve(), block, *options)
    return kept[block, *options]
