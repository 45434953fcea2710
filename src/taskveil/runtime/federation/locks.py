"""One server or site per folder: a lock that the kernel drops when the process ends, however it ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from taskveil.errors import EnvironmentMissing


@contextmanager
def only_one(folder: Path, what: str) -> Iterator[None]:
    """Hold the folder's lock, or refuse at once."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EnvironmentMissing(f"{what} is already running in {folder}; stop it first") from None
        yield
