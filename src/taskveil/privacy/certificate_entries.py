"""What may stand in a certificate file: one table, read by `Certificate.from_dict` and by the tests that damage files.

Entries that are not listed are left to the reader: a later version may say more, never something else under these names.
"""

from __future__ import annotations

from typing import Any

from taskveil.checks import Choice, Entries, Flag, ListOf, Number, Rule, Text, Whole, check_table, optional
from taskveil.errors import DataError
from taskveil.privacy.aggregation import AGGREGATIONS
from taskveil.privacy.units import Neighbours, Observer, Unit

MOST_EVENTS = 10_000_000
WORDS = Text(at_least=0, at_most=1_000_000)
PROBABILITY = Number(at_least=0, at_most=1)

CERTIFICATE: dict[str, Rule] = {
    "method": Text(1000),
    "variant": Choice("sound", "paper", "preprint"),
    "statements": ListOf(Entries(), at_least=0),
    "events": ListOf(Entries(), at_least=0, at_most=MOST_EVENTS),
    "assumptions": ListOf(WORDS, at_least=0),
    "not_protected": ListOf(WORDS, at_least=0),
    "randomness": Entries(),
    "software": Entries(WORDS),
    "audit": optional(Entries()),
}
STATEMENT: dict[str, Rule] = {
    "unit": Choice(*(u.value for u in Unit)),
    "neighbours": Choice(*(n.value for n in Neighbours)),
    "observer": Choice(*(o.value for o in Observer)),
    "epsilon": Number(at_least=0),
    "delta": PROBABILITY,
    "accountant": Text(100),
    "holds": Flag(),
    "reason": optional(WORDS),
    "delta_at_least": optional(PROBABILITY),
    "colluders": optional(Whole(0, 10**9)),
    "share": optional(Number(above=0, at_most=1)),
    "tasks": optional(Whole(1, 10**9)),
    "names": optional(WORDS),
}
EVENT: dict[str, Rule] = {
    "name": Text(1000),
    "count": Whole(0, MOST_EVENTS),
    "rounds": ListOf(ListOf(Whole(0, 10**12), at_least=2, at_most=2), at_least=0),
    "contribution": Entries(),
    "mechanism": Entries(),
    "event": Entries(),
    "rate": optional(Number(above=0, at_most=1)),
    "neighbours": Choice(*(n.value for n in Neighbours)),
    "aggregation": Choice(*AGGREGATIONS.names()),
}
REQUIRED = tuple(name for name in CERTIFICATE if name != "audit")
REQUIRED_OF_A_STATEMENT = ("unit", "neighbours", "observer", "epsilon", "delta", "accountant", "holds")


def check_certificate(data: Any) -> None:
    """Refuse, in one line, what is no certificate."""
    what = "this is not a certificate"
    check_table(data, CERTIFICATE, what, DataError, REQUIRED, closed=False)
    for statement in data["statements"]:
        check_table(statement, STATEMENT, f"{what}: statement", DataError, REQUIRED_OF_A_STATEMENT, closed=False)
    for event in data["events"]:
        check_table(event, EVENT, f"{what}: event", DataError, closed=False)  # verify() says what is missing
