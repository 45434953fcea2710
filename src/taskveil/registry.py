"""Tables of named things: mechanisms, accountants, losses, structures, methods.

A table is filled by explicit imports in the `__init__` of its folder, so one screen shows all that exists and
nothing depends on import order.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Generic, TypeVar

from taskveil.errors import UnknownName

T = TypeVar("T")


class Table(Generic[T]):
    """Names of one kind of thing and what they stand for; refuses duplicates.

    >>> losses = Table("loss")
    >>> losses.add("squared", "the squared loss")
    >>> losses.get("squared")
    'the squared loss'
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def add(self, name: str, value: T) -> None:
        """Enter `value` under `name`; a name can be taken only once."""
        if name in self._entries:
            raise ValueError(f"{self.kind} {name!r} is already registered; choose another name")
        self._entries[name] = value

    def get(self, name: str) -> T:
        """The entry called `name`, or an error that lists the known names."""
        if isinstance(name, str) and name in self._entries:
            return self._entries[name]
        word = name if isinstance(name, str) else type(name).__name__
        close = difflib.get_close_matches(word[:100], self._entries, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UnknownName(f"unknown {self.kind} {word[:100]!r}: expected one of {', '.join(sorted(self._entries))}{hint}")

    def names(self) -> list[str]:
        """All names, sorted."""
        return sorted(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self._entries)
