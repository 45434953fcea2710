"""What a server notices about its sites while it runs: who was asked, who answered, who was late, lost, refusing or broke a rule.

All of it is public to whoever runs the server. A `Watch` stands beside the driver: it sees questions and answers go by
(`WatchedCarrier`), and the driver tells it of every refusal. It keeps one file, replaced as a whole, that outlives restarts.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from taskveil.checks import Entries, ListOf, Number, Rule, Text, Whole, check_table, optional
from taskveil.errors import DataError
from taskveil.runtime.checkpoint import write_atomically
from taskveil.runtime.federation.server.driver import Carrier
from taskveil.runtime.federation.server.replies import LYING, REFUSING
from taskveil.saved import read_json

SLOW = 0.5  # share of the deadline after which an answer counts as slow
OFTEN = 0.5  # seconds between two writes
KEPT = 20  # refusals that are kept word for word
ALIVE = 3.0  # deadlines within which a site that was heard is slow rather than dead


@dataclass
class SiteView:
    """A site as the server sees it."""

    name: str
    tasks: int
    state: str = "not asked yet"  # answering, slow, silent, lost, refusing, lying
    asked: int = 0
    answered: int = 0
    slow: int = 0
    silent: int = 0
    lost: int = 0
    refusing: int = 0
    lying: int = 0
    reason: str = ""
    heard: float | None = None  # when it last answered
    waiting_since: float | None = None


NAMED: Rule = Text(1000)
WORDS: Rule = Text(at_least=0)
COUNT: Rule = Whole(0, 2**53)
TIME: Rule = optional(Number())
KINDS: dict[str, Rule] = {"str": WORDS, "int": COUNT, "float | None": TIME}
SITE: dict[str, Rule] = {f.name: KINDS[str(f.type)] for f in fields(SiteView)} | {"name": NAMED}
REFUSAL: dict[str, Rule] = {"time": TIME, "site": WORDS, "reason": WORDS}
SEEN: dict[str, Rule] = {  # of run/watch.json
    "phase": NAMED, "connected": ListOf(NAMED, at_least=0), "round": COUNT, "rounds": COUNT, "spent": TIME,
    "sites": ListOf(Entries(entries=tuple(SITE.items())), at_least=0),
    "refusals": ListOf(Entries(entries=tuple(REFUSAL.items())), at_least=0),
}  # fmt: skip


def read_watch(path: Path) -> dict[str, Any]:
    """What a `Watch` has written; DataError where it is damaged."""
    seen: dict[str, Any] = read_json(path)
    check_table(seen, SEEN, str(path), DataError, tuple(SEEN), closed=False)
    return seen


class Watch:
    """Counts per site, the round, and the last refusals, in run/watch.json."""

    def __init__(self, path: Path, names: Sequence[str], sizes: Sequence[int], deadline: float,
                 spent_after: Callable[[int], float | None]) -> None:  # fmt: skip
        self.path, self.deadline, self.spent_after = path, deadline, spent_after
        self.sites = [SiteView(name, size) for name, size in zip(names, sizes, strict=True)]
        self.round, self.rounds, self.refusals = 0, 0, list[dict[str, Any]]()
        self.phase, self.connected, self._written = "waiting for sites", list[str](), 0.0
        self._unjudged: set[int] = set()
        self._resume()

    def waiting(self, connected: Sequence[str]) -> None:
        """Before the first round: who is there."""
        self.connected = list(connected)
        self.write()

    def question(self, site: int) -> None:
        view = self.sites[site]
        view.asked += 1
        view.waiting_since = time.time()
        self.phase = "running"
        self.write()

    def answer(self, site: int) -> None:
        view, now = self.sites[site], time.time()
        late = view.waiting_since is None or now - view.waiting_since > SLOW * self.deadline
        view.answered += 1
        view.slow += late
        view.heard, view.waiting_since = now, None
        if view.state in (LYING, REFUSING):
            self._unjudged.add(site)  # good again only when the round ends without a complaint
        else:
            view.state, view.reason = ("slow", "answers late") if late else ("answering", "")
        self.write()

    def refusal(self, site: int, reason: str, kind: str) -> None:
        view = self.sites[site]
        if kind in (REFUSING, LYING) or site in self._unjudged:
            view.answered -= view.answered > 0  # it came, and was no answer
            self._unjudged.discard(site)
        if not (kind == "slow" and view.state == "slow"):
            setattr(view, kind, getattr(view, kind) + 1)
        if kind != "silent" or view.state not in (LYING, REFUSING):  # those are heard, only not usefully
            alive = view.heard is not None and time.time() - view.heard < ALIVE * self.deadline
            view.state, view.reason = "slow" if kind == "silent" and alive else kind, reason[:200]
        view.waiting_since = None
        self.refusals = [*self.refusals, {"time": time.time(), "site": view.name, "reason": reason[:200]}][-KEPT:]
        self.write(now=True)

    def progress(self, done: int, total: int) -> None:
        self.round, self.rounds = done, total
        for site in self._unjudged:
            self.sites[site].state, self.sites[site].reason = "answering", ""
        self._unjudged.clear()
        self.write(now=True)

    def write(self, now: bool = False) -> None:
        """At most twice a second, unless something important happened; a full disk must not end a run."""
        if not now and time.monotonic() - self._written < OFTEN:
            return
        self._written = time.monotonic()
        content = {
            "phase": self.phase, "connected": self.connected, "round": self.round, "rounds": self.rounds,
            "spent": self.spent_after(self.round), "sites": [asdict(s) for s in self.sites], "refusals": self.refusals,
            "updated": time.time(),
        }  # fmt: skip
        with contextlib.suppress(OSError):
            write_atomically(self.path, json.dumps(content).encode())

    def _resume(self) -> None:
        """Counts go on where an interrupted run left them."""
        try:
            stored = read_watch(self.path)
            views = {s["name"]: SiteView(**s) for s in stored["sites"]}
            self.round, self.rounds, self.refusals = stored["round"], stored["rounds"], stored["refusals"]
        except (DataError, KeyError, TypeError):
            return
        self.sites = [views.get(s.name, s) for s in self.sites]


class WatchedCarrier:
    """A carrier that tells a `Watch` what goes by."""

    def __init__(self, carrier: Carrier, watch: Watch) -> None:
        self.carrier, self.watch = carrier, watch

    def send(self, site: int, data: bytes) -> None:
        self.watch.question(site)
        self.carrier.send(site, data)

    def receive(self, seconds: float) -> list[tuple[int, bytes | None]]:
        arrived = self.carrier.receive(seconds)
        for site, data in arrived:
            if data is not None:
                self.watch.answer(site)
        return arrived
