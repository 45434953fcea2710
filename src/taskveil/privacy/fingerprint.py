"""One short name for what a certificate claims, so that an audit can say which claims it attacked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

SENTENCE = ("unit", "neighbours", "observer", "epsilon", "delta", "colluders", "share", "tasks")


def fingerprint(content: Any) -> str:
    """A digest of plain data; the order of keys does not matter."""
    text = json.dumps(content, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def claims_fingerprint(certificate: Mapping[str, Any]) -> str:
    """Method, variant, statements and events; not randomness, software or time, in which a rehearsal may differ from the run."""
    statements = [{k: s.get(k) for k in SENTENCE} for s in certificate["statements"]]
    return fingerprint([certificate["method"], certificate["variant"], statements, certificate["events"]])
