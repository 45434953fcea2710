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
    total = [certificate["total"]] if certificate.get("total") else []
    return fingerprint([certificate["method"], certificate["variant"], statements, certificate["events"], *total])


LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # no I, L, O, U: nothing to mistake on paper
ALIKE = str.maketrans("ILO", "110", "- ")


def short_code(certificate: Mapping[str, Any]) -> str:
    """Eighty bits of a certificate, for paper: four groups of four letters that `taskveil certify --code` compares."""
    text = json.dumps(certificate, sort_keys=True, default=str)
    number = int.from_bytes(hashlib.sha256(b"taskveil certificate code 1\0" + text.encode()).digest()[:10], "big")
    letters = "".join(LETTERS[number >> 5 * i & 31] for i in reversed(range(16)))
    return "-".join(letters[i : i + 4] for i in range(0, 16, 4))


def same_code(typed: str, code: str) -> bool:
    """Whether somebody who reads from paper means this code."""
    return typed.upper().translate(ALIKE) == code.replace("-", "")
