"""What a run shows while it goes on, and how it is stopped.

A progress bar on stderr when it is a terminal, silence otherwise. It shows rounds, the epsilon their releases have spent, and the
time left. All three follow from the plan, which is made of public sizes before any row is read; no loss, norm or count of the run
is ever shown.

One Ctrl-C is enough: Python drops an interrupt that arrives inside a destructor or a callback of C code ("Exception ignored in
..."), and a run that draws thousands of small numbers spends much of its time there. So the interrupt is raised again every
second until it gets through; once it does, the clean-up that follows is left in peace.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

PATIENCE = 20  # a number that took s seconds to compute is shown again after 20 s seconds at the earliest


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function (done, total) that moves the bar."""
    if not sys.stderr.isatty():
        yield lambda done, total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[count]}"), TextColumn("{task.fields[spent]}"),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        row = bar.add_task(title, total=None, count="", spent="")  # nothing is counted before the total is known
        yield Bar(lambda n, total, spent: bar.update(row, completed=n, total=total, count=f"{n}/{total}", spent=spent))


class Bar:
    """A function (done, total); a run that spends epsilon tells it how much a number of rounds costs."""

    def __init__(self, show: Callable[[int, int, str], Any], clock: Callable[[], float] = time.perf_counter):
        self._show, self._clock = show, clock
        self._spent_after: Callable[[int], float] | None = None
        self._text, self._not_before = "", 0.0

    def follow(self, spent_after: Callable[[int], float]) -> None:
        """From now on also show the epsilon spent after so many rounds."""
        self._spent_after = spent_after

    def __call__(self, done: int, total: int) -> None:
        began = self._clock()
        if self._spent_after is not None and (began >= self._not_before or done == total):
            self._text = f"epsilon {self._spent_after(done):.3g} spent"
            ended = self._clock()
            self._not_before = ended + PATIENCE * (ended - began)
        self._show(done, total, self._text)


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
