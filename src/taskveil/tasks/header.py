"""The first line of a csv file: how its fields are parted, and what its columns are called.

Blanks around a name do not count. A first column without a name holds the row numbers that pandas and R write, a last one is what
a delimiter at the end of every line leaves: neither is a feature.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from taskveil.errors import DataError

NOT_UTF8 = (
    "is not UTF-8 text; save it as UTF-8 (in Excel: 'CSV UTF-8'; elsewhere: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW), or give "
    "pandas.read_csv(..., encoding=...) to load_tasks"
)


@dataclass(frozen=True)
class Header:
    """The columns as they are written, the names they go by, and which of these stand for a column without a name."""

    delimiter: str
    written: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Each column by its name; one without a name by where it stands."""
        return tuple(name.strip() or self._place(j) for j, name in enumerate(self.written))

    @property
    def unnamed(self) -> dict[str, str]:
        """Columns that are left out, and where each stands: first or last."""
        ends = {0: "first", len(self.written) - 1: "last"} if len(self.written) > 1 else {}
        return {self._place(j): end for j, end in ends.items() if not self.written[j].strip()}

    @property
    def used(self) -> list[str]:
        """The columns that are read."""
        return [name for name in self.names if name not in self.unnamed]

    def notes(self, file: str) -> tuple[str, ...]:
        """What was left out."""
        return tuple(f"{file}: the {end} column has no name and was left out" for end in self.unnamed.values())

    def _place(self, j: int) -> str:
        return f"\0{j}" if len(self.written) > 1 and j in (0, len(self.written) - 1) else ""


def read_header(path: Path) -> Header:
    """Delimiter and column names from the first line that is not blank."""
    try:
        with path.open(encoding=encoding_of(path), newline="") as f:
            line = next((text for text in f if text.strip()), "")
    except UnicodeError:
        raise DataError(f"{path.name} {NOT_UTF8}, or check that it is a csv file.") from None
    if not line.strip():
        raise DataError(f"the file {path.name!r} is empty; expected a header line and rows.")
    if "\x00" in line:
        raise DataError(f"{path.name} is not a text file; expected csv.")
    delimiter = max(",;\t|", key=line.count) if path.suffix.lower() != ".tsv" else "\t"
    header = Header(delimiter, tuple(next(csv.reader([line], delimiter=delimiter))))
    check_names(header.names, path.name)
    return header


def check_names(names: Sequence[str], file: str) -> None:
    """Refuse columns without a name, and two of one name."""
    if any(not name.strip() for name in names):
        remedy = "its first line must name every column: remove titles above it, and empty columns"
        raise DataError(f"{file} has a column without a name; {remedy}.")
    twice = next((name for j, name in enumerate(names) if name in names[:j]), None)
    if twice is not None:
        raise DataError(f"{file} has two columns called {twice!r}; column names must be unique. Rename one of them.")


def encoding_of(path: Path) -> str:
    """UTF-16 where the file has its mark, else UTF-8, with a mark or without."""
    with path.open("rb") as f:
        return "utf-16" if f.read(2) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
