"""The table an audit starts from: raw cells, as the user has them, and the user's own way from there to a fitted estimator.

An audit that begins after preparation cannot see what preparation leaks (docs/theory/audits.md#raw-table). So canaries are
written into the raw cells, and every world is opened exactly as the user opens the table: a file is written again beside it and
loaded with the same options, a DataFrame goes through `load_tasks`, arrays go to `fit(X, y, task=...)`. Only sources that exist
in encoded form alone (a TaskSet, an npz, built-in data, one task per target column) are edited there.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.grouping import task_label
from taskveil.tasks.load import load_tasks
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.task import EXPOSURE, TaskSet

if TYPE_CHECKING:
    import pandas as pd

TASK, TARGET = "__task__", "__target__"
TEXT_FILES, COLUMN_FILES = (".csv", ".tsv", ".txt"), (".parquet", ".pq")


@dataclass(frozen=True, eq=False)
class RawTable:
    """Cells before preparation; `open` turns a table of this shape into the arguments of `fit`."""

    frame: pd.DataFrame
    task: str
    target: str
    features: tuple[str, ...]
    open: Callable[[pd.DataFrame], tuple[Any, ...]]
    text: bool = False  # cells are the texts of a csv file
    made_up: bool = False
    event: str | None = None  # survival: the column beside the target that says whether the event was seen

    def rows_of(self, name: str) -> np.ndarray:
        """Positions of a task's rows."""
        return np.flatnonzero([task_label(v) == name for v in self.frame[self.task]])

    def numbers(self, column: str) -> np.ndarray | None:
        """A column's finite numbers, or None where it holds something else."""
        import pandas as pd

        read = pd.to_numeric(self.frame[column], errors="coerce").to_numpy(dtype=np.float64)
        filled = self.frame[column].notna().to_numpy() & (self.frame[column].astype(str) != "").to_numpy()
        return read[np.isfinite(read)] if np.isfinite(read[filled]).all() and np.isfinite(read).any() else None

    def missing(self) -> Any:
        """What an empty cell holds."""
        return "" if self.text else np.nan


Load = Callable[..., TaskSet]


def raw_table(data: Any, reading: Mapping[str, Any], task_column: Any = None, load: Load = load_tasks) -> RawTable:
    """A raw table from whatever the user trains on; `reading` are the options of `load`, which reads tables for him."""
    if isinstance(data, tuple) and len(data) in (2, 3) and not reading:
        return _from_arrays(*data, task_column=task_column)
    one_column_each = reading.get("task") is not None and reading.get("target") is not None and reading.get("targets") is None
    if one_column_each and hasattr(data, "columns"):
        return _with_columns(data.reset_index(drop=True), reading, lambda frame: (load(frame, **reading),))
    if one_column_each and isinstance(data, str | Path) and Path(data).suffix.lower() in (*TEXT_FILES, *COLUMN_FILES):
        return _from_file(Path(data), reading, load)
    tasks = data if isinstance(data, TaskSet) and not reading else load(data, **reading)
    return _from_tasks(tasks)


def _from_file(path: Path, reading: Mapping[str, Any], load: Load) -> RawTable:
    import pandas as pd

    load(path, **reading)  # what cannot be read is refused in the words of `fit`
    text = path.suffix.lower() in TEXT_FILES

    def opened(frame: pd.DataFrame) -> tuple[Any, ...]:
        with tempfile.TemporaryDirectory() as folder:
            copy = Path(folder) / path.name
            if text:
                frame.to_csv(copy, index=False, sep="\t" if path.suffix.lower() == ".tsv" else ",")
            else:
                frame.to_parquet(copy, index=False)
            return (load(copy, **reading),)

    if not text:
        return _with_columns(pd.read_parquet(path), reading, opened)
    frame = pd.read_csv(path, dtype=str, keep_default_na=False, sep=None, engine="python", encoding="utf-8-sig")
    return _with_columns(frame, reading, opened, text=True)


def _with_columns(
    frame: pd.DataFrame, reading: Mapping[str, Any], opened: Callable[[pd.DataFrame], tuple[Any, ...]], text: bool = False
) -> RawTable:
    task, target = reading["task"], reading["target"]
    named = [reading.get(name) for name in ("person", "event", "exposure")]
    apart = {task, target, *named, *reading.get("groups", ()), *(reading.get("leave_out") or ())}
    features = reading.get("features") or [c for c in frame.columns if c not in apart]
    return RawTable(frame, task, target, tuple(features), opened, text, event=reading.get("event"))


def _from_arrays(X: Any, y: Any, task: Any = None, *, task_column: Any = None) -> RawTable:
    import pandas as pd

    table = hasattr(X, "columns")
    if task is None and (task_column is None or not table):
        raise DataError("data=(X, y) needs a DataFrame X and task_column; otherwise give data=(X, y, task)")
    frame = X.reset_index(drop=True) if table else pd.DataFrame(np.asarray(X)).rename(columns="x{}".format)
    features = tuple(c for c in frame.columns if c != task_column)
    frame = frame.assign(**{TARGET: np.asarray(y)})
    if task is None:
        return RawTable(frame, task_column, TARGET, features, lambda f: (f.drop(columns=TARGET), f[TARGET].to_numpy()))
    frame = frame.assign(**{TASK: np.asarray(task)})

    def opened(f: pd.DataFrame) -> tuple[Any, ...]:
        rows = f[list(features)]
        return (rows if table else rows.to_numpy(), f[TARGET].to_numpy(), f[TASK].to_numpy())

    return RawTable(frame, TASK, TARGET, features, opened)


def _from_tasks(tasks: TaskSet) -> RawTable:
    import pandas as pd

    frame = pd.DataFrame(np.asarray(tasks.X), columns=list(tasks.feature_names))
    names = np.repeat(np.asarray(tasks.task_names, dtype=object), tasks.sizes)
    frame = frame.assign(**{TARGET: np.asarray(tasks.y), TASK: names})
    place, carried = {name: i for i, name in enumerate(tasks.task_names)}, [EXPOSURE] if tasks.exposure is not None else []
    frame = frame.assign(**{name: tasks.groups[name] for name in carried})

    def opened(f: pd.DataFrame) -> tuple[Any, ...]:
        made = TaskSet.from_arrays(
            f[list(tasks.feature_names)].to_numpy(), f[TARGET].to_numpy(), [place[t] for t in f[TASK]],
            task_names=tasks.task_names, feature_names=tasks.feature_names, kind=tasks.kind, classes=tasks.classes,
            target_name=tasks.target_name, notes=tasks.notes, groups={name: f[name].to_numpy() for name in carried},
        )  # fmt: skip
        return (made if tasks.bounds is None else made.within(tasks.bounds),)

    return RawTable(frame, TASK, TARGET, tuple(tasks.feature_names), opened)


# ---------------------------------------------------------------- made up

MADE_UP_TASKS, MADE_UP_ROWS = 6, 24


def made_up_table(estimator: Any) -> RawTable:
    """A table of the shape the estimator was fitted on, or a small one; inside the declared ranges where there are some."""
    from dataclasses import replace

    record = getattr(estimator, "record_", None)
    bounds = PublicBounds.coerce(estimator.bounds) or getattr(estimator, "bounds_", None)
    named = [n for n in (bounds.features if bounds is not None else ()) if n != "*"]
    features = tuple(getattr(estimator, "feature_names_", None) or named or ("x0", "x1", "x2"))
    names = tuple(getattr(estimator, "task_names_", None) or [f"t{i}" for i in range(MADE_UP_TASKS)])
    sizes = record.public.task_rows if record is not None and record.public.task_rows else [MADE_UP_ROWS] * len(names)
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (int(sum(sizes)), len(features)))
    signal = X @ (1.0 / (1.0 + np.arange(len(features)))) + 0.1 * rng.standard_normal(len(X))
    y: np.ndarray = signal
    if bounds is not None and bounds.features:
        low, high = bounds.arrays(features)
        X = (low + high) / 2 + X * (high - low) / 2
    if estimator._kind == "classification":
        classes = np.asarray(getattr(estimator, "classes_", None) if record is not None else [0, 1])
        y = classes[np.clip(np.digitize(signal, np.linspace(-1, 1, len(classes) + 1)[1:-1]), 0, len(classes) - 1)]
    elif estimator._loss in ("poisson", "cox"):  # counts or times, up to the declared largest
        y = np.round(np.exp(signal) * ((bounds.target[1] if bounds is not None and bounds.target else 50.0) / 10), 1)
    elif bounds is not None and bounds.target is not None:
        y = np.mean(bounds.target) + np.clip(signal, -1, 1) * (bounds.target[1] - bounds.target[0]) / 2
    tasks = TaskSet.from_arrays(
        X, y, np.repeat(np.arange(len(names)), sizes), task_names=names, feature_names=features, kind=estimator._kind,
    )  # fmt: skip
    table = _from_tasks(tasks if bounds is None else tasks.within(bounds))
    return replace(table, made_up=True)
