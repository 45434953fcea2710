"""taskveil adapt: a model for a task that was not there in `fit`, from what is public and its own rows, at no cost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from taskveil.cli import command_file
from taskveil.cli.flags import Given, flag
from taskveil.cli.options import answer, json_option
from taskveil.cli.out_folder import overwrite_option, prepare_folder
from taskveil.cli.predict import as_in_fit
from taskveil.errors import DataError, OptionError

READ_AS_IN_FIT = ("task", "target", "event", "positive", "missing", "bad_rows")


@click.command("adapt", epilog="Example: taskveil adapt model/ new_hospital.csv --task-name north -o north/")
@click.argument("directory", type=Given(exists=True, file_okay=False))
@click.argument("data", type=Given(exists=True))
@click.option(
    "--task-name",
    type=flag("--task-name"),
    required=True,
    help="Name of the new task. If the table has several tasks, only the rows of this one are used.",
)
@click.option(
    "--task",
    type=flag("a column"),
    help="Column that says which task a row belongs to; default: as in `fit`, if the table has that column.",
)
@click.option("--target", type=flag("a column"), help="Column to predict; default: as in `fit`.")
@click.option("-o", "--out", type=Given(), required=True, help="Folder for the new task's model.")
@overwrite_option
@json_option
def command(directory: str, data: str, task_name: str, out: str, overwrite: bool, as_json: bool, **given: Any) -> None:
    """Train a model for a new task, from the rows of DATA and what the run in DIRECTORY published.

    Nothing is sent and nothing is charged. The folder holds only the new task, and no model of another task.
    """
    from taskveil.estimators.storage import load

    estimator = load(directory)
    reading = {**as_in_fit(Path(directory), READ_AS_IN_FIT), **{k: v for k, v in given.items() if v is not None}}
    X, y = rows_of_newcomer(data, task_name, estimator, reading, given["task"])
    adapted = estimator.adapt(X, y, name=task_name)
    prepare_folder(Path(out), overwrite)
    adapted.save(out)
    (Path(out) / "run").mkdir()
    command_file.write(Path(out) / "run" / "command.json", data, {k: v for k, v in reading.items() if v is not None})
    (gain,) = adapted.gain_.to_dict().values()
    error, measure = "error", adapted.gain_.metric
    if "typical_error_shared" in gain:
        error, measure = "typical_error", f"typical error of {adapted.preparation_.target_name!r}, in its own units"
    shared, alone = gain[f"{error}_shared"], gain[f"{error}_alone"]
    words = (
        f"{task_name}: estimated error {shared:.3g} with what is public, {alone:.3g} alone ({measure}). "
        f"Nothing was sent or charged. Predict with: taskveil predict {out} NEW.csv"
    )
    answer(as_json, {"task": task_name, "gain": gain, "out": out}, words)


def rows_of_newcomer(data: str, name: str, estimator: Any, reading: dict[str, Any], told: str | None) -> tuple[Any, Any]:
    """Features and targets of the new task's rows, prepared as the models' own rows were; `told`: the task column, where said."""
    import numpy as np
    import pandas as pd

    from taskveil.tasks.files import read_table
    from taskveil.tasks.grouping import folded
    from taskveil.tasks.prepare.labels import filled_targets
    from taskveil.tasks.prepare.survival import signed_times
    from taskveil.tasks.rows import load_rows, text_in
    from taskveil.tasks.table import need_columns

    bad_rows, missing = reading.get("bad_rows") or "error", reading.get("missing") or "error"
    task, target = reading.get("task"), reading.get("target") or estimator.preparation_.target_name
    ids = [*text_in(estimator.feature_names_), *([task] if task else [])]
    texts = (target,) if reading.get("positive") else ()
    frame = read_table(Path(data), bad_rows=bad_rows, id_columns=ids, text_columns=texts).frame
    if target not in frame.columns:
        raise OptionError(f"{data} has no column {target!r}; say which column is predicted with --target")
    if told is not None and told not in frame.columns:
        raise OptionError(f"{data} has no column {told!r}; say which column names the task with --task, or leave it out")
    if task is not None and task in frame.columns:
        frame = _own_rows(frame, task, name, data)
    filled = filled_targets(frame[target])
    if not filled.all() and bad_rows != "skip":
        raise DataError(f"the target column {target!r} has missing values; fill them, or fit with --bad-rows skip")
    frame = frame[filled].reset_index(drop=True)
    rows = load_rows(
        frame.assign(__task__=name), estimator.feature_names_, task="__task__", bounds=estimator.bounds_, missing=missing
    )
    y = frame[target].to_numpy()[rows.row_index]
    if reading.get("event"):
        need_columns(frame.columns, [reading["event"]])
        times = signed_times(frame[reading["event"]].to_numpy()[rows.row_index], y)
        y = np.column_stack([times > 0, np.abs(times)])
    if reading.get("positive") is not None:
        y = np.asarray([folded(str(label)) == folded(str(reading["positive"])) for label in y], dtype=int)
    if len(y) == 0:
        raise DataError(f"{data} has no row of the task {name!r} that can be used")
    if estimator.exposure is None:
        return rows.X, y
    need_columns(frame.columns, [estimator.exposure])
    X = pd.DataFrame(rows.X, columns=list(estimator.feature_names_))
    return X.assign(**{estimator.exposure: frame[estimator.exposure].to_numpy()[rows.row_index]}), y


def _own_rows(frame: Any, task: str, name: str, data: str) -> Any:
    """The rows of the new task; a table of one task may call it otherwise."""
    called = frame[task].astype(str)
    if (called == name).any():
        return frame[called == name]
    if called.nunique() > 1:
        raise OptionError(f"{data} holds several tasks, none of them {name!r}; say --task-name as in the column {task!r}")
    return frame
