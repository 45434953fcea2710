"""Built-in data sets by name: where their files lie and whether they are the right ones.

A name is looked up as $TASKVEIL_DATA/<name>/<name>.npz, then in the user's cache. No data comes with the
package.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from taskveil.errors import DataError, EnvironmentMissing
from taskveil.tasks.catalogue import DATASETS
from taskveil.tasks.files import read_npz
from taskveil.tasks.task import TaskSet

__all__ = ["cache_folder", "describe", "find", "load_dataset", "names", "places"]

DATA_VARIABLE = "TASKVEIL_DATA"


def names() -> list[str]:
    """The public data sets that can be fetched by name."""
    return DATASETS.names()


def cache_folder() -> Path:
    """$XDG_CACHE_HOME/taskveil or ~/.cache/taskveil."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "taskveil"


def places(name: str) -> list[Path]:
    """Where the file of a data set may lie, in the order they are tried."""
    roots = [Path(os.environ[DATA_VARIABLE])] if os.environ.get(DATA_VARIABLE) else []
    return [root / name / f"{name}.npz" for root in (*roots, cache_folder())]


def find(name: str) -> Path:
    """The file of a data set, or an error that says where it was looked for."""
    DATASETS.get(name)
    for path in places(name):
        if path.is_file():
            return path
    tried = " and ".join(str(p.parent) for p in places(name))
    raise EnvironmentMissing(
        f"the data set {name!r} is not on this machine (looked in {tried}). "
        f"Set {DATA_VARIABLE} to a folder that holds {name}/{name}.npz, or run: taskveil data fetch {name}"
    )


def load_dataset(name: str) -> TaskSet:
    """The tasks of a built-in data set, with its declared bounds (values outside are clipped)."""
    entry = DATASETS.get(name)
    path = find(name)
    try:
        tasks = entry.read(read_npz(path))
    except KeyError as e:
        raise DataError(f"{path} lacks the array {e.args[0]!r}; fetch the data set again.") from None
    return tasks.with_notes(*entry.notes)


def describe(name: str) -> dict[str, Any]:
    """What a data set is, for `taskveil data list`; says where the file lies, or None."""
    e = DATASETS.get(name)
    path = next((str(p) for p in places(name) if p.is_file()), None)
    facts = {k: getattr(e, k) for k in ("name", "title", "task", "target", "kind", "citation", "licence", "publisher", "sha256")}
    return {**facts, "bounds": e.bounds_said, "notes": list(e.notes), "path": path}
