"""taskveil predict: saved models on new rows."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import rich_click as click

from taskveil.cli import command_file
from taskveil.cli.flags import Given, check_output, flag
from taskveil.cli.options import json_option, print_json
from taskveil.errors import DataError
from taskveil.names import spreadsheet_cell

REMEMBERED = ("task", "targets", "missing", "bad_rows", "positive")


@click.command("predict", epilog="Example: taskveil predict model/ new_visits.csv -o predictions.csv")
@click.argument("directory", type=Given(exists=True, file_okay=False))
@click.argument("data")
@click.option("--task", type=flag("a column"), help="Column that says which task a row belongs to; default: as in `fit`.")
@click.option(
    "--missing",
    type=click.Choice(["error", "impute-bounds", "impute-own", "drop"]),
    help="What to do with empty cells; default: as in `fit`.",
)
@click.option("--bad-rows", type=click.Choice(["error", "skip"]), help="Rows that cannot be used; default: as in `fit`.")
@click.option(
    "--unknown",
    type=click.Choice(["error", "billboard"]),
    default="billboard",
    show_default=True,
    help="What to do with rows of a task that was not in `fit`: use the public model if there is one, or refuse.",
)
@click.option("-o", "--out", type=Given(), help="csv file; default: stdout.")
@json_option
def command(directory: str, data: str, unknown: str, out: str | None, as_json: bool, **given: Any) -> None:
    """Predict the rows of DATA with the models in DIRECTORY.

    The result has one line per row: its place in the file (the first row is 0), its task and the prediction. Rows left out
    have no line. Models of a wide table (`fit --targets`) predict every target of every row.
    """
    import pandas as pd

    from taskveil.estimators.storage import load
    from taskveil.tasks.rows import load_rows

    check_output(out, data, *Path(directory).iterdir())
    estimator = load(directory)
    estimator.unknown = unknown
    fitted = as_in_fit(Path(directory))
    reading = {k: v if v is not None else fitted.get(k) for k, v in given.items()}
    if fitted.get("targets") and not reading["task"]:
        reading["every_task"] = [t.strip() for t in fitted["targets"].split(",")]
    elif only_task(estimator, data, reading["task"], unknown):
        reading["every_task"] = list(estimator.task_names_)
    if reading["missing"] == "impute-own":  # a cell stands where its task's rows of training did, whatever else is in this file
        reading["missing"], estimator.missing = "keep", "impute-own"
    rows = load_rows(
        data, feature_names=estimator.feature_names_, bounds=estimator.bounds_,
        **{k: v for k, v in reading.items() if v is not None},
    )  # fmt: skip
    if rows.X.shape[0] == 0:
        raise DataError(f"{data} has no rows to predict")
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always", UserWarning)
        predicted = estimator.predict(rows.X, task=rows.task)
    for note in (*rows.notes, *(w.message for w in caught_warnings)):
        click.echo(f"note: {note}", err=True)
    exposure = exposures(estimator, data, rows.row_index)
    predicted = predicted if exposure is None else predicted * exposure
    table = pd.DataFrame({"row": rows.row_index, "task": rows.task, "prediction": predicted})
    if hasattr(estimator, "predict_proba"):
        labels = labels_as_given(estimator.classes_.tolist(), fitted.get("positive"))
        table["prediction"] = table["prediction"].map(labels)
        for name, column in zip(labels.values(), estimator.predict_proba(rows.X, task=rows.task).T):
            table[f"probability_{name}"] = column
    text = for_spreadsheets(table).to_csv(None if out is None else Path(out), index=False)  # a path: no address to send them to
    if as_json:
        print_json({"rows": len(table), "predictions": table["prediction"].tolist(), "task": table["task"].astype(str).tolist(),
                    "row": table["row"].tolist()})  # fmt: skip
    elif out is None:
        click.echo(text, nl=False)
    else:
        click.echo(f"{len(table)} predictions: {out}", err=True)


def labels_as_given(classes: list[Any], positive: str | None) -> dict[Any, Any]:
    """What each label of the model is called: `fit --positive yes` counts yes as 1, and every other label as 0."""
    named = [f"not {positive}", positive] if positive not in (None, "1") and classes == [0, 1] else classes
    return dict(zip(classes, named, strict=True))


def exposures(estimator: Any, data: str, places: Any) -> Any:
    """What the counts of these rows are per; None where the model has no exposure, or the file does not say."""
    from taskveil.tasks.files import column_names, holds_table, read_table
    from taskveil.tasks.prepare.unusable import exposures as usable

    column = estimator.exposure
    if column is None:
        return None
    if not holds_table(Path(data)) or not Path(data).exists() or column not in column_names(Path(data)):
        click.echo(f"note: {data} has no column {column!r}: predictions are per unit of exposure", err=True)
        return None
    table = read_table(Path(data), bad_rows="skip", filled_columns=[])
    place = {int(at): n for n, at in enumerate(table.rows)} if table.rows is not None else None
    at = [place[int(p)] for p in places] if place is not None else places
    return usable(table.frame[column].to_numpy()[at], silent=False)[0]


def only_task(estimator: Any, data: str, task: str | None, unknown: str) -> bool:
    """Whether a model of one task (`taskveil adapt`) predicts a table that does not name it, or calls all rows otherwise."""
    from taskveil.tasks.files import column_names, holds_table, read_table

    path = Path(data)
    if len(estimator.task_names_) != 1 or not (holds_table(path) and path.exists()):
        return False
    if task is None or task not in column_names(path):
        return True
    names = read_table(path, bad_rows="skip", id_columns=[task]).frame[task].dropna().astype(str).unique()
    if unknown == "error" or len(names) != 1 or names[0] == estimator.task_names_[0]:
        return False
    click.echo(
        f"note: {task!r} is {names[0]} in every row: predicted as {estimator.task_names_[0]}, which this model is of", err=True
    )
    return True


def for_spreadsheets(table: Any) -> Any:
    """The table with text that would run as a formula made harmless; columns of numbers are left alone."""
    quoted = table.rename(columns=spreadsheet_cell)
    for name in quoted.columns:
        if quoted[name].dtype.kind not in "biuf":
            quoted[name] = [spreadsheet_cell(v) for v in quoted[name]]
    return quoted


def as_in_fit(folder: Path, names: tuple[str, ...] = REMEMBERED) -> dict[str, Any]:
    """How the command that made the models read its table; nothing where they were made another way."""
    path = folder / "run" / "command.json"
    if not path.exists():
        return {}
    try:
        _, options = command_file.read(path)
    except DataError:
        raise DataError(f"{path} is damaged; remove it and say --task, --missing and --bad-rows yourself") from None
    return {k: options.get(k) for k in names}
