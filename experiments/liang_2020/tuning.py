"""What tuning chose, kept in tuned.json: figures on the same data share it, and a run that was cut off goes on where it stopped.

    {data set: {"chosen/METHOD": {epsilon: options}, "random/METHOD": {epsilon: what starved.py found}}}

Take an entry out, or the file away, to tune again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "tuned.json"


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
        beside = FILE.with_suffix(f".{os.getpid()}")
        beside.write_text(json.dumps(everything, indent=1))
        beside.replace(FILE)
    return found
