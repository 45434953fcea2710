"""An exact sum of clipped float32 messages, for rounds that run on an accelerator.

Why          A float32 sum of k messages is rounded, and the rounding depends on all of them: taking one task away can
             move the result by more than its clipped message, by about k units in the last place of the sum. The noise
             is calibrated to the bound alone.
What         Every entry is cut toward zero to a multiple of a power of two, g = 2^(ceil(log2 bound) - 20), and the sum
             is taken over integers. Cutting toward zero never makes a norm larger; scaling by a power of two and the
             integer sum are exact; so one task moves the result by at most `bound`, in any order and on any device.
Limits       |entry| <= bound <= 2^20 g, so 2047 messages fit into 32 bits; more are added in several pieces.
Cost         each entry loses at most bound / 2^20 of its size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taskveil.errors import OptionError

BITS = 20
MOST_MESSAGES = 2 ** (31 - BITS) - 1


def grid_of(bound: float) -> float:
    """The public grid of messages whose norm is at most `bound`: a power of two."""
    return math.ldexp(1.0, math.ceil(math.log2(bound)) - BITS)


def sum_on_grid(clipped: Any, grid: Any, xp: Any = np) -> Any:
    """Sum over rows of (k, p) messages that `bounds.clip_rows` has clipped, as int32 multiples of `grid`."""
    if clipped.shape[0] > MOST_MESSAGES:
        raise OptionError(f"at most {MOST_MESSAGES} messages can be summed at once; got {clipped.shape[0]}")
    return xp.sum(xp.trunc(clipped / grid).astype(np.int32), axis=0, dtype=np.int32)
