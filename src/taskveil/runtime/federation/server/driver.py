"""The server's part of a federation: asks sites, checks what comes back, charges, adds noise, publishes.

    view -> sites -> (deadline) -> check every reply -> clip again -> charge -> noise -> server step -> billboard

The same round as `in_process` (runtime/round.py); only the carrier differs. What a site sends is never trusted: a
message that is late, doubled, malformed, of the wrong shape or not finite counts as absent (zero), one that is too long is
clipped again. Absent messages change neither the noise nor any divisor. Logs name sites and rules, never values.

A `Carrier` moves bytes: threads of one process, or Flower. Replies come in any order.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from taskveil.errors import EnvironmentMissing, OptionError, SecureSumRefused
from taskveil.methods.base import Billboard, View
from taskveil.methods.published import published
from taskveil.privacy.plan import PlannedRelease
from taskveil.privacy.units import Unit
from taskveil.runtime import wire
from taskveil.runtime.federation.server.replies import (
    LOST,
    LYING,
    SILENT,
    SLOW,
    Late,
    Refused,
    check_done,
    checked_arrays,
    combined,
    noisy_total,
)
from taskveil.runtime.federation.site.owner import NOISE_AT_SITE, plan_digest
from taskveil.runtime.round import Position, Round, released
from taskveil.runtime.run import Run
from taskveil.runtime.wire import Packet

log = logging.getLogger("taskveil.federation")
T = TypeVar("T")


class Carrier(Protocol):
    """Moves bytes to sites and back."""

    def send(self, site: int, data: bytes) -> None: ...

    def receive(self, seconds: float) -> list[tuple[int, bytes | None]]:
        """What has arrived, waiting at most `seconds` for the first; None stands for a message that failed."""


@dataclass(frozen=True)
class Rules:
    """Patience of the server."""

    deadline: float = 600.0  # seconds for one round, or for one message of an asynchronous run
    min_sites: int = 1  # with fewer answers the round is asked again (never in rounds with a secret cohort)
    attempts: int = 8
    pause: float = 2.0  # seconds before a failed question is asked again; doubles, up to half a minute
    max_bytes: int = wire.MAX_BYTES
    answer_at: float = 0.0  # sites answer whole multiples of this many seconds after a question; 0: as soon as they can

    def wait_before(self, attempt: int) -> float:
        """Seconds to wait before asking for the `attempt`-th time again (from 1): a lost node needs time to return."""
        return min(self.pause * 2.0 ** (attempt - 1), 30.0)


class Driver:
    """Runs one plan with the sites of `members` (one list of task positions per site)."""

    def __init__(
        self,
        run: Run,
        carrier: Carrier,
        members: Sequence[Sequence[int]],
        rules: Rules | None = None,
        save: Callable[[Position], None] | None = None,
        roster: Mapping[int, bytes] | None = None,
    ) -> None:
        self.program, self.carrier, self.save, self.progress = run, carrier, save, run.progress
        self.method, self.public, self.plan = run.method, run.public, run.plan
        self.roster = roster or {}  # the sites' public signing keys, for secure sums
        self.members = [np.asarray(m, dtype=np.int64) for m in members]
        self.rules = rules or Rules()
        self.digest = plan_digest(run.plan, run.public)
        shown = published(run.method, run.public, run.plan)
        self.round = Round(run, inside=None if shown is None else shown.inside)
        self.rounds, self.server = self.round.releases, self.round.server
        public = run.public
        rows = public.task_rows if run.budget.unit is Unit.RECORD else None
        self.units = np.ones(public.n_tasks, dtype=np.int64) if rows is None else np.asarray(rows)  # in every task, public
        self.refusals: list[str] = []  # "site 2: late", for the log and the tests
        self.on_refusal: Callable[[int, str, str], None] | None = None  # told of every refusal as it happens

    # ------------------------------------------------------------ whole runs

    def run(self, position: Position | None = None, schedule: Sequence[int] | None = None) -> Position:
        """Train to the end of the plan, from `position` if a checkpoint gave one; then let the sites finish."""
        if position is None:
            position = self.round.start()
            position.sent = [0] * len(self.members)
        if self.plan.most_participations is not None:
            raise OptionError(
                "a cap on participations is kept where all tasks are in one process; sites cannot check it yet. Leave "
                "participations= out: every round is then charged in full."
            )
        self.program.account.reserve(self.plan)
        if self.method.schedule == "asynchronous":
            from taskveil.runtime.federation.server.arrivals import run_arrivals

            run_arrivals(self, position, schedule)
        else:
            self._run_rounds(position)
        self._finish(position)
        self.program.account.finish()
        return position

    def _run_rounds(self, at: Position) -> None:
        for number in range(len(at.schedule), len(self.rounds)):
            self._round(at, number)
            if self.save is not None:
                self.save(at)
            if self.progress is not None:
                self.progress(number + 1, len(self.rounds))
            if at.billboards[-1].done:
                break

    def _round(self, at: Position, number: int) -> None:
        releases = self.rounds[number]
        active = self.round.cohort(at, releases)  # 1
        noisy, sites = self._noisy(at.billboards[-1], number, releases, active)  # 2, 3
        at.executed += releases
        accepted = self.round.accepted((self.members[site] for site in sites), active)  # 4
        self.round.published(at, noisy, accepted, None if active is None else np.flatnonzero(active))  # 5

    def _noisy(
        self, billboard: Billboard, number: int, releases: list[PlannedRelease], active: np.ndarray | None
    ) -> tuple[dict[str, np.ndarray], Iterable[int]]:
        """The noisy sums of a round and the sites that are in them."""
        aggregation = self.plan.budget.aggregation
        if aggregation == "secure":  # every site takes part, some with an empty message: noise shares do not vary
            from taskveil.runtime.federation.server.secure_round import secure_round

            return secure_round(self, billboard, number, releases, active)
        cohort = [s for s, tasks in enumerate(self.members) if active is None or active[tasks].any()]
        answers = self._ask(billboard, number, releases, active, cohort, secret=active is not None)
        parts = {p.name: {site: arrays[p.name] for site, arrays in answers.items()} for p in releases}
        if aggregation in NOISE_AT_SITE:
            sizes = [int(self.units[m].sum()) for m in self.members]
            return {p.name: noisy_total(p, parts[p.name], sizes) for p in releases}, answers
        messages = {p.name: combined(p, parts[p.name], self.members, self.units) for p in releases}
        return released(self.program, releases, messages), answers

    # ---------------------------------------------------------- one question

    def _ask(
        self,
        billboard: Billboard,
        number: int,
        releases: list[PlannedRelease],
        active: np.ndarray | None,
        cohort: list[int],
        secret: bool,
    ) -> dict[int, dict[str, np.ndarray]]:
        """Valid answers by site. Asks again, up to `attempts` times, while too few have answered."""
        answers: dict[int, dict[str, np.ndarray]] = {}
        for attempt in range(self.rules.attempts):
            if attempt:
                time.sleep(self.rules.wait_before(attempt))
            missing = [s for s in cohort if s not in answers]
            for site in missing:
                self.carrier.send(site, self._question(site, billboard, number, active))
            answers |= self.collect(set(missing), lambda site, data: self.read(site, data, number, releases))
            if len(answers) == len(cohort) or secret or len(answers) >= self.rules.min_sites:
                return answers
            log.warning("round %d: %d of %d sites answered; asking again", number, len(answers), len(cohort))
        raise EnvironmentMissing(
            f"round {number}: {len(answers)} site(s) answered, at least {self.rules.min_sites} are needed. "
            "Nothing was released in this round; start `taskveil serve` again to resume."
        )

    def _question(self, site: int, billboard: Billboard, number: int, active: np.ndarray | None) -> bytes:
        tasks = self.members[site]
        view = billboard.view(tasks).asking(None if active is None else active[tasks])
        fields = {"plan": self.digest, "number": number, "round": view.round}
        return wire.encode(Packet("step", fields, wire.view_arrays(view)), self.rules.max_bytes)

    def collect(
        self,
        waiting: set[int],
        read: Callable[[int, bytes | None], tuple[T | None, bool]],
        silent: str = "no valid answer before the deadline",
    ) -> dict[int, T]:
        """What sites answer before the deadline; `read` says what an answer holds, and whether to stop waiting for that site."""
        answers: dict[int, T] = {}
        end = time.monotonic() + self.rules.deadline
        while waiting and (left := end - time.monotonic()) > 0:
            for site, data in self.carrier.receive(left):
                if site not in waiting:
                    self.refuse(site, "a doubled or late message", SLOW)
                    continue
                answer, final = read(site, data)
                if answer is not None:
                    answers[site] = answer
                if final:
                    waiting.discard(site)
        for site in waiting:
            self.refuse(site, silent, SILENT)
        return answers

    def read(
        self, site: int, data: bytes | None, number: int, releases: list[PlannedRelease]
    ) -> tuple[dict[str, np.ndarray] | None, bool]:
        """The arrays of a reply."""
        size, stacked = len(self.members[site]), self._expects_stack
        return self.checked(site, data, lambda packet: checked_arrays(packet, self.digest, number, releases, size, stacked))

    def checked(self, site: int, data: bytes | None, content: Callable[[Packet], T]) -> tuple[T | None, bool]:
        """What a reply holds if every rule is kept, else None and one line in the log; and whether to stop waiting."""
        if data is None:
            self.refuse(site, "the message failed on the way", LOST)
            return None, True
        try:
            return content(wire.decode(data, self.rules.max_bytes)), True
        except (wire.WireError, Refused, SecureSumRefused) as error:
            self.refuse(site, str(error), getattr(error, "kind", LYING))
            return None, not isinstance(error, Late)

    def refuse(self, site: int, reason: str, kind: str) -> None:
        """One line for a site that is absent, and what kind of site that is; its own words never decide the kind."""
        self.refusals.append(f"site {site}: {reason}")
        if self.on_refusal is not None:
            self.on_refusal(site, reason, kind)
        log.warning("site %d: %s", site, reason)

    @property
    def _expects_stack(self) -> bool:
        """Whether a site sends one array per task (clipped, or noisy in asynchronous runs) rather than a noisy sum."""
        return self.method.schedule == "asynchronous" or self.plan.budget.aggregation not in NOISE_AT_SITE

    def is_refusal(self, data: bytes | None) -> bool:
        """Whether the site itself said no."""
        try:
            return wire.decode(data or b"", self.rules.max_bytes).kind == "refused"
        except wire.WireError:
            return False

    # ------------------------------------------------------------------ end

    def _finish(self, at: Position) -> None:
        billboard = at.billboards[-1]
        for site, tasks in enumerate(self.members):
            view: View = billboard.view(tasks)
            packet = Packet("finish", {"plan": self.digest, "round": view.round}, wire.view_arrays(view))
            self.carrier.send(site, wire.encode(packet, self.rules.max_bytes))
        silent = "did not confirm the end; it can fetch the last billboard later"
        self.collect(set(range(len(self.members))), lambda site, data: self.checked(site, data, check_done), silent)
