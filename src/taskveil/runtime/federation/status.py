"""The state of a federation's server or of a site, for whoever runs it: status.json and a page that refreshes itself.

`taskveil serve` and `taskveil join` write both beside their files, at most once a second; `taskveil status DIR` reads
them. Nothing in them depends on rows: sites, rounds, refusals with their public reasons, budgets, versions.

status.html: one self-contained page without scripts that reloads itself; readable on a telephone, by day and by night.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import math
import time
from collections.abc import Collection
from html import escape
from pathlib import Path
from typing import Any

from taskveil.checks import Choice, Entries, ListOf, Number, Rule, Text, check_table, optional
from taskveil.errors import DataError
from taskveil.privacy.certificate import software_versions
from taskveil.privacy.ledger import Book
from taskveil.privacy.ledger.holdings import Holdings, Limit
from taskveil.privacy.ledger.overview import amount
from taskveil.runtime.checkpoint import write_atomically
from taskveil.runtime.federation.config import Federation, SiteFile
from taskveil.runtime.federation.server.watch import COUNT, KEPT, NAMED, REFUSAL, SITE, WORDS, read_watch
from taskveil.saved import read_json, shipped

STALE = 20.0  # seconds after which a status that should be fresh says that nobody writes it any more
EVERY = 1.0
ALARMS = {
    "lost": "has lost its connection: dead, or cut off",
    "silent": "did not answer before the deadline: dead, or cut off",
    "lying": "sent what breaks a rule: it lies, or its software is broken",
    "refusing": "says no",
}
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


REFRESH = 5  # seconds
STATES = {  # state -> (sign, words, colour); the sign says it without colour
    "answering": ("\u2713", "answering", "good"),
    "slow": ("\u25d4", "slow", "warn"),
    "silent": ("\u2715", "dead or cut off", "bad"),
    "lost": ("\u2715", "dead or cut off", "bad"),
    "lying": ("\u26a0", "breaks the rules", "bad"),
    "refusing": ("\u2298", "says no", "bad"),
}
URGENT = ("bad", "warn", "quiet", "good")  # whoever needs a look comes first
WAITED_FOR = ("\u2026", "asked, no answer yet", "quiet")
CONNECTED = ("\u2713", "connected", "good")
NOT_THERE = ("\u2026", "not there yet", "quiet")


def seen_as(site: dict[str, Any], connected: Collection[str] = ()) -> tuple[str, str, str]:
    """Sign, words and colour for what a site is; before its first answer, whether it is there and was asked."""
    if site.get("state") in STATES:
        return STATES[site["state"]]
    if site.get("waiting_since"):
        return WAITED_FOR
    return CONNECTED if site.get("name") in connected else NOT_THERE


def page(status: dict[str, Any]) -> str:
    """The whole page; every word of it escaped."""
    name, role = escape(status["name"]), "server of the federation" if status["role"] == "server" else "site"
    body = [
        f"<header><h1>{name}</h1><p class=soft>{role} &middot; {escape(_when(status['updated']))}</p></header>",
        _facts(status), _alarms(status), _sites(status), _accounts(status), _refusals(status), _versions(status),
    ]  # fmt: skip
    reload = "" if status["phase"] in ("finished", "stopped") else f"<meta http-equiv=refresh content={REFRESH}>"
    return (
        f"<!doctype html><html lang=en><head><meta charset=utf-8><title>{name}: {escape(status['phase'])}</title>{reload}"
        "<meta name=viewport content='width=device-width, initial-scale=1'>"
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<style>{shipped('runtime/federation/templates/status.css')}</style></head><body><main>{''.join(body)}</main></body></html>"
    )


def _facts(status: dict[str, Any]) -> str:
    plan = status["plan"]
    facts = [("now", status["phase"])]
    if status.get("rounds"):
        done = "rounds done" if status["role"] == "server" else "messages sent"
        facts.append((done, f"{status['round']} of {status['rounds']}"))
    if plan.get("epsilon") is not None:
        facts.append((f"epsilon planned, delta {plan['delta']:.2g}", f"{plan['epsilon']:.4g}"))
        facts.append((f"protects one {plan['unit']} against", str(plan["observer"])))
    elif plan:
        facts.append(("privacy", "none"))
    if status.get("spent") is not None:
        facts.append(("epsilon of the rounds done", f"{status['spent']:.4g}"))
    if status["role"] == "server":
        here, good = len(status.get("connected") or ()), sum(s.get("state") == "answering" for s in status["sites"])
        waiting = status["phase"] == "waiting for sites"
        title, count = ("sites connected", here) if waiting else ("sites answering in time", good)
        facts.append((title, f"{count} of {len(status['sites'])}"))
    if status.get("server"):
        facts.append(("server", status["server"]))
    return "<div class=facts>" + "".join(f"<div><b>{escape(v)}</b><span>{escape(k)}</span></div>" for k, v in facts) + "</div>"


def _alarms(status: dict[str, Any]) -> str:
    alarms = "".join(f"<p class=alarm>{escape(text)}</p>" for text in status["alarms"])
    return alarms or "<p class=fine>Nothing to look at.</p>"


def _sites(status: dict[str, Any]) -> str:
    columns = [("asked", "asked"), ("answered", "answered"), ("slow", "late"), ("silent", "silent"), ("lost", "lost"),
               ("refusing", "refused"), ("lying", "broke a rule")]  # fmt: skip
    rows = ""
    connected = status.get("connected") or ()
    for site in sorted(status["sites"], key=lambda site: URGENT.index(seen_as(site, connected)[2])):
        sign, words, colour = seen_as(site, connected)
        waiting = " (asked again)" if site.get("waiting_since") and site.get("state") in STATES else ""
        cells = _cell("site", escape(str(site.get("name"))))
        cells += _cell("state", f"<span class='state {colour}'>{sign} {words}{waiting}</span>")
        counts = [(title, int(site.get(key) or 0)) for key, title in columns]
        cells += "".join(_cell(title, str(count), "n" if count else "n zero") for title, count in counts)
        cells += _cell("why", escape(str(site.get("reason") or "\u2013")), "" if site.get("reason") else "zero")
        rows += f"<tr>{cells}</tr>"
    heads = "".join(f"<th class=n>{t}</th>" for _, t in columns)
    return _table("Sites", f"<th>site</th><th>state</th>{heads}<th>why</th>", rows)


def _accounts(status: dict[str, Any]) -> str:
    rows = ""
    for a in status["accounts"]:
        what = escape(f"one {a['unit']} against {a['observer']}")
        cells = [("account", escape(str(a["account"]))), ("protects", what)]
        cells += [("limit", f"{a['limit']:.4g}"), ("spent or held", amount(a.get("spent"))), ("left", f"{a['left']:.4g}")]
        rows += "<tr>" + "".join(_cell(title, value, "" if i < 2 else "n") for i, (title, value) in enumerate(cells)) + "</tr>"
    heads = "<th>account</th><th>protects</th><th class=n>limit</th><th class=n>spent or held</th><th class=n>left</th>"
    return _table("Budget (epsilon)", heads, rows)


def _refusals(status: dict[str, Any]) -> str:
    rows = "".join(
        f"<tr>{_cell('when', escape(_when(r.get('time'))), 'w')}{_cell('site', escape(str(r.get('site'))))}"
        f"{_cell('reason', escape(str(r.get('reason'))))}</tr>"
        for r in reversed(status["refusals"])
    )
    heads = "<th>when</th><th>site</th><th>reason</th>"
    return _table("Last refusals", heads, rows)


def _versions(status: dict[str, Any]) -> str:
    words = ", ".join(f"{escape(k)} {escape(v)}" for k, v in status["versions"].items())
    return f"<h2>Software</h2><p class=soft>{words}</p>"


def _table(title: str, heads: str, rows: str) -> str:
    return f"<h2>{title}</h2><table><thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table>" if rows else ""


def _cell(title: str, value: str, kind: str = "") -> str:
    return f"<td data-label='{title}' class='{kind}'><span>{value}</span></td>"


def _when(seconds: Any) -> str:
    if not isinstance(seconds, (int, float)):
        return "never"
    return dt.datetime.fromtimestamp(seconds, dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
