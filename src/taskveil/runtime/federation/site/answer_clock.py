"""Answers on a public clock: how long a site computed does not show in when it answers.

An answer leaves a whole multiple of `seconds` after the question came, computed, repeated or refused alike. An answer that takes
longer than that leaves at the next multiple, which shows how many it took: choose `seconds` well above the slowest site.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable

Answer = Callable[[bytes], bytes]
COVERED = (
    "sites answer on a public clock, {seconds:g} s after a question: when an answer comes says nothing about rows as long as "
    "every site computes its answer in that time"
)
NOT_COVERED = "when a site answers: its computing time may depend on its rows (rules.answer_at sets a public clock)"


def on_the_clock(answer: Answer, seconds: float, begun: float) -> Answer:
    """`answer`, at a multiple of `seconds` after `begun` (of time.monotonic); as soon as it is there if `seconds` is 0."""
    if seconds <= 0.0:
        return answer

    def later(data: bytes) -> bytes:
        try:
            return answer(data)
        finally:  # an error shows as a refusal, and waits like one
            passed = time.monotonic() - begun
            time.sleep(max(1, math.ceil(passed / seconds)) * seconds - passed)

    return later
