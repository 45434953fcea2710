"""taskveil predict: saved models on new rows."""

from __future__ import annotations

import rich_click as click

from taskveil.cli.options import json_option, print_json
from taskveil.errors import DataError


@click.command("predict", epilog="Example: taskveil predict model/ new_visits.csv -o predictions.csv")
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.argument("data")
@click.option("--task", help="Column that says which task a row belongs to.")
@click.option("--unknown", type=click.Choice(["error", "billboard"]), default="error", show_default=True)
@click.option("-o", "--out", type=click.Path(), help="csv file; default: stdout.")
@json_option
def command(directory: str, data: str, task: str | None, unknown: str, out: str | None, as_json: bool) -> None:
    """Predict the rows of DATA with the models in DIRECTORY. Unknown tasks: an error, or the public billboard's model."""
    import pandas as pd

    from taskveil.estimators.storage import load
    from taskveil.tasks.load import load_rows

    estimator = load(directory)
    estimator.unknown = unknown
    rows = load_rows(data, task=task, feature_names=estimator.feature_names_)
    if rows.X.shape[0] == 0:
        raise DataError(f"{data} has no rows to predict")
    table = pd.DataFrame({"task": rows.task, "prediction": estimator.predict(rows.X, task=rows.task)})
    if hasattr(estimator, "predict_proba"):
        for name, column in zip(estimator.classes_, estimator.predict_proba(rows.X, task=rows.task).T):
            table[f"probability_{name}"] = column
    text = table.to_csv(out, index=False)
    if as_json:
        print_json({"rows": len(table), "predictions": table["prediction"].tolist(), "task": table["task"].astype(str).tolist()})
    elif out is None:
        click.echo(text, nl=False)
