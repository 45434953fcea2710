"""What a value may be. A rule says what is allowed, in words and in code, so that a table of rules is all a surface needs:
its checks read the table, and so do the tests that try to get something wrong past them.

    Whole(1, 100)   Number(above=0)   Choice("task", "record")   Flag()   Text()   Name()   ListOf(rule)   Entries(rule)

Every refusal is one line: what is allowed, and what came (cut short).
"""

from __future__ import annotations

import ipaddress
import json
import math
import numbers
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from taskveil.errors import InputError, OptionError

MOST_TEXT = 10_000  # characters of a text or a name's file; longer ones are no names


def shown(value: Any) -> str:
    """What came, short enough for one line and without control characters."""
    try:
        words = repr(value)
    except Exception:
        words = type(value).__name__
    words = " ".join(words.split())
    return words if len(words) <= 60 else f"{words[:57]}..."


@dataclass(frozen=True)
class Rule:
    """Base of all rules; `none` says whether leaving the value out (None) is allowed."""

    def accepts(self, value: Any) -> bool:
        raise NotImplementedError

    @property
    def allowed(self) -> str:
        """What is allowed, in words that follow 'must be'."""
        raise NotImplementedError

    def parse(self, text: str) -> Any:
        """The value that a word on the command line stands for."""
        return text

    def check(self, name: str, value: Any, error: type[InputError] = OptionError) -> Any:
        """The value itself, or an error that says what is allowed and what came."""
        if not self.accepts(value):
            raise error(f"{name} must be {self.allowed}; got {shown(value)}")
        return value


@dataclass(frozen=True)
class Whole(Rule):
    """A whole number; True and 3.0 are none."""

    at_least: int = 0
    at_most: int | None = None

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, numbers.Integral) or isinstance(value, bool):
            return False
        number = int(value)
        return self.at_least <= number and (self.at_most is None or number <= self.at_most)

    @property
    def allowed(self) -> str:
        most = "" if self.at_most is None else f" and at most {self.at_most}"
        return f"a whole number of at least {self.at_least}{most}"

    def parse(self, text: str) -> Any:
        return _read(int, text)


@dataclass(frozen=True)
class Number(Rule):
    """A finite number between two ends; `above` and `below` leave their end out."""

    at_least: float | None = None
    at_most: float | None = None
    above: float | None = None
    below: float | None = None

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, numbers.Real) or isinstance(value, bool):
            return False
        try:
            x = float(value)
        except (OverflowError, ValueError):
            return False
        inside = (
            (self.at_least is None or x >= self.at_least) and (self.at_most is None or x <= self.at_most)
            and (self.above is None or x > self.above) and (self.below is None or x < self.below)
        )  # fmt: skip
        return math.isfinite(x) and inside

    @property
    def allowed(self) -> str:
        if self == Number(above=0):
            return "positive and finite"
        if self.above is not None and self.below is not None:
            return f"a number strictly between {self.above:g} and {self.below:g}"
        ends = (("at least", self.at_least), ("above", self.above), ("at most", self.at_most), ("below", self.below))
        limits = " and ".join(f"{word} {end:g}" for word, end in ends if end is not None)
        return f"a finite number {limits}".rstrip()

    def parse(self, text: str) -> Any:
        return _read(float, text)


def _read(kind: type, text: str) -> Any:
    """A number written the plain way; Python would read 1_0 and the digits of every script as well."""
    try:
        return kind(text) if text.isascii() and "_" not in text else text
    except ValueError:
        return text


@dataclass(frozen=True)
class Choice(Rule):
    """One of a few words."""

    words: tuple[Any, ...]

    def __init__(self, *words: Any) -> None:
        object.__setattr__(self, "words", words)

    def accepts(self, value: Any) -> bool:
        return isinstance(value, str) and value in self.words

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(map(str, self.words))


@dataclass(frozen=True)
class Flag(Rule):
    """True or false, and nothing that merely behaves like it."""

    allowed = "true or false"

    def accepts(self, value: Any) -> bool:
        return isinstance(value, bool) or type(value).__name__ in ("bool", "bool_")

    def parse(self, text: str) -> Any:
        return {"true": True, "false": False}.get(text.lower(), text)


@dataclass(frozen=True)
class Text(Rule):
    """A text that UTF-8 can write, not empty unless `at_least` is 0."""

    at_most: int = MOST_TEXT
    at_least: int = 1

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, str) or not self.at_least <= len(value.strip()) or len(value) > self.at_most:
            return False
        return "\0" not in value and value.encode(errors="ignore").decode() == value

    @property
    def allowed(self) -> str:
        return f"a text of {self.at_least} to {self.at_most} characters"


@dataclass(frozen=True)
class Line(Text):
    """A text on one line, without control characters: a name that stands in messages and tables."""

    def accepts(self, value: Any) -> bool:
        return super().accepts(value) and not any(unicodedata.category(c) in ("Cc", "Zl", "Zp") for c in value)

    @property
    def allowed(self) -> str:
        return f"{super().allowed} on one line"


@dataclass(frozen=True)
class Column(Line):
    """The name of a column: a text, or what else a table may call one (a number, a tuple of them)."""

    allowed = "the name of a column, or its number"

    def accepts(self, value: Any) -> bool:
        if isinstance(value, tuple):
            return bool(value) and all(map(self.accepts, value))
        return super().accepts(value) or (isinstance(value, numbers.Integral) and not isinstance(value, bool))


@dataclass(frozen=True)
class Function(Rule):
    """Something to call."""

    allowed = "a function"

    def accepts(self, value: Any) -> bool:
        return callable(value)


@dataclass(frozen=True)
class Place(Line):
    """Where a file or folder is: a text, or a path object."""

    allowed = "the path of a file or folder"

    def accepts(self, value: Any) -> bool:
        return super().accepts(str(value) if isinstance(value, PurePath) else value)


@dataclass(frozen=True)
class Host(Text):
    """A host name or an address, without a scheme, a port or spaces."""

    allowed = "a host name or an address"

    def accepts(self, value: Any) -> bool:
        if not super().accepts(value):
            return False
        try:
            return bool(ipaddress.ip_address(value))
        except ValueError:  # a name: letters and digits, and dashes inside, between dots
            parts = value.removesuffix(".").split(".")
            return all(p.replace("-", "").isalnum() and p.isascii() and p == p.strip("-") for p in parts)


@dataclass(frozen=True)
class Engine(Text):
    """Where partitions are worked on: dask, or dask: and the address of a scheduler."""

    allowed = "dask, or dask: and the address of a scheduler (dask:tcp://HOST:8786)"

    def accepts(self, value: Any) -> bool:
        name, colon, address = value.partition(":") if super().accepts(value) else ("", "", "")
        return name == "dask" and ("://" in address and not any(c.isspace() for c in address) if colon else True)


@dataclass(frozen=True)
class Name(Rule):
    """A name of a person's choice that will also name files: no separators, no dots in front, nothing unprintable."""

    at_most: int = 100

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, str) or not 0 < len(value) <= self.at_most or not value.isprintable():
            return False
        return value == value.strip() and not value.startswith((".", "-")) and not set(value) & set("/\\:*?\"<>|'`$")

    @property
    def allowed(self) -> str:
        return f"a plain name of 1 to {self.at_most} characters without / \\ : quotes or a leading dot or dash"


@dataclass(frozen=True)
class ListOf(Rule):
    """A list whose entries keep a rule."""

    entry: Rule
    at_least: int = 1
    at_most: int = 1_000_000
    distinct: bool = False

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, (list, tuple)) or not self.at_least <= len(value) <= self.at_most:
            return False
        return all(map(self.entry.accepts, value)) and not (self.distinct and len(set(value)) < len(value))

    @property
    def allowed(self) -> str:
        repeats = " without repeats" if self.distinct else ""
        return f"a list of at least {self.at_least}{repeats}, each {self.entry.allowed}"


@dataclass(frozen=True)
class Entries(Rule):
    """Names with values that keep a rule; with `entries`, exactly these names may stand there."""

    values: Rule | None = None
    entries: tuple[tuple[str, Rule], ...] = ()

    def accepts(self, value: Any) -> bool:
        if not isinstance(value, Mapping) or not all(isinstance(k, str) for k in value):
            return False
        if self.entries:
            rules = dict(self.entries)
            return all(k in rules and rules[k].accepts(v) for k, v in value.items())
        return self.values is None or all(map(self.values.accepts, value.values()))

    @property
    def allowed(self) -> str:
        if self.entries:
            return "a table with " + "; ".join(f"{name}: {rule.allowed}" for name, rule in self.entries)
        return "a table" if self.values is None else f"a table of names, each with a value that is {self.values.allowed}"


@dataclass(frozen=True)
class AnyOf(Rule):
    """One of several rules."""

    rules: tuple[Rule, ...]

    def __init__(self, *rules: Rule) -> None:
        object.__setattr__(self, "rules", rules)

    def accepts(self, value: Any) -> bool:
        return any(rule.accepts(value) for rule in self.rules)

    @property
    def allowed(self) -> str:
        return ", or ".join(rule.allowed for rule in self.rules)

    def parse(self, text: str) -> Any:
        parsed = (rule.parse(text) for rule in self.rules)
        return next((value for value in parsed if self.accepts(value)), text)


@dataclass(frozen=True)
class Nothing(Rule):
    """None; on the command line and in files the word 'none'."""

    allowed = "none"

    def accepts(self, value: Any) -> bool:
        return value is None

    def parse(self, text: str) -> Any:
        return None if text.strip().lower() == "none" else text


def optional(rule: Rule) -> AnyOf:
    """The rule, or None."""
    return AnyOf(rule, Nothing())


def check_table(
    values: Mapping[str, Any],
    rules: Mapping[str, Rule],
    where: str = "",
    error: type[InputError] = OptionError,
    required: Collection[str] = (),
    closed: bool = True,
) -> None:
    """Every value keeps its rule, none that is required is missing, and (if `closed`) no name is unknown."""
    before = f"{where}: " if where else ""
    if not isinstance(values, Mapping):
        raise error(f"{before}expected a table of names and values; got {shown(values)}")
    for name in values:
        if closed and name not in rules:
            raise error(f"{before}unknown entry {shown(name)}; allowed: {', '.join(sorted(rules))}")
    for name in required:
        if name not in values:
            raise error(f"{before}{name} is missing; it must be {rules[name].allowed}")
    for name in rules.keys() & values.keys():
        rules[name].check(f"{before}{name}", values[name], error)


def parse_json(text: str | bytes, what: str, error: type[InputError], most: int = 200_000_000) -> Any:
    """One JSON document of ordinary depth and finite numbers, or one line that says it is none."""
    if not isinstance(text, str | bytes):
        raise error(f"{what} must be a text with one JSON document; got {type(text).__name__}")
    if len(text) > most:
        raise error(f"{what} is too large to be read: at most {most} bytes are expected")
    try:
        return json.loads(text, parse_constant=_not_finite, object_pairs_hook=_each_once)
    except RecursionError:
        raise error(f"{what} is not usable: it is nested too deeply") from None
    except ValueError as problem:
        raise error(f"{what} is not valid JSON: {problem}") from None


def _each_once(entries: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of a name that occurs twice one reader takes the first value and another the last: such a document says two things."""
    table = dict(entries)
    if len(table) < len(entries):
        raise ValueError("a name occurs twice")
    return table


def _not_finite(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")
