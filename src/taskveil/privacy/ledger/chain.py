"""A hash chain over the entries of an account: an edited, removed or reordered entry no longer fits its successor."""

from __future__ import annotations

import hashlib
import json
from typing import Any

START = "0" * 64


def link(previous: str, account: str, number: int, run: str, kind: str, release: str, body: str, at: str) -> str:
    """The hash of one entry, over its own fields and its predecessor's hash."""
    text = json.dumps([previous, account, number, run, kind, release, body, at], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def broken_links(account: str, rows: list[Any], head: str, count: int) -> list[str]:
    """What does not fit, in words; empty when the chain is whole up to the stored head."""
    problems, previous = [], START
    for position, row in enumerate(rows, start=1):
        if row.number != position:
            problems.append(f"{account}: entry {position} is missing (found number {row.number})")
            return problems
        expected = link(previous, account, row.number, row.run, row.kind, row.release, row.body, row.at)
        if row.previous != previous or row.hash != expected:
            problems.append(f"{account}: entry {position} ({row.kind}) was changed after it was written")
            return problems
        previous = row.hash
    if previous != head or len(rows) != count:
        problems.append(f"{account}: the last {max(count - len(rows), 1)} entries are missing or were replaced")
    return problems
