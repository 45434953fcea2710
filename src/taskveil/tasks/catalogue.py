"""The built-in data sets: what they are, whose they are, their public bounds, and how their arrays become
tasks.

Bounds are declared from what the columns mean (percentages, dummies, pixels, plausible clinical ranges), not
from the rows.

A name is looked up as $TASKVEIL_DATA/<name>/<name>.npz, then in the user's cache. No data comes with the
package.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.errors import DataError, EnvironmentMissing
from taskveil.registry import Table
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
    read: Callable[[Arrays], TaskSet]
    notes: tuple[str, ...] = ()


def _tasks(z: Arrays, bounds: PublicBounds, **options: Any) -> TaskSet:
    """Common part: X, y, task, task_names, feature_names as in every prepared file."""
    X, task, task_names = z["X"], z["task"], [str(n) for n in z["task_names"]]
    y = options.pop("y", None)
    y = z["y"] if y is None else y
    feature_names = [str(n) for n in z["feature_names"]] if "feature_names" in z else None
    X = X.astype(np.float32) if X.dtype == np.uint8 else X
    X = bounds.clip_features(X, feature_names or [f"x{j}" for j in range(X.shape[1])])
    return TaskSet.from_arrays(X, y, task, task_names=task_names, feature_names=feature_names, bounds=bounds, **options)


def _read_school(z: Arrays) -> TaskSet:
    features = {str(n): (0.0, 100.0) if str(n).startswith("pct_") else (0.0, 1.0) for n in z["feature_names"]}
    return _tasks(z, PublicBounds(features, target=(0.0, 70.0)), kind="regression", target_name="score")


def _read_har(z: Arrays) -> TaskSet:
    activities = np.asarray([str(a) for a in z["activity_names"]])
    # `run` counts within one activity of one subject; the activity makes it unique within the subject
    run = z["y"].astype(np.int64) * 100 + z["run"]
    bounds = PublicBounds(features={"*": (-1.0, 1.0)}, classes=tuple(activities.tolist()))
    return _tasks(
        z,
        bounds,
        y=activities[z["y"]],
        kind="classification",
        classes=activities,
        target_name="activity",
        groups={"run": run, "seq": z["seq"]},
    )


def _read_femnist(z: Arrays) -> TaskSet:
    labels = np.asarray([str(c) for c in z["class_names"]])
    bounds = PublicBounds(features={"*": (0.0, 255.0)}, classes=tuple(labels.tolist()))
    return _tasks(z, bounds, y=labels[z["y"]], kind="classification", classes=labels, target_name="character")


def _read_mnist_writers(z: Arrays) -> TaskSet:
    bounds = PublicBounds(features={"*": (0.0, 255.0)}, classes=tuple(range(10)))
    series = z["writer_hsf"][z["task"]]
    return _tasks(
        z,
        bounds,
        y=z["y"].astype(np.int64),
        kind="classification",
        classes=np.arange(10),
        target_name="digit",
        groups={"series": series},
    )


HEART_RANGES: dict[str, tuple[float, float]] = {
    "age": (18, 100),
    "sex": (0, 1),
    "cp": (1, 4),
    "trestbps": (80, 220),
    "chol": (80, 600),
    "fbs": (0, 1),
    "restecg": (0, 2),
    "thalach": (50, 220),
    "exang": (0, 1),
    "oldpeak": (-3, 7),
    "slope": (1, 3),
    "ca": (0, 3),
    "thal": (3, 7),
}


def _read_heart(z: Arrays) -> TaskSet:
    bounds = PublicBounds(HEART_RANGES, classes=(0, 1))
    X = np.array(z["X"], dtype=np.float64)
    names = [str(n) for n in z["feature_names"]]
    for column in ("chol", "trestbps"):  # 0 mg/dl and 0 mmHg mean "not measured"
        j = names.index(column)
        X[X[:, j] == 0, j] = np.nan
    middle = np.asarray([bounds.midpoint(n) for n in names], dtype=np.float64)
    X = np.where(np.isnan(X), middle, X)
    y = (z["y"] > 0).astype(np.int64)
    return _tasks({**z, "X": X}, bounds, y=y, kind="classification", classes=[0, 1], target_name="disease")


def _read_vehicle(z: Arrays) -> TaskSet:
    bounds = PublicBounds(features={"*": (-5.0, 5.0)}, classes=(-1, 1))
    return _tasks(z, bounds, y=z["y"].astype(np.int64), kind="classification", classes=[-1, 1], target_name="vehicle")


DATASETS: Table[Dataset] = Table("data set")
for _entry in (
    Dataset(
        name="school",
        title="Exam scores of 15,362 students in 139 London secondary schools, 1985 to 1987",
        task="school",
        target="score",
        kind="regression",
        sha256="ae95f28c38d159841232965ef6cc4de2795bdac35d6f13bc4bf4a410755187c3",
        citation=("Inner London Education Authority; Goldstein 1991; in the form of Argyriou, Evgeniou & Pontil 2008"),
        licence=("released for research by the Centre for Multilevel Modelling; no licence text travels with it"),
        publisher="Centre for Multilevel Modelling; MALSAR (Zhou, Chen & Ye 2011) data/school.mat",
        bounds_said="percentages 0-100, dummies 0-1, scores 0-70",
        read=_read_school,
    ),
    Dataset(
        name="har",
        title=("Human activity from a waist-worn phone: 30 subjects, 10,299 windows, 561 features, 6 activities"),
        task="subject",
        target="activity",
        kind="classification",
        sha256="76d65775efa70a583c659f5c6171daf9609fdab2f0c9ea925a6a9997ea7ae033",
        citation="Anguita, Ghio, Oneto, Parra & Reyes-Ortiz, ESANN 2013",
        licence="as is, commercial use prohibited (authors' README)",
        publisher="UCI Machine Learning Repository, data set 240",
        bounds_said="all features -1 to 1, as published",
        read=_read_har,
        notes=("consecutive windows overlap by half: split by 'run', or test rows are seen in training",),
    ),
    Dataset(
        name="femnist",
        title="Handwritten characters by 206 writers, 62 classes, 28 x 28 (a part of FEMNIST)",
        task="writer",
        target="character",
        kind="classification",
        sha256="c245136a9d56bc6c87f2a8af0081d548e7566af64aeeb7bb7250e8091a56f33f",
        citation="Caldas et al. 2018 (LEAF); Cohen et al. 2017 (EMNIST); NIST Special Database 19",
        licence="NIST SD19: public domain in the US; LEAF code BSD-2-Clause",
        publisher="LEAF; the test part of the split by Hu, Wu & Smith (PMTL)",
        bounds_said="pixels 0-255 (white 255, ink 0)",
        read=_read_femnist,
    ),
    Dataset(
        name="mnist_writers",
        title="MNIST training digits by 539 writers, 28 x 28",
        task="writer",
        target="digit",
        kind="classification",
        sha256="3d228869d800e9c76efdf66196a3ffe1b4b1c949480a31e4532c439476bc9594",
        citation="LeCun, Cortes & Burges (MNIST); Yadav & Bottou 2019 (QMNIST, writer ids)",
        licence="MNIST CC BY-SA 3.0; QMNIST labels BSD-style",
        publisher="MNIST; QMNIST",
        bounds_said="pixels 0-255 (background 0, ink 255)",
        read=_read_mnist_writers,
    ),
    Dataset(
        name="heart",
        title="Heart disease in four hospitals: 920 patients, 13 features, target: any disease",
        task="hospital",
        target="disease",
        kind="classification",
        sha256="cb1f11ea6bb8fc71c673e91348951a47b4d3f3d66b23aa73c6209fbf44180a42",
        citation="Janosi, Steinbrunn, Pfisterer & Detrano 1988",
        licence="CC BY 4.0; credit the four principal investigators",
        publisher="UCI Machine Learning Repository, data set 45",
        bounds_said="clinically plausible public ranges per column",
        read=_read_heart,
        notes=("missing cells (and zero cholesterol or pressure) stand at the middle of their declared range",),
    ),
    Dataset(
        name="vehicle",
        title=("Two kinds of vehicle from 23 acoustic and seismic sensors, 1,860 rows, 100 features (a subset)"),
        task="sensor",
        target="vehicle",
        kind="classification",
        sha256="5ae1a964a6daa3fd29f3e9c17d73330791033616c76017e4c8621947cdcc6c1f",
        citation="Duarte & Hu 2004 (SensIT); Smith et al. 2017 (MOCHA); Li et al. 2021 (Ditto split)",
        licence="research data, no licence text travels with it",
        publisher="University of Wisconsin, DARPA SensIT; the training part of Ditto's split",
        bounds_said=("all features -5 to 5 (standardised per sensor by its publishers; values outside are clipped)"),
        read=_read_vehicle,
        notes=("values outside the declared range -5 to 5 are clipped",),
    ),
):
    DATASETS.add(_entry.name, _entry)


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
