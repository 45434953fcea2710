"""Text that means a number or a day: 12,5; 1.234,50; EUR 20; 35 %; 5.2 mg; 31/12/2023; a point or a question mark among numbers.

Hashed as words, or each taken for a label of its own, such cells would spoil a model in silence. Who runs the command is asked
to write them plainly; whole numbers and words are left alone, since codes look like that.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from taskveil.tasks.arguments import as_number
from taskveil.tasks.files import COMMA_DECIMAL, TRUTH, mostly_numbers

if TYPE_CHECKING:
    import pandas as pd


DAYS = "dates or times; turn it into a number (days, age)"
SAMPLE = 100
_AMONG = "text among {}; make every cell {}, with nothing where it is not known, or declare its levels"
_GAP = "[ \u00a0\u202f]?"
_MONEY = r"(?:[$€£¥]|EUR|USD|GBP|CHF|%)?"
_DIGITS = r"(?:\d{1,3}(?:[.,'\u2019 \u00a0\u202f]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?(?:[eE][+-]?\d+)?)"
_SIGN = "[+\u2212-]?"  # the second is a minus as typesetters write it
_NUMBER = re.compile(rf"{_SIGN}{_MONEY}{_GAP}{_SIGN}{_DIGITS}{_GAP}{_MONEY}|\({_MONEY}{_DIGITS}\)")
_UNIT = re.compile(r"[+-]?\d+(?:[.,]\d+| ) ?([^\W\d_]{1,8})")  # 5.2mg or 5 mg, but not the code 5A
_NO_WORD = re.compile(r"[\W_]*|unknown|missing|none|not (?:known|available)|n\.?[ak]\.?", re.IGNORECASE)
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2},\d{3}")
_MONTH = r"(?:\d{1,2}|[A-Za-z]{3,9})"
_CLOCK = r"(?:[ T]\d{1,2}:\d\d.*)?"
_DAY = re.compile(
    rf"(?:\d{{1,4}}([./ -]){_MONTH}\1\d{{1,4}}|[A-Za-z]{{3,9}} \d{{1,2}}, \d{{4}}){_CLOCK}|\d{{1,2}}:\d\d(?::\d\d)?"
)


def disguise(column: pd.Series, different: Sequence[Any]) -> str | None:
    """What the cells of a text column mean and how to write it instead; None for words, codes and whole numbers.

    `different` are the values in it. A sample tells; whether a few are text among numbers is asked of all cells, as for a csv.
    """
    cells = [str(text).strip() for text in different[:SAMPLE]]
    if any(_plain(c) or c in TRUTH for c in cells) and (numbers := mostly_numbers(column)) is not None and numbers[1].any():
        what = ("true and false", "one of them") if numbers[0].dtype == "boolean" else ("numbers", "a number")
        return _AMONG.format(*what)
    if cells and all(map(_DAY.fullmatch, cells)):
        return DAYS
    return None if all(map(_plain, cells)) else _written(cells)


def _written(cells: Sequence[str]) -> str | None:
    """How cells that are not all plain numbers are meant as numbers; None where they are not."""
    if not all(map(_NUMBER.fullmatch, cells)):
        units = {unit and unit[1] for unit in map(_UNIT.fullmatch, cells)}
        if len(units) == 1 and None not in units:
            return "numbers with a unit; write plain numbers"
        return _AMONG.format("numbers", "a number") if _stray(cells) else None
    commas = [cell for cell in cells if re.fullmatch(COMMA_DECIMAL, cell)]
    if all(_plain(cell) or cell in commas for cell in cells) and not all(map(_THOUSANDS.fullmatch, commas)):
        return "numbers with a decimal comma; save the table with decimal points"
    return "numbers with a currency, a percent sign, separators of thousands or other signs; write plain numbers"


def _stray(cells: Sequence[str]) -> bool:
    """Whether most of these cells are numbers and the rest no words, or most are decimal numbers: no codes look like that."""
    numbers, others = [c for c in cells if _plain(c)], [c for c in cells if not _plain(c)]
    if not others or len(numbers) <= len(others):
        return False
    return all(map(_NO_WORD.fullmatch, others)) or 2 * sum("." in c for c in numbers) > len(cells)


def _plain(cell: str) -> bool:
    return as_number(cell) is not None
