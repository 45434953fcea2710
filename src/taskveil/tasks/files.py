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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import DataError, EnvironmentMissing, OptionError
from taskveil.tasks.plain_csv import read_plain

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "BAD_ROWS",
    "TABLES",
    "FileTable",
    "arrow",
    "check_bad_rows",
    "column_names",
    "mostly_numbers",
    "read_npz",
    "read_table",
    "skipped_rows",
    "without_rows",
]

PANDAS = {"split_blocks": True, "self_destruct": True}
BAD_ROWS = ("error", "skip")
TABLES = (".csv", ".tsv", ".txt", ".parquet", ".pq")  # file types that hold a table
MISSING_MARKS = ["", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "NULL", "null", "None", "?"]
NOT_UTF8 = (
    "is not UTF-8 text; save it as UTF-8 (in Excel: 'CSV UTF-8'; elsewhere: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW), or give "
    "pandas.read_csv(..., encoding=...) to load_tasks"
)
COMMA_DECIMAL = r"[+-]?\d+,\d+(?:[eE][+-]?\d+)?"
MOSTLY = 0.9  # a text column in which at least this share of the cells are numbers is a numeric column with bad cells
OTHER_WORDS = " Where true and false are not all there is, declare the column's levels, or the target's classes."
FEW_CELLS = 3  # in a short file so few texts among more numbers are bad cells, whatever their share
TRUTH = dict.fromkeys(("true", "True", "TRUE", "1"), True) | dict.fromkeys(("false", "False", "FALSE", "0"), False)  # as in Arrow


@dataclass(frozen=True)
class FileTable:
    """A table read from a file, what had to be done to read it, and which rows of the file it holds (None: all)."""

    frame: pd.DataFrame
    notes: tuple[str, ...] = ()
    rows: np.ndarray | None = None
    left_out: pd.DataFrame | None = None  # rows with cells that cannot be read


def check_bad_rows(chosen: str) -> None:
    """Refuse a treatment of bad rows that does not exist."""
    if chosen not in BAD_ROWS:
        raise OptionError(f"bad_rows must be one of {', '.join(BAD_ROWS)}; got {chosen!r}.")


def column_names(path: Path) -> list[str]:
    """The columns of a csv, tsv or parquet file, without reading its rows."""
    _check_file(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        return _parquet(path, "read_schema").names
    names = _header(path)[1]
    _check_header(names, path.name)
    return names[1:] if _numbered(names) else names


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
    check_bad_rows(bad_rows)
    _check_file(path)
    if path.suffix.lower() in (".parquet", ".pq"):
        return FileTable(_read_parquet(path))
    delimiter, header = _header(path)
    _check_header(header, path.name)
    texts, ids = frozenset(text_columns), frozenset(id_columns)
    later = frozenset(later_columns) if bad_rows == "skip" else frozenset()
    return _Csv(path, delimiter, header, bad_rows, texts, ids, tuple(c for c in filled_columns if c not in later), later).read()


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
    if os.path.isdir(path):
        raise DataError(f"{str(path)!r} is a folder; give a csv, tsv, parquet or npz file.")
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


def _read_parquet(path: Path) -> pd.DataFrame:
    table = _parquet(path, "read_table")
    _check_header(table.column_names, path.name)
    return table.to_pandas(**PANDAS)


def _parquet(path: Path, what: str) -> Any:
    """`read_schema` or `read_table` of Arrow, with our error."""
    pa, pq = arrow(), arrow("pyarrow.parquet")
    try:
        return getattr(pq, what)(path)
    except (pa.ArrowException, OSError, ValueError):
        raise DataError(f"{path.name} is damaged, truncated or not a parquet file; write it again.") from None


@dataclass(frozen=True)
class _Csv:
    """One csv file: where it is, how its fields are parted, what its columns are called."""

    path: Path
    delimiter: str
    header: list[str]
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
        if not _numbered(self.header):
            return self._numbers(frame, skipped)
        table = self._numbers(frame.drop(columns=self.header[0]), skipped)
        return replace(table, notes=(f"{self.path.name}: the first column has no name and was left out", *table.notes))

    def _plainly(self) -> tuple[pd.DataFrame, list[int]]:
        try:
            return read_plain(self.path, _encoding(self.path), self.delimiter, self.header, self.id_columns, MISSING_MARKS)
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
        return table.to_pandas(**PANDAS), skipped

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

        parse = reader.ParseOptions(delimiter=self.delimiter, newlines_in_values=patient, invalid_row_handler=skip)
        texts = self.header if patient else [n for n in self.header if n in self.id_columns]
        types = {name: arrow.string() for name in texts}
        convert = reader.ConvertOptions(null_values=MISSING_MARKS, strings_can_be_null=True, column_types=types)
        read = reader.ReadOptions(use_threads=threads, encoding=_encoding(self.path).removesuffix("-sig"))
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
            if self.delimiter != "," and (written := _decimal_points(column)) is not None:
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
        """Read line by line and name up to five bad lines and what is wrong with them."""
        faults: list[str] = []
        with self.path.open(encoding=_encoding(self.path), errors="replace", newline="") as f:
            reader = csv.reader(f, delimiter=self.delimiter)
            rows = (row for row in reader if row)
            next(rows)
            for row in rows:
                faults += self._faults(row, reader.line_num, numeric)
                if len(faults) > 5:
                    break
        shown = "; ".join(faults[:5]) + ("; and more" if len(faults) > 5 else "")
        return DataError(
            f"{self.path.name} has bad rows: {shown or 'it cannot be read as a table'}. "
            f"Correct them, or leave them out with bad_rows='skip' (--bad-rows skip).{OTHER_WORDS * ('true/false' in shown)}"
        )

    def _faults(self, row: list[str], line: int, numeric: Mapping[str, Any]) -> list[str]:
        if len(row) != len(self.header):
            return [f"line {line} has {len(row)} fields instead of {len(self.header)}"]
        cells = dict(zip(self.header, row, strict=True))
        empty = [n for n in self.filled_columns if cells[n].strip() in MISSING_MARKS]
        kinds = {n: "true/false" if values.dtype == "boolean" else "numeric" for n, values in numeric.items()}
        texts = [n for n, kind in kinds.items() if not _is_number(cells[n], self.delimiter, kind == "true/false")]
        return [
            *(f"line {line} has nothing in the column {n!r}" for n in empty),
            *(f"line {line} has text in the {kinds[n]} column {n!r}" for n in texts),
        ]


def skipped_rows(lost: int, all_rows: int, reasons: Mapping[str, int]) -> str:
    """How many rows were left out, and how many for each reason."""
    why = ", ".join(f"{count} {reason}" for reason, count in reasons.items() if count)
    return f"{lost} of {all_rows} rows were left out: {why}"


def without_rows(names: Sequence[str], codes: np.ndarray) -> tuple[str, ...]:
    """A note on the tasks that none of the rows `codes` (N,) belongs to; none where every task has one."""
    empty = np.setdiff1d(np.arange(len(names)), codes)
    shown = ", ".join(names[i] for i in empty[:12]) + (f" and {empty.size - 12} more" if empty.size > 12 else "")
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


def _encoding(path: Path) -> str:
    with path.open("rb") as f:
        return "utf-16" if f.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _header(path: Path) -> tuple[str, list[str]]:
    """Delimiter and column names from the first line that is not blank."""
    try:
        with path.open(encoding=_encoding(path), newline="") as f:
            line = next((text for text in f if text.strip()), "")
    except UnicodeError:
        raise DataError(f"{path.name} {NOT_UTF8}, or check that it is a csv file.") from None
    if not line.strip():
        raise DataError(f"the file {path.name!r} is empty; expected a header line and rows.")
    if "\x00" in line:
        raise DataError(f"{path.name} is not a text file; expected csv.")
    delimiter = max(",;\t|", key=line.count) if path.suffix.lower() != ".tsv" else "\t"
    return delimiter, next(csv.reader([line], delimiter=delimiter))


def _check_header(names: Sequence[str], file: str) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise DataError(f"{file} has two columns called {name!r}; column names must be unique. Rename one of them.")
        seen.add(name)
    if any(not str(n).strip() for n in names[1:]):
        raise DataError(f"{file} has a column without a name; give every column a name in the header line.")


def _numbered(names: Sequence[str]) -> bool:
    """Whether the first column has no name: the row numbers that pandas and R write, which are no feature."""
    return len(names) > 1 and not names[0].strip()


def _is_number(cell: str, delimiter: str, truth: bool = False) -> bool:
    if truth:
        return cell in TRUTH or cell.strip() in MISSING_MARKS
    if cell.strip() in MISSING_MARKS or (delimiter != "," and re.fullmatch(COMMA_DECIMAL, cell.strip())):
        return True
    try:
        float(cell)
    except ValueError:
        return False
    return True
