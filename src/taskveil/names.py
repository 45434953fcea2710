"""From names people choose to names files may have, to cells a spreadsheet will not run; and the names of canaries."""

from __future__ import annotations

import hashlib
import re

PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,79}")
MARKED = re.compile(r".*-[0-9a-f]{10}")  # looks like a name this function made
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def file_name(name: str) -> str:
    """A file name for any text: plain names stay as they are, others are cleaned and marked, so that no two collide."""
    if PLAIN.fullmatch(name) and not MARKED.fullmatch(name) and ".." not in name:
        return name
    clean = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:60].lstrip("-")
    return f"{clean or '_'}-{hashlib.sha256(name.encode(errors='surrogatepass')).hexdigest()[:10]}"


def spreadsheet_cell(value: object) -> object:
    """Text that a spreadsheet would take for a formula, with an apostrophe in front; numbers, also as text, stay."""
    if not isinstance(value, str) or not value.lstrip(" ").startswith(FORMULA) or _is_number(value):
        return value
    return "'" + value


def _is_number(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) is not None


def canary_names(count: int) -> tuple[str, ...]:
    """Names of the canary tasks of a one-run audit: they take part in the run and stand for nobody."""
    return tuple(f"audit-canary-{i:05d}" for i in range(count))
