"""Values that a rule must refuse, made from the rule itself; so a new entry of a table is tested the day it is written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from taskveil.checks import (
    AnyOf,
    Choice,
    Column,
    Engine,
    Entries,
    Flag,
    Function,
    Host,
    Line,
    ListOf,
    Name,
    Nothing,
    Number,
    Rule,
    Text,
    Whole,
)
from taskveil.runtime.federation.entries import Address, Inside

DEEP: Any = []
for _ in range(200):
    DEEP = [DEEP]


def wrong_values(rule: Rule) -> list[Any]:
    """Each of these is refused by the rule: wrong types, numbers just outside, words that are no choice."""
    made = [v for v in _candidates(rule) if not (isinstance(rule, AnyOf) and rule.accepts(v))]
    assert made, rule
    return made


def _candidates(rule: Rule) -> list[Any]:
    return next(make(rule) for kind, make in CANDIDATES if isinstance(rule, kind))


def _whole(rule: Whole) -> list[Any]:
    beyond = [] if rule.at_most is None else [rule.at_most + 1, 10**400]
    numbers = [rule.at_least - 1, -(10**30), rule.at_least + 0.5, math.nan, math.inf, *beyond]
    return [*numbers, True, "three", "", [rule.at_least], None]


def _number(rule: Number) -> list[Any]:
    ends = [rule.above, rule.below, None if rule.at_least is None else rule.at_least - 1]
    ends += [None if rule.at_most is None else rule.at_most * 1.5 + 1]
    outside = [e for e in ends if e is not None]
    return [math.nan, math.inf, -math.inf, 10**400, True, "much", "", [0.5], {"a": 1}, 1j, None, *outside]


def _choice(rule: Choice) -> list[Any]:
    return ["", "magic", str(rule.words[0]).upper() + "x", 3, True, None, [rule.words[0]], {"a": 1}]


def _list(rule: ListOf) -> list[Any]:
    bad = [v for v in wrong_values(rule.entry) if isinstance(v, (int, float, str, list)) or v is None][:3]
    return ["text", 3, None, {"a": 1}, *([[]] if rule.at_least else []), *([v] * max(rule.at_least, 1) for v in bad)]


def _text(rule: Text) -> list[Any]:
    return [*([""] if rule.at_least else []), 3, None, ["x"], True, "x" * (rule.at_most + 1), "a\0b", "\ud800", {"a": 1}]


PATHS = ["", "../../../etc/passwd", "/etc/passwd", "keys/../../x", 3, None, ["x"], "a\0b"]
ADDRESSES = [
    "",
    "host",
    "http://host:9092",
    "a/b:9092",
    "\uff11:9092",
    ".:9092",
    "host:0",
    "host:99999",
    "host:port",
    ":9092",
    "a b:9092",
    9092,
    None,
    "host:-1",
    "host:1.5",
]
NAMES = ["", "../x", "../../x", "a/b", "/etc/passwd", ".hidden", "-rf", "x\ny", "x\0y", " x", 7, None, ["x"], "x" * 101]
CANDIDATES: list[tuple[type[Rule], Any]] = [  # the first that fits: special texts come before plain ones
    (AnyOf, lambda rule: [v for r in rule.rules for v in _candidates(r)]),
    (Whole, _whole),
    (Number, _number),
    (Choice, _choice),
    (Flag, lambda rule: [1, 0, "yes", "", None, [True], math.nan]),
    (Engine, lambda rule: [*_text(rule), "spark", "dask:", "dask:host:8786", "dask:tcp://a b", "Dask"]),
    (Host, lambda rule: ["", "a b", "https://a", "a/b", 3, None, "x\ny", ".", "--", "-1", "a:b", "a..b", "\uff11\uff12"]),
    (Column, lambda rule: ["", " ", "a\nb", "\x1b[31m", 1.5, True, np.ones(2), {"a": 1}, ["a"], (), (1.5,), object()]),
    (Line, lambda rule: [*_text(rule), "a\nb", "\x1b[31m", "a\u2028b"]),
    (Function, lambda rule: [3, "print", object(), [len], True]),
    (Inside, lambda rule: PATHS),
    (Address, lambda rule: ADDRESSES),
    (Name, lambda rule: NAMES),
    (ListOf, _list),
    (Entries, lambda rule: [3, "text", [], None, True, *([{"magic": 1}] if rule.entries else [])]),
    (Text, _text),
    (Nothing, lambda rule: ["magic", 0]),
]


def named(table: dict[str, Rule]) -> list[tuple[str, Any]]:
    """(entry, wrong value) for every entry of a table."""
    return [(name, value) for name, rule in table.items() for value in wrong_values(rule)]


def label(value: Any) -> str:
    """A short test id."""
    words = repr(value)
    return words if len(words) < 30 else f"{words[:20]}...({len(words)})"


def one_line(message: str) -> None:
    """A refusal is one line of ordinary length that blames no defect of ours."""
    assert message.strip() and "\n" not in message.strip() and len(message) < 1500, message
    assert "Traceback" not in message and "defect" not in message, message
