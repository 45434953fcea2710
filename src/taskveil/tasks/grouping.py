"""From task identifiers to rows grouped by task.

Two steps, each done once per data set: `factorize` turns any identifiers into codes 0..m-1 with sorted names,
`group_rows` turns codes into a stable row order and offsets. Rows that are already grouped are not moved.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.arguments import as_column

MIDNIGHT = re.compile(r"(?<=-\d\d)[ T]00:00:00(\.0+)?$")
CHUNK_ROWS = 1 << 12
"""Rows handled at once: temporaries stay in the cache, and no full-size one doubles the memory."""


def task_label(value: Any) -> str:
    """The name of a task: its identifier as text.

    Whole floats lose their '.0' so that 3, 3.0 and '3' are one task; a day is called 2024-01-31 as in a csv, whatever holds it.
    """
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]").item()
    if isinstance(value, datetime):
        return without_clock(str(value))
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, (float, np.floating)) and math.isfinite(value) and float(value).is_integer():
        return str(int(value))
    return str(value)


def without_clock(text: str) -> str:
    """A day without the midnight that tables write behind it."""
    return MIDNIGHT.sub("", text)


def folded(text: str) -> str:
    """A text without what tables write now one way, now another: capitals, and blanks around it."""
    return text.strip().casefold()


def factorize(ids: Any, *, what: str = "task") -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes (N,) and the sorted names they stand for; missing identifiers are refused.

    Numbers sort as numbers, text as text, so that the order of the tasks does not depend on the order of
    rows.
    """
    values = ids if hasattr(ids, "factorize") else as_column(ids, what)
    unique: Any
    if isinstance(values, np.ndarray) and values.dtype.kind in "biuUS":
        unique, codes = np.unique(values, return_inverse=True)
    elif isinstance(values, np.ndarray) and values.dtype.kind == "f":
        if not np.isfinite(values).all():
            raise _missing(what)
        unique, codes = np.unique(values, return_inverse=True)
    else:
        codes, unique = _factorize_objects(values, what)
    labels = [task_label(u) for u in unique]
    if any(isinstance(u, str) for u in unique) and all(_is_whole(label) for label in labels):
        codes, labels = _by_number(np.asarray(codes), labels)
    return _merge_equal_labels(np.asarray(codes), labels)


def rows_by_task(codes: np.ndarray, names: tuple[str, ...]) -> dict[str, int]:
    """How many of the rows `codes` (N,) every task has, without the tasks that have none."""
    counts = np.bincount(codes, minlength=len(names))
    return {names[i]: int(counts[i]) for i in np.flatnonzero(counts)}


def group_rows(codes: np.ndarray, n_groups: int) -> tuple[np.ndarray | None, np.ndarray]:
    """Stable order of the rows (None when they are grouped already) and offsets (n_groups + 1,)."""
    offsets = np.zeros(n_groups + 1, dtype=np.int64)
    np.cumsum(np.bincount(codes, minlength=n_groups), out=offsets[1:])
    if codes.size < 2 or bool((codes[1:] >= codes[:-1]).all()):
        return None, offsets
    small = codes.astype(np.int16) if n_groups <= np.iinfo(np.int16).max else codes  # 16 bits: radix sort
    return np.argsort(small, kind="stable"), offsets


def room_like(X: np.ndarray) -> np.ndarray:
    """An empty array of numbers of this shape: in memory, or where X is a file, in a file without a name.

    Rows that are read from a file may not fit into memory, and a scaled copy of them would not either.
    """
    dtype = X.dtype if X.dtype.kind == "f" else np.dtype(np.float64)
    if not _is_file(X):
        return np.empty(X.shape, dtype=dtype)
    with tempfile.TemporaryFile() as nameless:  # the mapping keeps it; it is gone with the last array
        return np.memmap(nameless, dtype, "w+", shape=X.shape)


def in_order(X: np.ndarray, order: np.ndarray) -> np.ndarray:
    """X[order], in a file where X is one."""
    if not _is_file(X):
        return X[order]
    out = room_like(X)
    for rows in row_chunks(len(order)):
        out[rows] = X[order[rows]]
    return out


def _is_file(X: Any) -> bool:
    while isinstance(X, np.ndarray) and not isinstance(X, np.memmap):
        X = X.base
    return isinstance(X, np.memmap)


def sums_by_group(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sum of the rows of each group, (N, ...) -> (m, ...), in float64; empty groups give zero."""
    sizes = np.diff(offsets)
    out = np.zeros((sizes.size, *values.shape[1:]), dtype=np.float64)
    filled = sizes > 0  # reduceat would give an empty group its neighbour's first row
    if filled.any():
        out[filled] = np.add.reduceat(values, offsets[:-1][filled], axis=0, dtype=np.float64)
    return out


def row_chunks(n_rows: int, rows: int = CHUNK_ROWS) -> Iterator[slice]:
    """Slices that cover 0..n_rows in pieces."""
    for start in range(0, n_rows, rows):
        yield slice(start, min(start + rows, n_rows))


def task_chunks(offsets: np.ndarray, rows: int = CHUNK_ROWS) -> Iterator[tuple[int, int]]:
    """Ranges of whole tasks (first, past the last) with at most about `rows` rows each."""
    m, first = offsets.size - 1, 0
    while first < m:
        last = int(np.searchsorted(offsets, offsets[first] + rows, side="right")) - 1
        last = min(max(last, first + 1), m)
        yield first, last
        first = last


def _factorize_objects(values: Any, what: str) -> tuple[np.ndarray, list[Any]]:
    import pandas as pd

    try:
        codes, unique = pd.factorize(values, use_na_sentinel=True)
    except TypeError:  # lists, tables: nothing that could be compared
        raise DataError(f"{what} identifiers must be numbers or text, one per row; got other objects.") from None
    if (codes < 0).any():
        raise _missing(what)
    distinct = list(unique)
    if any(isinstance(u, complex) or type(u).__repr__ is object.__repr__ for u in distinct):
        raise DataError(f"{what} identifiers must be numbers or text, one per row; got other objects.")
    numbers = all(isinstance(u, (int, float, np.integer, np.floating)) for u in distinct)
    order = sorted(range(len(distinct)), key=lambda i: distinct[i] if numbers else task_label(distinct[i]))
    rank = np.empty(len(distinct), dtype=np.int64)
    rank[order] = np.arange(len(distinct))
    return rank[codes], [distinct[i] for i in order]


def _is_whole(label: str) -> bool:
    """Whether a text is a whole number in its plain form: '12', '-3'; not '007'."""
    digits = label.removeprefix("-")
    return len(digits) < 1000 and digits.isascii() and digits.isdigit() and str(int(label)) == label


def _by_number(codes: np.ndarray, labels: list[str]) -> tuple[np.ndarray, list[str]]:
    """Whole numbers written as text sort as numbers, as they do in a table that was read as numbers."""
    order = sorted(range(len(labels)), key=lambda i: int(labels[i]))
    rank = np.empty(len(labels), dtype=np.int64)
    rank[order] = np.arange(len(labels))
    return rank[codes], [labels[i] for i in order]


def _merge_equal_labels(codes: np.ndarray, labels: list[str]) -> tuple[np.ndarray, tuple[str, ...]]:
    """Identifiers with the same text (3 and '3' in one object column) are one task."""
    names = tuple(dict.fromkeys(labels))
    if len(names) == len(labels):
        return codes.astype(np.int64, copy=False).reshape(-1), names
    place = {name: i for i, name in enumerate(names)}
    return np.asarray([place[label] for label in labels], dtype=np.int64)[codes], names


def _missing(what: str) -> DataError:
    return DataError(f"the {what} column has missing values; every row needs its {what}. Fill or drop those rows first.")
