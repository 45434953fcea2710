"""The built-in data sets: their public bounds, and how their arrays become tasks. What and whose they are: catalogue.toml.

Bounds are declared from what the columns mean (percentages, dummies, pixels, plausible clinical ranges), not
from the rows.

A name is looked up as $TASKVEIL_DATA/<name>/<name>.npz, then in the user's cache. No data comes with the
package.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import DataError, EnvironmentMissing
from taskveil.registry import Table
from taskveil.saved import shipped
from taskveil.tasks.files import read_npz
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.task import TaskSet

Arrays = Mapping[str, np.ndarray]
DATA_VARIABLE = "TASKVEIL_DATA"


@dataclass(frozen=True)
class Dataset:
    """One built-in data set. `read` turns the arrays of its file into tasks."""

    name: str
    title: str
    task: str
    target: str
    kind: str
    sha256: str
    citation: str
    licence: str
    publisher: str
    bounds_said: str
    read: Callable[[Dataset, Arrays], TaskSet]
    urls: Mapping[str, str]  # file of the original: address
    digest: str | None = None  # of the arrays that must come of it; None: the converter compares published counts
    notes: tuple[str, ...] = ()


def _tasks(entry: Dataset, z: Arrays, bounds: PublicBounds, y: np.ndarray | None = None, **options: Any) -> TaskSet:
    """Common part: X, y, task, task_names, feature_names as in every prepared file."""
    X, y, options = z["X"], z["y"] if y is None else y, {"kind": entry.kind, "target_name": entry.target, **options}
    task, task_names = z["task"], [str(n) for n in z["task_names"]]
    feature_names = [str(n) for n in z["feature_names"]] if "feature_names" in z else None
    X = X.astype(np.float32) if X.dtype == np.uint8 else X
    X = bounds.clip_features(X, feature_names or [f"x{j}" for j in range(X.shape[1])])
    return TaskSet.from_arrays(X, y, task, task_names=task_names, feature_names=feature_names, bounds=bounds, **options)


def _read_school(entry: Dataset, z: Arrays) -> TaskSet:
    features = {str(n): (0.0, 100.0) if str(n).startswith("pct_") else (0.0, 1.0) for n in z["feature_names"]}
    return _tasks(entry, z, PublicBounds(features, target=(0.0, 70.0)))


def _read_har(entry: Dataset, z: Arrays) -> TaskSet:
    activities = np.asarray([str(a) for a in z["activity_names"]])
    # `run` counts within one activity of one subject; the activity makes it unique within the subject
    run = z["y"].astype(np.int64) * 100 + z["run"]
    bounds = PublicBounds(features={"*": (-1.0, 1.0)}, classes=tuple(activities.tolist()))
    return _tasks(entry, z, bounds, y=activities[z["y"]], classes=activities, groups={"run": run, "seq": z["seq"]})


def _read_femnist(entry: Dataset, z: Arrays) -> TaskSet:
    labels = np.asarray([str(c) for c in z["class_names"]])
    bounds = PublicBounds(features={"*": (0.0, 255.0)}, classes=tuple(labels.tolist()))
    return _tasks(entry, z, bounds, y=labels[z["y"]], classes=labels)


def _read_mnist_writers(entry: Dataset, z: Arrays) -> TaskSet:
    bounds = PublicBounds(features={"*": (0.0, 255.0)}, classes=tuple(range(10)))
    series = z["writer_hsf"][z["task"]]
    return _tasks(entry, z, bounds, y=z["y"].astype(np.int64), classes=np.arange(10), groups={"series": series})


HEART_RANGES: dict[str, tuple[float, float]] = {
    "age": (18, 100), "sex": (0, 1), "cp": (1, 4), "trestbps": (80, 220), "chol": (80, 600), "fbs": (0, 1), "restecg": (0, 2),
    "thalach": (50, 220), "exang": (0, 1), "oldpeak": (-3, 7), "slope": (1, 3), "ca": (0, 3), "thal": (3, 7),
}  # fmt: skip


def _read_heart(entry: Dataset, z: Arrays) -> TaskSet:
    bounds = PublicBounds(HEART_RANGES, classes=(0, 1))
    X = np.array(z["X"], dtype=np.float64)
    names = [str(n) for n in z["feature_names"]]
    for column in ("chol", "trestbps"):  # 0 mg/dl and 0 mmHg mean "not measured"
        j = names.index(column)
        X[X[:, j] == 0, j] = np.nan
    middle = np.asarray([bounds.midpoint(n) for n in names], dtype=np.float64)
    X = np.where(np.isnan(X), middle, X)
    y = (z["y"] > 0).astype(np.int64)
    return _tasks(entry, {**z, "X": X}, bounds, y=y, classes=[0, 1])


def _read_vehicle(entry: Dataset, z: Arrays) -> TaskSet:
    bounds = PublicBounds(features={"*": (-5.0, 5.0)}, classes=(-1, 1))
    return _tasks(entry, z, bounds, y=z["y"].astype(np.int64), classes=[-1, 1])


DATASETS: Table[Dataset] = Table("data set")
READERS: dict[str, Callable[[Dataset, Arrays], TaskSet]] = {
    "school": _read_school, "har": _read_har, "femnist": _read_femnist, "mnist_writers": _read_mnist_writers,
    "heart": _read_heart, "vehicle": _read_vehicle,
}  # fmt: skip
for _name, _about in tomllib.loads(shipped("tasks/catalogue.toml")).items():
    DATASETS.add(_name, Dataset(_name, read=READERS[_name], **{**_about, "notes": tuple(_about.get("notes", ()))}))


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
        tasks = entry.read(entry, read_npz(path))
    except KeyError as e:
        raise DataError(f"{path} lacks the array {e.args[0]!r}; fetch the data set again.") from None
    return tasks.with_notes(*entry.notes)


def describe(name: str) -> dict[str, Any]:
    """What a data set is, for `taskveil data list`; says where the file lies, or None."""
    e = DATASETS.get(name)
    path = next((str(p) for p in places(name) if p.is_file()), None)
    facts = {k: getattr(e, k) for k in ("name", "title", "task", "target", "kind", "citation", "licence", "publisher", "sha256")}
    return {**facts, "bounds": e.bounds_said, "notes": list(e.notes), "path": path}
