"""The rules themselves, against values whose verdict is plain; tables are only as good as these."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.support.wrong import one_line

from taskveil.checks import Choice, Entries, Flag, Host, ListOf, Name, Number, Text, Whole, check_table, optional, parse_json
from taskveil.errors import DataError, OptionError

ACCEPTED = [
    (Whole(1, 5), [1, 5, np.int64(3)]),
    (Number(above=0, at_most=1), [1, 0.5, np.float32(0.25), 1e-300]),
    (Choice("a", "b"), ["a"]),
    (Flag(), [True, np.bool_(False)]),
    (Text(5), ["abc"]),
    (Host(), ["localhost", "a-b.example.org", "example.org.", "127.0.0.1", "::1", "xn--bcher-kva.de"]),
    (Name(), ["ward-3", "St. Mary's".replace("'", ""), "nördlich 2"]),
    (ListOf(Whole(1)), [[1, 2], (3,)]),
    (Entries(Whole(1)), [{"a": 1}, {}]),
    (optional(Whole(1)), [None, 2]),
]
REFUSED = [
    (Whole(1, 5), [0, 6, 1.0, True, "1", None, math.nan, 10**400]),
    (Number(above=0, at_most=1), [0, 1.0000001, math.nan, math.inf, True, "0.5", None, 10**400, [0.5]]),
    (Choice("a", "b"), ["A", "", None, 0, ["a"]]),
    (Flag(), [1, 0, "true", None]),
    (Text(5), ["", "   ", "abcdef", 3, "a\0", "a\ud800"]),
    (Host(), ["", "-1", "a-", "a:b", "a..b", "a b", "http://a", "x_y", "\u0661", 3]),
    (Name(), ["../x", "a/b", "a\\b", ".x", "-x", "", "x\n", " x", 3, "$(x)", "`x`", "a" * 101]),
    (ListOf(Whole(1), distinct=True), [[], [1, 1], [0], "12", 3, [1.5]]),
    (Entries(Whole(1)), [{"a": 0}, {1: 1}, [1], None]),
    (optional(Whole(1)), [0, "none"]),
]


@pytest.mark.parametrize("rule, values", ACCEPTED)
def test_a_rule_takes_what_it_says(rule, values):
    for value in values:
        assert rule.check("it", value) is value


@pytest.mark.parametrize("rule, values", REFUSED)
def test_a_rule_refuses_everything_else_in_one_line_with_what_came_and_what_is_allowed(rule, values):
    for value in values:
        with pytest.raises(OptionError) as refused:
            rule.check("it", value)
        one_line(str(refused.value))
        assert rule.allowed in str(refused.value) and "got" in str(refused.value)


def test_a_table_names_unknown_and_missing_entries():
    with pytest.raises(DataError, match="unknown entry 'b'; allowed: a"):
        check_table({"b": 1}, {"a": Whole()}, error=DataError)
    with pytest.raises(DataError, match="a is missing"):
        check_table({}, {"a": Whole()}, error=DataError, required=("a",))
    with pytest.raises(DataError, match="table"):
        check_table([1], {"a": Whole()}, error=DataError)


@pytest.mark.parametrize("text", ["[" * 100_000, "NaN", '{"a": Infinity}', "{", "", b"\xff\xfe"])
def test_json_that_python_would_choke_on_is_refused(text):
    with pytest.raises(DataError):
        parse_json(text, "it", DataError)
