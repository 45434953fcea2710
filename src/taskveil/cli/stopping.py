"""One Ctrl-C is enough.

Python drops an interrupt that arrives inside a destructor or a callback of C code ("Exception ignored in ..."), and a run
that draws thousands of small numbers spends much of its time there. So the interrupt is raised again every second until it
gets through; once it does, the clean-up that follows is left in peace.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

AGAIN = 1.0  # seconds


@contextmanager
def interruptible() -> Iterator[None]:
    """What runs inside stops at the first interrupt, within a second or two."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not hasattr(signal, "setitimer"):
        yield  # somebody else decides what an interrupt means here
        return
    alarm: list[Any] = []

    def interrupt(number: int, frame: Any) -> None:
        if not alarm:
            alarm.append(signal.signal(signal.SIGALRM, once_more))
        signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)
        raise KeyboardInterrupt

    def once_more(number: int, frame: Any) -> None:
        if not _cleaning_up(sys.exception()):
            raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if alarm:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, alarm[0])
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _cleaning_up(handled: BaseException | None) -> bool:
    """Whether the interrupt got through: it is being handled now, or what is handled came of it."""
    while handled is not None and not isinstance(handled, KeyboardInterrupt):
        handled = handled.__context__
    return handled is not None
