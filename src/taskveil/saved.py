"""Files of ours, read whatever is in them: a damaged one is a DataError in one line, never a raw exception; and written whole.

`total` is the last line of defence around code that builds objects out of a file's content; tables of rules (checks.py) come
first, so that a wrong value is named and not merely survived.
"""

from __future__ import annotations

import os
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.checks import parse_json
from taskveil.errors import DataError, EnvironmentMissing, InputError

MOST_BYTES = 200_000_000  # of a JSON document
MOST_TOML = 10_000_000  # of a file that people write
MOST_DOTS = 1000  # of a name in it: reading one takes the square of its parts
MOST_ARRAY_BYTES = 64 * 2**30  # of all arrays of one file, unpacked


def read_bytes(path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a file that must be there; never of a pipe, which may never end."""
    if not os.path.exists(path):
        raise DataError(f"{path} is missing")
    if not os.path.isfile(path):
        raise DataError(f"{path} is no file, but a folder, a pipe or a device")
    try:
        if path.stat().st_size > most:
            raise DataError(f"{path} is too large for a file of taskveil (at most {most} bytes); it is damaged or not ours")
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}") from None


def read_json(path: Path) -> Any:
    """The JSON document of a file that must be there."""
    return parse_json(read_bytes(path), str(path), DataError)


def read_table(path: Path) -> Any:
    """The content of a .toml file, or of a JSON document."""
    return read_toml(path) if path.suffix.lower() == ".toml" else read_json(path)


def read_toml(path: Path) -> dict[str, Any]:
    """The content of a TOML file that must be there."""
    content = read_bytes(path, MOST_TOML)
    if max(line.partition(b"=")[0].count(b".") for line in content.split(b"\n")) > MOST_DOTS:
        raise DataError(f"{path} is not usable: it has a name of more than {MOST_DOTS} parts")
    try:
        return tomllib.loads(content.decode())
    except RecursionError:
        raise DataError(f"{path} is not usable: it is nested too deeply") from None
    except ValueError as problem:  # no TOML, no UTF-8, or a number of thousands of digits
        raise DataError(f"{path} is not valid TOML: {problem}") from None


def shipped(name: str) -> str:
    """The text of a file that comes with this package: a template, a style sheet, a script."""
    return (files("taskveil") / name).read_text(encoding="utf-8")


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an npz: numbers, truth values and text; nothing that would need pickle."""
    if not os.path.isfile(path):
        raise DataError(f"{path} is missing, or no file")
    with total(str(path)):
        with zipfile.ZipFile(path) as packed:
            if sum(entry.file_size for entry in packed.infolist()) > MOST_ARRAY_BYTES:
                raise DataError(f"{path} is too large for a file of taskveil; it is damaged or not ours")
        with np.load(path, allow_pickle=False) as stored:
            return {name: stored[name] for name in stored.files}


def read_described(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The plain values that stand beside the arrays of an npz, as JSON under the name 'about', and those arrays."""
    arrays = read_arrays(path)
    about = parse_json(str(arrays.pop("about", "")), f"what {path} says about its arrays", DataError)
    if not isinstance(about, dict):
        raise DataError(f"{path} is damaged: a table is expected under 'about'")
    return about, arrays


def under(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin so, without that beginning."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


@contextmanager
def total(what: str) -> Iterator[None]:
    """Turns whatever goes wrong while a file is read into one line that names the file and no value of it."""
    try:
        yield
    except (DataError, EnvironmentMissing):
        raise
    except InputError as problem:
        raise DataError(f"{what} is damaged: {' '.join(str(problem).split())}") from None
    except Exception as problem:
        kind = type(problem).__name__
        raise DataError(f"{what} is damaged or incomplete and cannot be read ({kind}); write it again") from None


def write_file(path: Path, content: bytes) -> None:
    """Write beside, then rename: a reader or a crash never sees half a file."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
