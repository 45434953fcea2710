"""One printed side of A4 about one run, for people who decide.

Who, against whom, how well, what is left of the budget, what an attack managed, what is not protected, and how to check it.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import taskveil
from taskveil.estimators.check_folder import check_folder
from taskveil.estimators.summary import gain_verdict, summary_verdict
from taskveil.privacy import signing
from taskveil.report.exports.evidence import Evidence, account_line, audit_lines, gather
from taskveil.report.page import template
from taskveil.report.records import read
from taskveil.report.words import privacy_verdict
from taskveil.saved import read_bytes

BANNER = "For the board and whoever is entitled to all rows; figures on errors are statistics of rows that no epsilon covers."
LINES, LETTERS = 32, 84  # of a side, under its titles; of a line
SHORTER = ((5, 420), (4, 330), (3, 250), (3, 168), (2, 168), (2, 84), (1, 84))  # lines under a title, letters of each
MOST_OF_A_NAME, MOST_OF_A_VERDICT = 90, 240
FILE = "report-board.html"
UNKNOWN = "No figure is stored with this run."


def write_board(folder: Path, ledger: str | None = None) -> Path:
    """The page beside the run it is about; everything on it is recomputed first."""
    wrong, signer = signing.signature_problems(folder, None)
    checked = check_folder(folder, ledger)
    evidence = gather(folder, checked.certificate, (*wrong, *checked.problems), ledger, signer)
    path = folder / FILE
    run = read(folder)
    well = summary_verdict(run.gain_summary) if run.gain_summary else gain_verdict(run.gain) if run.gain else UNKNOWN
    path.write_text(render(evidence, well, _hash(folder), run.table), encoding="utf-8")
    return path


def render(evidence: Evidence, well: str, digest: str, table: str = "") -> str:
    """The page as text."""
    text: str = template("board.html.j2").render(
        name=_short(evidence.name, MOST_OF_A_NAME), banner=BANNER, holds=evidence.holds,
        verdict=_short(f"Privacy {evidence.verdict}.", MOST_OF_A_VERDICT), table=_short(table, MOST_OF_A_NAME),
        date=evidence.date, version=taskveil.__version__, written=f"{datetime.now(UTC):%Y-%m-%d}",
        sections=sections(evidence, well), code=evidence.code, hash=digest,
        signature=f"Signed by key {evidence.signer}." if evidence.signer else "Not signed: evidence, not proof.",
    )  # fmt: skip
    return text


def sections(evidence: Evidence, well: str) -> list[tuple[str, list[str]]]:
    """Titles and lines, in the order people ask."""
    books = ["No ledger was given: what other runs spent on the same rows is not on this page."]
    if evidence.accounts is not None:
        books = [account_line(a) + _next(a) for a in evidence.accounts] or ["The ledger has no account."]
    attacks = audit_lines(evidence) or ["This configuration was not attacked."]
    protected = [s.sentence() for s in evidence.certificate.statements] or ["No privacy statement is made."]
    parts = [
        ("Who is protected, and against whom", [*protected, privacy_verdict(evidence.run)]),
        ("What that means", [p.words() for p in evidence.profiles[-1:]] or ["Nothing is protected."]),
        ("How well it works", [well[:1].upper() + well[1:]]),
        ("Spent so far, of what limit", books),
        ("What an attack managed", attacks),
        ("What is not protected", list(evidence.certificate.not_protected) or ["Nothing is listed."]),
    ]
    for most, letters in SHORTER:
        shown = [(title, _few(lines, most, letters)) for title, lines in parts]
        if sum(_printed(line) for _, lines in shown for line in lines) <= LINES:
            break
    return shown


def _next(a: Mapping[str, Any]) -> str:
    if a.get("next_run_fits") is None:
        return ""
    return "; another run like the last would fit" if a["next_run_fits"] else "; another run like the last would be REFUSED"


def _few(lines: Sequence[str], most: int, letters: int) -> list[str]:
    shown = [_short(line, letters) for line in lines[:most]]
    left = len(lines) - len(shown)
    return [*shown, *([f"and {left} more: see the full page (taskveil report)"] if left else [])]


def _short(line: str, letters: int) -> str:
    """Cut at a word, or inside one that is as long as the line."""
    if _width(line) <= letters:
        return line
    while _width(line) > letters - 4:
        line = line[:-1]
    return line[: max(line.rfind(" "), len(line) - 20)].rstrip() + " ..."


def _printed(line: str) -> int:
    return -(-_width(line) // LETTERS)


def _width(line: str) -> int:
    """In letters: some scripts have wide ones, and a capital is half as wide again as others."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" or c in "WM@%" else 1 for c in line)


def _hash(folder: Path) -> str:
    return hashlib.sha256(read_bytes(folder / "certificate.json")).hexdigest()
