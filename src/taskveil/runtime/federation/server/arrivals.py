"""Asynchronous runs over a carrier: every reply is used the moment it comes, and its sender is asked again at once.

Each site holds one task, counts its own messages and stops at its own budget (it then refuses). Noise is on a message before it
leaves the site. A message that fails or is refused is asked for again with the same number, so the site repeats its
reply or computes it once; a site that stays silent for `attempts` deadlines is left behind.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.privacy.units import Unit
from taskveil.runtime.federation.server.replies import SILENT, SLOW, longest_noisy, shortened

if TYPE_CHECKING:
    from taskveil.runtime.federation.server.driver import Driver
    from taskveil.runtime.round import Position


def run_arrivals(driver: Driver, at: Position, schedule: Sequence[int] | None = None) -> None:
    """To the end of everybody's plan; `schedule` (task positions) asks one site at a time, in that order."""
    if schedule is not None:
        for site in schedule[len(at.schedule) :]:
            _Arrivals(driver, at, [int(site)]).run(single=True)
    else:
        _Arrivals(driver, at, list(range(len(driver.members)))).run()
    last = driver.server.final(at.state)
    at.billboards.append(last if driver.round.inside is None else driver.round.inside(last))


class _Arrivals:
    def __init__(self, driver: Driver, at: Position, sites: list[int]) -> None:
        self.driver, self.at, self.sites = driver, at, sites
        self.asked_at: dict[int, float] = {}
        self.ask_at: dict[int, float] = {}  # sites whose last message failed, and when to ask them again
        self.tries: dict[int, int] = {}

    def run(self, single: bool = False) -> None:
        for site in self.sites:
            self._ask(site)
        while self.asked_at or self.ask_at:
            for site, data in self.driver.carrier.receive(max(self._patience(), 0.05)):
                self._answer(site, data, single)
            self._late()
            for site in [s for s, t in self.ask_at.items() if t <= time.monotonic()]:
                del self.ask_at[site]
                self._ask(site)

    def _patience(self) -> float:
        """Seconds until the next deadline or the next question."""
        deadlines = [t + self.driver.rules.deadline for t in self.asked_at.values()]
        return min([*deadlines, *self.ask_at.values()]) - time.monotonic()

    def _answer(self, site: int, data: bytes | None, single: bool) -> None:
        if site not in self.asked_at:
            self.driver.refuse(site, "a doubled or late message", SLOW)
            return
        number = self.at.sent[site]
        arrays, final = self.driver.read(site, data, number, self.driver.rounds[number])
        if arrays is None:
            if final:
                self._again(site, stop=self.driver.is_refusal(data))
            return
        self._apply(site, number, arrays)
        self.tries[site] = 0
        del self.asked_at[site]
        if not single:
            self._ask(site)

    def _apply(self, site: int, number: int, arrays: dict[str, np.ndarray]) -> None:
        driver, at = self.driver, self.at
        tasks = driver.members[site]
        noisy = {p.name: self._limited(p, arrays[p.name], tasks) for p in driver.rounds[number]}
        driver.round.published(at, noisy, driver.round.accepted([tasks]), int(tasks[0]))
        at.sent[site] += 1
        if number not in {p.round - 1 for p in at.executed}:
            at.executed += driver.rounds[number]
        if driver.save is not None:
            driver.save(at)
        if driver.progress is not None:
            driver.progress(max(at.sent), len(driver.rounds))

    def _limited(self, planned: Any, array: np.ndarray, tasks: np.ndarray) -> np.ndarray:
        units = 1
        if planned.contribution.unit is Unit.RECORD and self.driver.public.task_rows is not None:
            units = max(int(self.driver.public.task_rows[int(tasks[0])]), 1)
        return shortened(array, longest_noisy(planned, units))

    def _ask(self, site: int) -> None:
        number = self.at.sent[site]
        if number >= len(self.driver.rounds):
            return
        question = self.driver._question(site, self.at.billboards[-1], number, None)
        self.driver.carrier.send(site, question)
        self.asked_at[site] = time.monotonic()

    def _again(self, site: int, stop: bool = False) -> None:
        self.asked_at.pop(site, None)
        self.tries[site] = self.tries.get(site, 0) + 1
        if not stop and self.tries[site] < self.driver.rules.attempts:
            self.ask_at[site] = time.monotonic() + self.driver.rules.wait_before(self.tries[site])

    def _late(self) -> None:
        now = time.monotonic()
        for site in [s for s, t in self.asked_at.items() if now - t > self.driver.rules.deadline]:
            self.driver.refuse(site, "no valid answer before the deadline", SILENT)
            self._again(site)
