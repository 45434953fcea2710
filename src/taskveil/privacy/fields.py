"""Rules for what a file says of an event, a contribution or a mechanism, read off the types of their fields.

So a new field has its rule the day it is written, and a text where a number belongs is refused when the file is read, not when
somebody computes with it. Ranges are the business of the classes themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from taskveil.checks import Flag, ListOf, Number, Rule, Text, Whole, optional
from taskveil.errors import DataError

WHOLE = Whole(-(2**63), 2**63)
RULES: dict[str, Rule] = {
    "float": Number(), "int": WHOLE, "bool": Flag(), "str": Text(at_least=0), "tuple[int, ...]": ListOf(WHOLE, at_least=0),
    "tuple[float, ...]": ListOf(Number(), at_least=0),
}  # fmt: skip
RULES |= {f"{name} | None": optional(rule) for name, rule in RULES.items()}


def check_fields(kind: type, values: Mapping[str, Any]) -> None:
    """Every plain field has a value of its type; fields that are objects themselves are read by their own reader."""
    for field in fields(kind):
        rule = RULES.get(str(field.type))
        if rule is not None and field.name in values:
            rule.check(field.name, values[field.name], DataError)
