"""The state of a federation's server or of a site, for whoever runs it: status.json and a page that refreshes itself.

`taskveil serve` and `taskveil join` write both beside their files, at most once a second; `taskveil status DIR` reads
them. Nothing in them depends on rows: sites, rounds, refusals with their public reasons, budgets, versions.
"""

from __future__ import annotations

import contextlib
import json
import math
import time
from pathlib import Path
from typing import Any

from taskveil.checks import Choice, Entries, ListOf, Number, Rule, Text, check_table, optional
from taskveil.errors import DataError
from taskveil.privacy.certificate import software_versions
from taskveil.privacy.ledger import Book
from taskveil.privacy.ledger.holdings import Holdings, Limit
from taskveil.runtime.checkpoint import write_atomically
from taskveil.runtime.federation.config import Federation, SiteFile
from taskveil.runtime.federation.server.watch import COUNT, KEPT, NAMED, REFUSAL, SITE, WORDS, read_watch
from taskveil.runtime.federation.status_page import page
from taskveil.saved import read_json

STALE = 20.0  # seconds after which a status that should be fresh says that nobody writes it any more
EVERY = 1.0
ALARMS = {
    "lost": "has lost its connection: dead, or cut off",
    "silent": "did not answer before the deadline: dead, or cut off",
    "lying": "sent what breaks a rule: it lies, or its software is broken",
    "refusing": "says no",
}
NOTES = {"slow": "answers late"}
AMOUNT: Rule = optional(Number(at_least=0))
PLAN: dict[str, Rule] = {
    "epsilon": AMOUNT, "delta": Number(at_least=0), "unit": WORDS, "neighbours": WORDS, "observer": WORDS, "rounds": COUNT,
}  # fmt: skip
ACCOUNT: dict[str, Rule] = {
    "account": NAMED, "unit": WORDS, "observer": WORDS, "limit": Number(at_least=0), "spent": AMOUNT, "left": Number(at_least=0),
}  # fmt: skip
STATUS: dict[str, Rule] = {
    "role": Choice("server", "site"),
    "name": NAMED,
    "phase": Text(200),
    "updated": Number(at_least=0),
    "round": COUNT,
    "rounds": COUNT,
    "sites": ListOf(Entries(), at_least=0),
    "accounts": ListOf(Entries(), at_least=0),
    "refusals": ListOf(Entries(), at_least=0),
    "plan": Entries(),
    "versions": Entries(Text()),
    "reason": optional(WORDS),
}
ANSWERS: dict[str, Rule] = {"answered": COUNT, "refusals": ListOf(Entries(entries=tuple(REFUSAL.items())), at_least=0)}
INSIDE = {"sites": (SITE, ("name",)), "accounts": (ACCOUNT, tuple(ACCOUNT)), "refusals": (REFUSAL, ())}


class StatusFile:
    """status.json and status.html of one folder; written by one process, replaced as a whole."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._next = folder, 0.0

    def write(self, content: dict[str, Any], now: bool = False) -> None:
        if not now and time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        content = {**content, "updated": time.time(), "versions": software_versions()}
        with contextlib.suppress(OSError):  # a full disk must not end a run
            write_atomically(self.folder / "status.json", json.dumps(content, indent=1).encode())
            write_atomically(self.folder / "status.html", page({**content, "alarms": alarms(content)}).encode())


def of_server(federation: Federation, plan: dict[str, Any], phase: str, reason: str | None = None) -> dict[str, Any]:
    """What a server's folder says now."""
    seen: dict[str, Any] = {}
    with contextlib.suppress(DataError):
        seen = read_watch(federation.folder / "run" / "watch.json")
    sites = seen.get("sites") or [
        {"name": m.name, "tasks": len(m.tasks), "state": "not asked yet", "reason": ""} for m in federation.members
    ]
    if phase == "running":
        phase = seen.get("phase", "waiting for sites")
    return {
        "role": "server", "name": federation.name, "phase": phase, "reason": reason, "sites": sites,
        "connected": seen.get("connected", []), "round": seen.get("round", 0), "rounds": plan["rounds"],
        "spent": seen.get("spent"), "plan": plan, "refusals": seen.get("refusals", []), "accounts": [],
    }  # fmt: skip


def of_site(
    file: SiteFile, agreement: Any, phase: str, account: str, url: str | None, reason: str | None = None
) -> dict[str, Any]:
    """What a site's folder says now."""
    seen = answers(file.state)
    plan = {} if agreement is None else {
        "epsilon": agreement.epsilon if math.isfinite(agreement.epsilon) else None, "delta": agreement.delta,
        "unit": agreement.unit, "neighbours": agreement.neighbours, "observer": agreement.observer, "rounds": agreement.messages,
    }  # fmt: skip
    return {
        "role": "site", "name": file.name, "server": file.server, "phase": phase, "reason": reason, "sites": [],
        "round": seen["answered"], "rounds": plan.get("rounds", 0), "plan": plan, "refusals": seen["refusals"],
        "accounts": accounts(url, account) if url else [],
    }  # fmt: skip


def accounts(url: str, name: str) -> list[dict[str, Any]]:
    """Limit, spent and left of every account of this name; empty where the ledger cannot be read now."""
    with contextlib.suppress(Exception):  # a status never ends a run, whatever its ledger says
        book = Book(url)
        try:
            return [_account(row) for row in book.accounts() if row.name == name]
        finally:
            book.close()
    return []


def _account(row: Any) -> dict[str, Any]:
    spent = Limit(row.epsilon, row.delta, row.rule).total(Holdings.from_json(row.held).cost)
    shown = spent if math.isfinite(spent) else None
    return {
        "account": row.name, "unit": row.unit, "observer": row.observer, "limit": row.epsilon, "spent": shown,
        "left": 0.0 if shown is None else max(row.epsilon - shown, 0.0),
    }  # fmt: skip


def note_answer(folder: Path, number: Any, refusal: str | None) -> None:
    """A site's own count of what it sent and what it refused; called after every answer."""
    seen = answers(folder)
    refusals = seen["refusals"]
    if refusal is not None:
        refusals = [*refusals, {"time": time.time(), "site": "this site", "reason": refusal[:200]}][-KEPT:]
    answered = max(seen["answered"], number + 1 if isinstance(number, int) and refusal is None else 0)
    with contextlib.suppress(OSError):
        write_atomically(folder / "answers.json", json.dumps({"answered": answered, "refusals": refusals}).encode())


def answers(folder: Path) -> dict[str, Any]:
    """What a site has counted of its own answers; a count that cannot be read begins again."""
    try:
        seen: dict[str, Any] = read_json(folder / "answers.json")
        check_table(seen, ANSWERS, "answers.json", DataError, tuple(ANSWERS), closed=False)
        return seen
    except DataError:
        return {"answered": 0, "refusals": []}


def read(folder: Path) -> dict[str, Any]:
    """status.json of a server's or a site's folder, with `fresh` and `alarms` added."""
    for place in (folder, folder / "state"):
        if (place / "status.json").exists():
            content = read_json(place / "status.json")
            _check(content, str(place / "status.json"))
            fresh = time.time() - content["updated"] < STALE or content["phase"] in ("finished", "stopped")
            content["fresh"] = fresh
            return {**content, "alarms": alarms(content)}
    raise DataError(f"{folder} has no status.json: expected a folder in which `taskveil serve` or `taskveil join` has run")


def _check(content: Any, where: str) -> None:
    """Every entry that `words`, `alarms` or the page reads."""
    check_table(content, STATUS, where, DataError, tuple(STATUS), closed=False)
    AMOUNT.check(f"{where}: spent", content.get("spent"), DataError)
    optional(ListOf(NAMED, at_least=0)).check(f"{where}: connected", content.get("connected"), DataError)
    check_table(content["plan"], PLAN, f"{where}: plan", DataError, tuple(PLAN) if content["plan"] else (), closed=False)
    for part, (rules, required) in INSIDE.items():
        for entry in content[part]:
            check_table(entry, rules, f"{where}: {part}", DataError, required, closed=False)


def alarms(content: dict[str, Any]) -> list[str]:
    """What somebody should look at, one line each."""
    lines = [
        f"site {s.get('name')} {ALARMS[s['state']]}" + (f" ({s['reason']})" if s.get("reason") else "")
        for s in content["sites"]
        if s.get("state") in ALARMS
    ]
    if content["phase"] == "refused":
        lines.append(f"the run was refused: {content.get('reason') or 'see the log'}")
    if content.get("fresh") is False:
        lines.append("nobody has written this status for a while: the process that should is not running")
    lines += [f"account {a['account']} ({a['unit']}) has nothing left" for a in content["accounts"] if a.get("left") == 0]
    return lines
