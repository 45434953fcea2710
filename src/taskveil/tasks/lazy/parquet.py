"""Parquet files, wherever fsspec reaches, as lazy tasks: only footers and the column of tasks are read here.

A folder stands for all its .parquet files, in the order of their names; a pattern for those it matches. All files must have the
same columns of the same types. A damaged file is refused by name before anything is charged; so is one without rows, which
usually was not written to its end.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from taskveil.errors import DataError, OptionError
from taskveil.tasks.grouping import factorize
from taskveil.tasks.lazy.places import fsspec, last_name, parquet_files
from taskveil.tasks.lazy.tasks import LazyTasks, Shell, without_rows
from taskveil.tasks.prepare.labels import as_target, make_binary, target_values
from taskveil.tasks.table import Layout, check_columns, plain, tasks_from_frame


@dataclass(frozen=True, eq=False)
class RowGroup:
    """One row group of a Parquet file."""

    url: str
    number: int
    tasks: np.ndarray
    mark: str

    def read(self, layout: Layout) -> Any:
        """Its rows as a pyarrow table, with the columns the layout needs."""
        with _opened(self.url) as file:
            if _mark(file, self.number) != self.mark:
                raise DataError(f"{last_name(self.url)} is not the file it was when the tasks were loaded; load them again")
            return _read(file, self.number, self.url, _needed(file.schema_arrow.names, layout))


def lazy_from_parquet(source: str, layout: Layout, positive: Any = None, n_partitions: int | None = None) -> LazyTasks:
    """The tasks of a folder, a pattern or a file of Parquet."""
    if layout.targets is not None or layout.carried:
        raise OptionError(
            "lazy=True reads one target and no person, event, exposure or group columns; load such a table into memory"
        )
    urls = parquet_files(source)
    schema = _same_schema(urls)
    check_columns(schema.names, layout)
    (task,), (target,) = layout.task_columns(schema.names), layout.target_columns(schema.names)
    others = tuple(n for n in schema.names if n not in (task, target, *layout.leave_out))
    layout = replace(layout, task=task, target=target, features=layout.features or others or None, leave_out=())
    shell = _shell(schema, layout, target)
    labels: set[Any] | None = None
    if shell.kind == "classification" and (layout.bounds is None or layout.bounds.classes is None):
        labels = set()
    groups = list(_scanned(urls, task, target, labels))
    ids = np.concatenate([ids for *_, ids, _ in groups])
    codes, names = factorize(ids, what="task")
    pieces, sizes, start = [], np.zeros(len(names), dtype=np.int64), 0
    for url, number, mark, own, counts in groups:
        at = codes[start : start + len(own)]
        start += len(own)
        np.add.at(sizes, at, counts)
        pieces.append(RowGroup(url, number, np.unique(at), mark))
    shell = replace(shell, task_names=names, offsets=np.zeros(len(names) + 1, dtype=np.int64), counts=sizes)
    if labels is not None:
        target_labels = as_target(np.asarray(sorted(labels)), "classification")
        shell = replace(shell, classes=np.unique(target_labels), y=target_labels[:0])
    classes = shell.classes
    if positive is not None:
        shell = make_binary(shell, positive)  # type: ignore[assignment]
    whole = LazyTasks(shell, layout, tuple(pieces), np.asarray([0, len(names)]), positive, classes)
    return whole.partitioned(n_partitions)


def _shell(schema: Any, layout: Layout, target: str) -> Shell:
    """What follows from columns, types and declarations: the preparation of one made-up row of these types."""
    import pyarrow as pa

    bounds = layout.bounds
    declared = {} if bounds is None else {name: levels[0] for name, levels in bounds.levels.items()}
    made_up = {name: _made_up(schema.field(name).type, declared.get(name)) for name in _needed(schema.names, layout)}
    if bounds is not None and bounds.classes is not None:
        made_up[target] = pa.array([bounds.classes[0]])  # keeps the type of its label
    return without_rows(tasks_from_frame(pa.table(made_up).to_pandas(), layout))


def _made_up(type_: Any, declared: Any) -> Any:
    """One value that such a column may hold: the declared one, or the first plain one that fits."""
    import pyarrow as pa

    plain_values: tuple[Any, ...] = (declared, 0, False, "a", b"a", [], {})
    for value in plain_values:
        try:
            if value is not None:
                return pa.array([value], type_)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            continue
    return pa.nulls(1, type_)


def _needed(have: list[str], layout: Layout) -> list[str]:
    """The columns that are read at all."""
    used = {layout.task, layout.target, *(layout.features or ())}
    return [n for n in have if n in used]


def _scanned(
    urls: list[str], task: str, target: str, labels: set[Any] | None
) -> Iterator[tuple[str, int, str, np.ndarray, np.ndarray]]:
    """(file, row group, mark, its tasks, rows of each), reading the column of tasks; and of labels that are not declared."""
    for url in urls:
        with _opened(url) as file:
            for number in range(file.metadata.num_row_groups):
                if file.metadata.row_group(number).num_rows == 0:
                    continue
                frame = _read(file, number, url, [task] if labels is None else [task, target]).to_pandas()
                if frame[task].isna().any():
                    raise DataError(f"the task column {task!r} has missing values; every row needs its task. Fill them first.")
                counted = frame[task].value_counts(sort=False)
                counted = counted[counted > 0]  # a column of categories may have some without rows
                if labels is not None:
                    labels |= set(np.unique(target_values(frame[target].dropna(), target, "classification")).tolist())
                yield url, number, _mark(file, number), plain(counted.index.to_series()), counted.to_numpy()


def _same_schema(urls: list[str]) -> Any:
    """The columns of all files, which must agree."""
    first = None
    for url in urls:
        with _opened(url) as file:
            schema, rows = _one_text(file.schema_arrow.remove_metadata()), file.metadata.num_rows
        if rows == 0:
            raise DataError(f"{last_name(url)} holds no rows; was it written to its end? Write it again, or take it away")
        if first is None:
            first = schema
        elif schema.names != first.names:
            odd = sorted(set(schema.names) ^ set(first.names)) or ["the same columns in another order"]
            raise DataError(
                f"{last_name(url)} has other columns than {last_name(urls[0])} ({odd[0]}); all files need the same columns"
            )
        elif schema.types != first.types:
            odd = next(n for n in first.names if schema.field(n).type != first.field(n).type)
            here, there = last_name(url), last_name(urls[0])
            raise DataError(f"the column {odd!r} has another type in {here} than in {there}; write it alike in all files")
    return first


@contextmanager
def _opened(url: str) -> Iterator[Any]:
    """A Parquet file by its address, with our errors."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        stored = fsspec().open(url, "rb").open()
        file = pq.ParquetFile(stored)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"{last_name(url)} {_unread(error)}") from None
    with stored:
        yield file


def _unread(error: Exception) -> str:
    """Why a file could not be read: it cannot be reached, or what it holds is no table."""
    if isinstance(error, FileNotFoundError):
        return "is not there (any more), or not where a worker looks: all machines need it by the same address"
    if isinstance(error, OSError) and error.errno:
        return f"cannot be read: {error.strerror}"
    return "is damaged, truncated or not a Parquet file; write it again"


def _read(file: Any, number: int, url: str, columns: list[str]) -> Any:
    import pyarrow as pa

    try:
        rows = file.read_row_group(number, columns=columns, use_threads=False)
        return rows.cast(_one_text(rows.schema))
    except (pa.ArrowException, OSError, ValueError):
        raise DataError(f"row group {number} of {last_name(url)} is damaged; write the file again") from None


def _one_text(schema: Any) -> Any:
    """The schema with one type for all texts: writers differ in how long they may be, and some types know few operations."""
    import pyarrow as pa

    texts = (pa.string(), pa.string_view())
    return pa.schema([f.with_type(pa.large_string()) if f.type in texts else f for f in schema], schema.metadata)


def _mark(file: Any, number: int) -> str:
    """By what a row group is known again: a digest of its entry in the footer (places, sizes, statistics of all columns)."""
    return hashlib.sha256(repr(file.metadata.row_group(number).to_dict()).encode()).hexdigest()
