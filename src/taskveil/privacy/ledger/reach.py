"""Whom a run exposes: which accounts of a name it is charged to, and under which neighbours.

Observers   A statement against the server implies the same against the other tasks, so it is spent against both. `public` is
            charged to `public` and `other-tasks`, and to `server` only where the run protects against the server too (a method
            whose finished models are releases may still show a curator its messages).
Units       Replacing one row is one way of replacing a task. So a run that protects whole tasks has exposed each record by at
            most its *replace-one* cost, and is charged with it to limits for `record`; a run that protects records says nothing
            about tasks.
Neighbours  A null unit is one of all others: an account for `add-remove` may be charged with the replace-one cost. The other way
            round a run is priced again under replace-one, from its mechanisms (plan.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from taskveil.errors import OptionError
from taskveil.privacy.units import Neighbours, Observer, Unit

REPLACE, NULL = Neighbours.REPLACE_ONE.value, Neighbours.ADD_REMOVE.value
IMPLIED = {
    Observer.OTHER_TASKS.value: (),
    Observer.SERVER.value: (Observer.OTHER_TASKS.value,),
    Observer.PUBLIC.value: (Observer.OTHER_TASKS.value,),
}
Item = TypeVar("Item")
Priced = Sequence[Item] | Callable[[str], Sequence[Item]]  # the same under all neighbours, or by neighbours


@dataclass(frozen=True)
class Key:
    """Whom an account protects, how, and against whom."""

    name: str
    unit: str = Unit.TASK.value
    neighbours: str = REPLACE
    observer: str = Observer.OTHER_TASKS.value

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 200:
            raise OptionError("an account name must have 1 to 200 characters")
        for kind, value in ((Unit, self.unit), (Neighbours, self.neighbours), (Observer, self.observer)):
            if value not in {m.value for m in kind}:
                raise OptionError(f"expected one of {', '.join(m.value for m in kind)}; got {value!r}")

    def __str__(self) -> str:
        return f"{self.name} ({self.unit}, {self.neighbours}, against {self.observer})"

    def columns(self) -> dict[str, str]:
        """The columns of the ledger that name an account."""
        return {"name": self.name, **self.sentence()}

    def sentence(self) -> dict[str, str]:
        """Who is protected against whom, without the account's name."""
        return {"unit": self.unit, "neighbours": self.neighbours, "observer": self.observer}

    @staticmethod
    def of(row: Any) -> Key:
        """The key of an account's row."""
        return Key(row.name, row.unit, row.neighbours, row.observer)


@dataclass(frozen=True)
class Reach:
    """The unit and neighbours a run was priced for, and all observers it makes a statement against."""

    unit: str
    neighbours: str
    observers: tuple[str, ...]

    @staticmethod
    def of(key: Key, also: Iterable[str] = ()) -> Reach:
        """What a run charged to `key` covers, and observers its certificate names besides."""
        named = (key.observer, *also)
        implied = (o for name in named for o in IMPLIED[name])
        return Reach(key.unit, key.neighbours, tuple(sorted({*named, *implied})))

    def relation(self, account: Key) -> str | None:
        """The neighbours under which this run costs an account something; None where it costs it nothing."""
        if account.observer not in self.observers:
            return None
        if account.unit == self.unit:
            return account.neighbours
        return REPLACE if self.unit == Unit.TASK.value else None

    def price(self, given: Priced[Item], account: Key) -> Sequence[Item]:
        """What this run costs an account it reaches."""
        relation = self.relation(account)
        assert relation is not None
        if callable(given):
            return given(relation)
        if relation == REPLACE != self.neighbours:
            raise OptionError(
                f"account {account} counts {REPLACE} neighbours, under which the cost of this {self.neighbours} run is not known"
            )
        return given
