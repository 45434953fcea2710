"""A csv file read without Arrow: Python's own reader, and the types that Arrow finds (a test compares the two).

Slower than Arrow, about a million cells a second, and it holds the file's text in memory while it reads; `pip install
'taskveil[parquet]'` brings Arrow.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Container, Sequence
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

DAY, CLOCK = r"\d{4}-\d\d-\d\d", r"\d\d:\d\d(:\d\d)?"
LADDER: tuple[tuple[str, Callable[[list[str]], Any]], ...] = (
    (r"-?\d+", lambda cells: np.array(cells).astype(np.int64)),
    (r"1|0|true|false|True|False|TRUE|FALSE", lambda cells: [c.lower() in ("1", "true") for c in cells]),
    (DAY, lambda cells: [date.fromisoformat(c) for c in cells]),
    (CLOCK, lambda cells: [time.fromisoformat(c) for c in cells]),
    (rf"{DAY}[ T]{CLOCK}(\.\d{{1,9}})?Z?", lambda cells: _moments(cells)),
    (r"(?i)[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)", lambda cells: np.array(cells).astype(np.float64)),
)
"""What a cell must look like, in the order in which types are tried, and how it is read. What fits none is text."""


def read_plain(
    path: Path, encoding: str, delimiter: str, header: Sequence[str], texts: Container[str], missing: Container[str]
) -> tuple[pd.DataFrame, list[int]]:
    """The table, and which rows of the file were left out because their number of fields is wrong.

    `texts` are columns that stay text; cells in `missing` are empty. Raises UnicodeError and csv.Error.
    """
    import pandas as pd

    rows, skipped = [], []
    with path.open(encoding=encoding, newline="") as f:
        lines = (row for row in csv.reader(f, delimiter=delimiter) if row)
        next(lines)
        for k, row in enumerate(lines):
            if len(row) == len(header):
                rows.append(row)
            else:
                skipped.append(k)
    columns = zip(*rows) if rows else ((),) * len(header)
    cells = ([None if c in missing else c for c in column] for column in columns)
    return pd.DataFrame({name: _typed(column, name in texts) for name, column in zip(header, cells)}), skipped


def _typed(cells: list[str | None], text: bool) -> pd.Series:
    """A column of the first type of LADDER that all its cells have."""
    import pandas as pd

    present = [c.strip() for c in cells if c is not None]
    if not present:
        return pd.Series(cells, dtype=object)
    for pattern, convert in () if text else LADDER:
        if all(map(re.compile(pattern).fullmatch, present)):
            try:
                return _with_gaps(convert(present), np.array([c is not None for c in cells]))
            except (ValueError, OverflowError):  # 2001-02-30, a whole number beyond 64 bits
                continue
    return pd.Series(cells)


def _with_gaps(values: Any, present: np.ndarray) -> pd.Series:
    """`values` where cells are present; nothing elsewhere (whole numbers with gaps become floats)."""
    import pandas as pd

    if present.all():
        return pd.Series(values)
    if isinstance(values, np.ndarray):
        values = values.astype(np.float64)
    return pd.Series(values, index=np.flatnonzero(present)).reindex(range(len(present)))


def _moments(cells: list[str]) -> Any:
    import pandas as pd

    return pd.to_datetime(pd.Series(cells), format="ISO8601").to_list()
