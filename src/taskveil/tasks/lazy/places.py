"""Addresses fsspec knows: how they are reached, listed and shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from taskveil.errors import DataError, EnvironmentMissing, OptionError, TaskveilError


def file_system(place: str) -> tuple[Any, str]:
    """The file system of a place, and the path there."""
    with reached(place):
        fs, path = fsspec().core.url_to_fs(place)
        return fs, path


@contextmanager
def reached(place: str) -> Iterator[None]:
    """What goes wrong on the way to a place, in one line. Of what stores say only the kind: they quote addresses, hence keys."""
    try:
        yield
    except TaskveilError:
        raise
    except PermissionError:
        raise DataError(f"{without_secrets(place)!r} may not be read by this account; ask for the right to, or copy it") from None
    except Exception as error:
        told = str(error) if isinstance(error, (ImportError, ValueError)) else type(error).__name__
        raise EnvironmentMissing(f"cannot reach {without_secrets(place)!r}: {told.replace(place, 'it')}") from None


def parquet_files(source: str) -> list[str]:
    """All Parquet files of a folder or a pattern, as addresses. Names that begin with . or _ are what writers left beside."""
    if not source:
        raise OptionError("lazy=True reads Parquet files: give a folder, a pattern like 'folder/*.parquet', or a file")
    fs, path = file_system(source)
    with reached(source):
        if fs.isdir(path):
            found = [name for name in _folder(fs, path, source) if name.endswith(".parquet")]
        elif fs.exists(path):
            return [fs.unstrip_protocol(path)]
        else:
            matched = fs.glob(path, detail=True) if any(c in path for c in "*?[") else {}
            found = [name for name, about in matched.items() if about["type"] != "directory" and not _aside(name)]
        if not found:
            shown = without_secrets(source)
            raise DataError(f"there is no Parquet file {shown!r}; give a folder, a pattern like 'folder/*.parquet', or a file")
        return [fs.unstrip_protocol(name) for name in sorted(found)]


def _folder(fs: Any, path: str, source: str) -> list[str]:
    """The files that stand in a folder itself; refused where there are tables further down, which nobody would miss."""
    entries = {about["name"].rstrip("/"): about["type"] for about in fs.ls(path, detail=True)}
    here = {name: kind for name, kind in entries.items() if not _aside(name) and name != path.rstrip("/")}
    for name in sorted(name for name, kind in here.items() if kind == "directory"):
        if any(deeper.endswith(".parquet") for deeper in fs.find(name)):
            raise DataError(
                f"{without_secrets(source)!r} holds Parquet files in folders of its own ({name.rsplit('/', 1)[-1]}), whose names "
                "may stand for columns; name files of one depth by a pattern ('folder/*/*.parquet'), or write them into one"
            )
    return [name for name, kind in here.items() if kind != "directory"]


def _aside(name: str) -> bool:
    return name.rstrip("/").rsplit("/", 1)[-1].startswith((".", "_"))


def everywhere(place: str) -> str:
    """The same place from whatever folder a process works in, that of a worker too."""
    return place if "://" in place else os.path.abspath(place)


def last_name(url: str) -> str:
    """The name of a file at an address, to be shown."""
    return without_secrets(url).rsplit("/", 1)[-1]


def without_secrets(url: str) -> str:
    """An address as it may be shown: without what follows its question mark, and without a name and password before its host."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        return url
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rsplit('@', 1)[-1]}{slash}{path.partition('?')[0]}"


def fsspec() -> Any:
    """The package, or how to install it."""
    try:
        import fsspec as package
    except ImportError:
        raise EnvironmentMissing("lazy tables and addresses need the extra 'dask': pip install 'taskveil[dask]'") from None
    return package
