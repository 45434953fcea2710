"""A progress bar on stderr when it is a terminal, silence otherwise.

Shows rounds, the epsilon their releases have spent, and the time left. All three follow from the plan, which is made of public
sizes before any row is read; no loss, norm or count of the run is ever shown.
"""

from __future__ import annotations

import sys
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
