"""What tuning chose, kept in tuned.json: figures on the same data share it, and a run that was cut off goes on where it stopped.

    {data set: {"chosen/METHOD": {epsilon: options}, "random/METHOD": {epsilon: what starved.py found}}}

Take an entry out, or the file away, to tune again. Replications that are done are kept in .parts/ until then, under what was asked.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "tuned.json"
PARTS = FILE.parent / ".parts"


def read() -> dict[str, Any]:
    return json.loads(FILE.read_text()) if FILE.exists() else {}


def kept(data: str, what: str, epsilon: float | str, choose: Callable[[], Any]) -> Any:
    """The entry, or what `choose` finds, which is then kept. Without a name for the data nothing is kept."""
    at = epsilon if isinstance(epsilon, str) else f"{epsilon:g}"
    known = read().get(data, {}).get(what, {}) if data else {}
    if at in known:
        return known[at]
    found = choose()
    if data:
        everything = read()  # again: another run may have added to it meanwhile
        everything.setdefault(data, {}).setdefault(what, {})[at] = found
        _write(FILE, everything)
    return found


def replication(data: str, asked: Any, number: int, make: Callable[[], Any]) -> Any:
    """One replication: that of an earlier run that asked the same, or a new one."""
    digest = hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:12]
    file = PARTS / f"{data}-{digest}-{number}.json"
    if data and file.exists():
        return json.loads(file.read_text())
    found = make()
    if data:
        PARTS.mkdir(exist_ok=True)
        _write(file, found)
    return found


def _write(file: Path, content: Any) -> None:
    """Whole or not at all."""
    beside = file.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps(content, indent=1))
    beside.replace(file)
