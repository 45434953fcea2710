"""One claim of a certificate as a whole sentence, the outcome of recomputing all of them, and what may stand in the file.

The table CERTIFICATE is read by `Certificate.from_dict` and by the tests that damage files. Entries that are not listed are left
to the reader: a later version may say more, never something else under these names.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from decimal import ROUND_CEILING, Context
from typing import Any

from taskveil.checks import Choice, Entries, Flag, ListOf, Number, Rule, Text, Whole, check_table, optional
from taskveil.errors import CheckFailed, DataError
from taskveil.privacy.aggregation import AGGREGATIONS
from taskveil.privacy.units import Neighbours, Observer, Unit


@dataclass(frozen=True)
class Statement:
    """One complete claim: who is protected, against whom, how well, by which theorem, and whether it holds.

    Attributes
    ----------
    unit, neighbours, observer : str
        For example "task", "replace-one", "other-tasks".
    epsilon, delta : float
    accountant : str
    holds : bool
    reason : str or None, default=None
        If it does not hold, why.
    delta_at_least : float or None, default=None
        A proved lower bound that refutes the claim: no epsilon holds with a smaller delta.
    colluders : int or None, default=None
        How many other sites may collude; `None` means all other tasks.
    """

    unit: str
    neighbours: str
    observer: str
    epsilon: float
    delta: float
    accountant: str
    holds: bool
    reason: str | None = None
    delta_at_least: float | None = None
    colluders: int | None = None  # how many other sites the observer may be; None: all other tasks
    share: float | None = None  # of the largest budget, where tasks have budgets of their own (per_task.py)
    tasks: int | None = None  # how many tasks have this share
    names: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain data without empty optional fields."""
        optional = ("reason", "delta_at_least", "colluders", "share", "tasks", "names")
        return {k: v for k, v in asdict(self).items() if not (k in optional and v is None)}

    def protected(self) -> str:
        """Whose data the claim protects, in words; if only some tasks have this budget, how many."""
        what = {"record": "one row of one task", "task": "all data of one task"}[self.unit]
        return what if self.tasks is None else f"{what} of the {self.tasks} with this budget"

    def against(self) -> str:
        """Against whom the claim holds, in words."""
        some = "all other tasks" if self.colluders is None else f"up to {self.colluders} other sites"
        return {
            "other-tasks": f"{some} together", "server": f"the server and {some} together",
            "public": "everybody, the published models included",
        }[self.observer]  # fmt: skip

    def sentence(self) -> str:
        """The claim in words."""
        how = {
            "add-remove": "present or replaced by a null one", "replace-one": "replaced by any other",
        }[self.neighbours]  # fmt: skip
        what = self.protected() + (f" ({self.names})" if self.names else "")
        claim = (
            f"{what[0].upper()}{what[1:]} ({how}) is protected against {self.against()} with epsilon = {up(self.epsilon)} and "
            f"delta = {up(self.delta)} (accountant: {self.accountant})."
        )
        if self.holds:
            return claim
        refuted = ""
        if self.delta_at_least is not None:
            refuted = f" No finite epsilon holds with delta below {self.delta_at_least:.6g}."
        return f"DOES NOT HOLD: {claim} Reason: {self.reason}.{refuted}"


def up(value: float, digits: int = 6) -> str:
    """A number that must not look smaller than it is, in so many digits."""
    shown = Context(prec=digits, rounding=ROUND_CEILING).create_decimal(f"{value:.12g}")
    return f"{float(shown):.{digits}g}"


@dataclass(frozen=True)
class Verification:
    """Outcome of `Certificate.verify()`; true when every statement was recomputed and holds.

    Attributes
    ----------
    ok : bool
    problems : tuple of str
        What does not hold, in words.
    """

    ok: bool
    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.ok

    def require(self) -> None:
        """Raise CheckFailed unless everything holds."""
        if not self.ok:
            raise CheckFailed("the certificate does not hold: " + "; ".join(self.problems))


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
    "total": optional(Entries()),
    "audit": optional(Entries()),
    "seal": optional(Text(64)),
}
TOTAL: dict[str, Rule] = {"policy": Text(100), "event": Entries()}
RANDOMNESS: dict[str, Rule] = {
    "source": Text(1000), "seeded": Flag(), "exact": Flag(), "samplers": ListOf(Text(1000), at_least=0), "note": WORDS,
}  # fmt: skip
AUDIT: dict[str, Rule] = {
    "claimed_epsilon": optional(Number(at_least=0)), "lower_bound": optional(Number(at_least=0)),
    "confidence": optional(PROBABILITY), "trials": optional(Whole(0)), "verdict": optional(Text(1000)),
    "leaks": optional(ListOf(WORDS, at_least=0)), "configuration": optional(Entries()),
}  # fmt: skip
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
REQUIRED = tuple(name for name in CERTIFICATE if name not in ("total", "audit", "seal"))
REQUIRED_OF_A_STATEMENT = ("unit", "neighbours", "observer", "epsilon", "delta", "accountant", "holds")


def check_certificate(data: Any) -> None:
    """Refuse, in one line, what is no certificate."""
    what = "this is not a certificate"
    check_table(data, CERTIFICATE, what, DataError, REQUIRED, closed=False)
    check_table(data["randomness"], RANDOMNESS, f"{what}: randomness", DataError, closed=False)
    if data.get("total") is not None:
        check_table(data["total"], TOTAL, f"{what}: total", DataError, tuple(TOTAL))
    check_table(data.get("audit") or {}, AUDIT, f"{what}: audit", DataError, closed=False)
    for statement in data["statements"]:
        check_table(statement, STATEMENT, f"{what}: statement", DataError, REQUIRED_OF_A_STATEMENT, closed=False)
    for event in data["events"]:
        check_table(event, EVENT, f"{what}: event", DataError, closed=False)  # verify() says what is missing
