"""Reading csv, tsv, parquet and npz files, with errors that name lines and columns but never values.

A csv file is UTF-8, or UTF-16 with its mark. Where its fields are not parted by commas, a comma inside a number is a decimal one.
csv files go through Arrow's reader where it is installed, else through Python's (plain_csv.py), with the same result. Only when
something is wrong is the file read a second time, line by line, to say where. Nothing is ever unpickled.
"""

from __future__ import annotations

import csv
import os
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import DataError, EnvironmentMissing
from taskveil.tasks.arguments import as_number, some
from taskveil.tasks.header import NOT_UTF8, Header, check_names, encoding_of, read_header
from taskveil.tasks.plain_csv import read_plain

if TYPE_CHECKING:
    import pandas as pd


PANDAS = {"split_blocks": True, "self_destruct": True}
ROW_NUMBERS = "__index_level_"  # what pandas calls an index without a name in a Parquet file
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq")  # file types that hold a table
MISSING_MARKS = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "?"]
COMMA_DECIMAL = r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?"
MOSTLY = 0.9  # a text column in which at least this share of the cells are numbers is a numeric column with bad cells
OTHER_WORDS = " Where true and false are not all there is, declare the column's levels, or the target's classes."
MANY_FAULTS, MOST_KINDS = 1000, 8  # so many are looked at, and so many kinds are told
FEW_CELLS = 3  # in a short file so few texts among more numbers are bad cells, whatever their share
TRUTH = dict.fromkeys(("true", "True", "TRUE", "1"), True) | dict.fromkeys(("false", "False", "FALSE", "0"), False)  # as in Arrow


@dataclass(frozen=True)
class FileTable:
    """A table read from a file, what had to be done to read it, and which rows of the file it holds (None: all)."""

    frame: pd.DataFrame
    notes: tuple[str, ...] = ()
    rows: np.ndarray | None = None
    left_out: pd.DataFrame | None = None  # rows with cells that cannot be read


def column_names(path: Path) -> list[str]:
    """The columns of a csv, tsv or parquet file, without reading its rows."""
    _check_file(path)
    if _is_parquet(path):
        return [name for name in _parquet_names(path) if not name.startswith(ROW_NUMBERS)]
    return read_header(path).used


def read_table(
    path: Path,
    *,
    bad_rows: str = "error",
    text_columns: Iterable[str] = (),
    id_columns: Iterable[str] = (),
    filled_columns: Iterable[str] = (),
    later_columns: Iterable[str] = (),
) -> FileTable:
    """A csv, tsv or parquet file as a DataFrame.

    `text_columns` are categorical however their cells look; `id_columns` keep the text of their cells as it stands ('007' is not
    7), so that no other row's cell decides how one is read; a csv row with an empty cell in one of the `filled_columns` is a bad
    row. Where bad rows are skipped, those of `later_columns` stay, with an empty cell, for the caller to leave out.
    """
    _check_file(path)
    if _is_parquet(path):
        return FileTable(_read_parquet(path))
    texts, ids = frozenset(text_columns), frozenset(id_columns)
    later = frozenset(later_columns) if bad_rows == "skip" else frozenset()
    filled = tuple(c for c in filled_columns if c not in later)
    return _Csv(path, read_header(path), bad_rows, texts, ids, filled, later).read()


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an npz file; object arrays (pickles) are refused."""
    _check_file(path)
    if not zipfile.is_zipfile(path):
        raise DataError(f"{path.name} is damaged, truncated or not an npz file; save it again with numpy.savez.")
    try:
        with np.load(path, allow_pickle=False) as z:
            return {name: z[name] for name in z.files}
    except ValueError as e:
        if "object arrays" in str(e).lower():
            raise DataError(f"{path.name} holds Python objects, which are never unpickled; save plain arrays.") from None
        raise DataError(f"{path.name} is damaged or truncated; copy or save it again.") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, SyntaxError, NotImplementedError):
        raise DataError(f"{path.name} is damaged or truncated; copy or save it again.") from None


def _check_file(path: Path) -> None:
    if _is_parts(path):
        return
    if os.path.isdir(path):
        raise DataError(f"{str(path)!r} is a folder without parquet files; give a csv, tsv, parquet or npz file.")
    if not os.path.isfile(path):  # a pipe could be read only once, and might never end
        raise DataError(f"there is no file {str(path)!r}, or it is a pipe or a device.")
    try:
        with path.open("rb") as f:
            empty = not f.read(1)
    except OSError as e:
        raise DataError(f"cannot read {str(path)!r}: {e.strerror or type(e).__name__}.") from None
    if empty:
        raise DataError(f"the file {str(path)!r} is empty; expected a header line and rows.")


def arrow(module: str = "pyarrow") -> Any:
    """A module of Arrow, or how to install it."""
    try:
        return import_module(module)
    except ImportError:
        raise EnvironmentMissing("parquet files need pyarrow; install it with: pip install 'taskveil[parquet]'") from None


def arrow_is_installed() -> bool:
    """Whether the extra `parquet` is there; nothing is imported to find out."""
    return find_spec("pyarrow") is not None


def holds_table(path: Path) -> bool:
    """Whether this is a table by its name: a file of a known type, or a folder of Parquet files (parts of a table)."""
    return path.suffix.lower() in TABLES or _is_parts(path)


def _is_parts(path: Path) -> bool:
    return os.path.isdir(path) and next(path.rglob("*.parquet"), None) is not None


def _is_parquet(path: Path) -> bool:
    return path.suffix.lower() in (".parquet", ".pq") or os.path.isdir(path)


def _read_parquet(path: Path) -> pd.DataFrame:
    """The table; what pandas wrote as the index is a column, as it is in a csv file, unless it has no name."""
    table = _parquet(path, arrow("pyarrow.parquet").read_table)
    check_names(table.column_names, path.name)
    frame = table.to_pandas(**PANDAS)
    named = [name for name in frame.index.names if name is not None]
    return frame.reset_index(level=named)[[n for n in table.column_names if n in named or n in frame]] if named else frame


def _parquet_names(path: Path) -> list[str]:
    folder = arrow("pyarrow.dataset")
    return _parquet(path, lambda p: folder.dataset(p, format="parquet", partitioning="hive").schema.names)


def _parquet(path: Path, read: Callable[[Path], Any]) -> Any:
    """What a function of Arrow reads of a file or a folder, with our error."""
    pa = arrow()
    try:
        return read(path)
    except (pa.ArrowException, OSError, ValueError):
        raise DataError(f"{path.name} is damaged, truncated or not a parquet file; write it again.") from None


@dataclass(frozen=True)
class _Csv:
    """One csv file: where it is, how its fields are parted, what its columns are called."""

    path: Path
    header: Header
    bad_rows: str
    text_columns: frozenset[str]
    id_columns: frozenset[str]
    filled_columns: tuple[str, ...] = ()
    later_columns: frozenset[str] = frozenset()

    def read(self) -> FileTable:
        """The table of one of two readers; both leave out rows with a wrong number of fields."""
        frame, skipped = self._through_arrow() if arrow_is_installed() else self._plainly()
        if len(frame) == 0 and skipped and self.bad_rows == "error":
            raise self._bad_rows_error({})
        if len(frame) == 0:
            raise DataError(f"{self.path.name} has a header line but no usable rows.")
        table = self._numbers(frame[self.header.used], skipped)
        return replace(table, notes=(*self.header.notes(self.path.name), *table.notes))

    def _plainly(self) -> tuple[pd.DataFrame, list[int]]:
        try:
            header, encoding = self.header, encoding_of(self.path)
            return read_plain(self.path, encoding, header.delimiter, header.names, self.id_columns, MISSING_MARKS)
        except UnicodeError:
            raise self._not_text() from None
        except csv.Error:
            raise DataError(f"{self.path.name} cannot be read as a table; check its quotes.") from None

    def _through_arrow(self) -> tuple[pd.DataFrame, list[int]]:
        """The fast way first. When Arrow gives up (a type that changes, a quoted line break) the patient way."""
        pa, reader = arrow(), arrow("pyarrow.csv")
        try:
            table, skipped = self._arrow_table(pa, reader, patient=False)
        except UnicodeError:
            raise self._not_text() from None
        except pa.ArrowInvalid as e:
            if "utf" in str(e).lower():
                raise self._not_text() from None
            try:
                table, skipped = self._arrow_table(pa, reader, patient=True)
            except pa.ArrowInvalid:
                raise self._bad_rows_error({}) from None
        return table.rename_columns(list(self.header.names)).to_pandas(**PANDAS), skipped

    def _not_text(self) -> DataError:
        return DataError(f"{self.path.name} {NOT_UTF8}.")

    def _arrow_table(self, arrow: Any, reader: Any, patient: bool) -> tuple[Any, list[int]]:
        """The table, and which rows of the file were left out because their number of fields is wrong."""
        table, skipped = self._arrow_once(arrow, reader, patient, threads=True)
        if skipped and self.bad_rows == "skip":  # only one thread knows the numbers of rows
            table, skipped = self._arrow_once(arrow, reader, patient, threads=False)
        return table, skipped

    def _arrow_once(self, arrow: Any, reader: Any, patient: bool, threads: bool) -> tuple[Any, list[int]]:
        skipped: list[int] = []

        def skip(row: Any) -> str:
            skipped.append((row.number or 0) - 2)  # counted from 1, with the header
            return "skip"

        names = zip(self.header.written, self.header.names, strict=True)
        parse = reader.ParseOptions(delimiter=self.header.delimiter, newlines_in_values=patient, invalid_row_handler=skip)
        types = {written: arrow.string() for written, name in names if patient or name in self.id_columns}
        convert = reader.ConvertOptions(null_values=MISSING_MARKS, strings_can_be_null=True, column_types=types)
        read = reader.ReadOptions(use_threads=threads, encoding=encoding_of(self.path).removesuffix("-sig"))
        return reader.read_csv(self.path, read_options=read, parse_options=parse, convert_options=convert), skipped

    def _numbers(self, frame: pd.DataFrame, skipped: list[int]) -> FileTable:
        """Text columns that are mostly numbers become numeric; their other cells make bad rows."""
        bad = np.zeros(len(frame), dtype=bool)
        numeric: dict[str, Any] = {}
        commas: list[str] = []
        reasons = {"with too few or too many fields": len(skipped)}
        for name in frame.columns:
            if name in self.text_columns | self.id_columns:
                continue
            column = frame[name]
            if self.header.delimiter != "," and (written := _decimal_points(column)) is not None:
                column, commas = written, [*commas, name]
            if (numbers := mostly_numbers(column)) is not None:
                numeric[name] = numbers[0]
                if name not in self.later_columns:
                    bad |= numbers[1]
                    reasons[f"with text in the numeric column {name!r}"] = int(numbers[1].sum())
        for name in self.filled_columns:
            empty = frame[name].isna().to_numpy()
            bad |= empty
            reasons[f"with nothing in {name!r}"] = int(empty.sum())
        if (bad.any() or skipped) and self.bad_rows == "error":
            raise self._bad_rows_error(numeric)
        frame = frame.assign(**numeric) if numeric else frame
        notes = (f"{self.path.name}: decimal commas were read in {', '.join(map(repr, commas))}",) if commas else ()
        if not (bad.any() or skipped):
            return FileTable(frame, notes)
        if bad.all():
            raise DataError(f"{self.path.name} has no row that can be read.")
        rows = np.delete(np.arange(len(frame) + len(skipped)), skipped)
        note = f"{self.path.name}: {skipped_rows(int(bad.sum()) + len(skipped), len(frame) + len(skipped), reasons)}"
        return FileTable(frame[~bad] if bad.any() else frame, (*notes, note), rows[~bad], frame[bad])

    def _bad_rows_error(self, numeric: Mapping[str, Any]) -> DataError:
        """Read line by line and name every kind of fault, each with its first lines."""
        faults: dict[str, list[int]] = {}
        with self.path.open(encoding=encoding_of(self.path), errors="replace", newline="") as f:
            reader = csv.reader(f, delimiter=self.header.delimiter)
            rows = (row for row in reader if row)
            next(rows)
            for row in rows:
                for fault in self._faults(row, numeric):
                    faults.setdefault(fault, []).append(reader.line_num)
                if sum(map(len, faults.values())) >= MANY_FAULTS:
                    break
        shown = "; ".join(f"{_lines(at)} {fault}" for fault, at in [*faults.items()][:MOST_KINDS])
        shown += "; and more" * (len(faults) > MOST_KINDS)
        return DataError(
            f"{self.path.name} has bad rows: {shown or 'it cannot be read as a table'}. "
            f"Correct them, or leave them out with bad_rows='skip' (--bad-rows skip).{OTHER_WORDS * ('true/false' in shown)}"
        )

    def _faults(self, row: list[str], numeric: Mapping[str, Any]) -> list[str]:
        if len(row) != len(self.header.names):
            return [f"{len(row)} field{'s' * (len(row) != 1)} instead of {len(self.header.names)}"]
        cells = dict(zip(self.header.names, row, strict=True))
        empty = [n for n in self.filled_columns if cells[n].strip() in MISSING_MARKS]
        kinds = {n: "true/false" if values.dtype == "boolean" else "numeric" for n, values in numeric.items()}
        texts = [n for n, kind in kinds.items() if not _is_number(cells[n], self.header.delimiter, kind == "true/false")]
        return [*(f"nothing in the column {n!r}" for n in empty), *(f"text in the {kinds[n]} column {n!r}" for n in texts)]


def _lines(at: list[int]) -> str:
    """Where a fault is: 'line 7 has', 'lines 7, 12, 15 and more have'."""
    if len(at) == 1:
        return f"line {at[0]} has"
    return f"lines {', '.join(map(str, at[:3]))}{' and more' * (len(at) > 3)} have"


def skipped_rows(lost: int, all_rows: int, reasons: Mapping[str, int]) -> str:
    """How many rows were left out, and how many for each reason."""
    why = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"{lost} of {all_rows} rows were left out: {why}"


def without_rows(names: Sequence[str], codes: np.ndarray) -> tuple[str, ...]:
    """A note on the tasks that none of the rows `codes` (N,) belongs to; none where every task has one."""
    empty = np.setdiff1d(np.arange(len(names)), codes)
    shown = some((names[i] for i in empty), 12)
    return (f"{empty.size} of {len(names)} task(s) have no usable row: {shown}",) if empty.size else ()


def mostly_numbers(column: pd.Series) -> tuple[pd.Series, np.ndarray] | None:
    """(numbers or truth values, which cells are neither) for a text column that is meant to hold them, else None."""
    import pandas as pd

    if not _is_text(column):
        return None
    present = column.notna().to_numpy()
    for values in (pd.to_numeric(column, errors="coerce"), column.map(TRUTH).astype("boolean")):
        text = present & values.isna().to_numpy()
        few = text.sum() <= max((1 - MOSTLY) * present.sum(), FEW_CELLS)
        if few and text.sum() < present.sum() / 2:
            return values, text
    return None


def _is_text(column: pd.Series) -> bool:
    import pandas as pd

    return pd.api.types.is_string_dtype(column) or column.dtype == object


def _decimal_points(column: pd.Series) -> pd.Series | None:
    """A text column of numbers with decimal commas, with points instead; None for any other column.

    Three digits after every comma may be thousands: such a column stays text, which is refused later.
    """
    if not _is_text(column):
        return None
    cells = column.astype("string").str.strip()
    written = cells.str.fullmatch(COMMA_DECIMAL).fillna(False)
    if not written.any() or cells[written].str.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}").all() or cells.str.contains(r"\d\.\d").any():
        return None
    points = cells.where(~written, cells.str.replace(",", ".", regex=False))
    return points if mostly_numbers(points) is not None else None


def _is_number(cell: str, delimiter: str, truth: bool = False) -> bool:
    if truth:
        return cell in TRUTH or cell.strip() in MISSING_MARKS
    commas = delimiter != "," and re.fullmatch(COMMA_DECIMAL, cell.strip())
    return bool(cell.strip() in MISSING_MARKS or commas or as_number(cell) is not None)
