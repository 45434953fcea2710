"""taskveil fit: train, print the guarantee, save."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from taskveil.cli.options import (
    data_options,
    json_option,
    ledger_options,
    load,
    methods_with,
    parse_settings,
    print_json,
    privacy_options,
    scaling_options,
    seed_option,
)
from taskveil.cli.progress import progress_bar
from taskveil.errors import OptionError


@click.command("fit", epilog="Example: taskveil fit visits.csv --task hospital --target days --epsilon 1 -o model/")
@data_options
@click.option("--method", default="subspace", show_default=True, help="Name of a method, or 'auto'.")
@click.option("--epsilon", default="1.0", show_default=True, help="A number, or 'none' to train without privacy.")
@privacy_options
@scaling_options
@ledger_options
@seed_option
@click.option("--insecure-noise-seed", type=int, help="Reproducible noise for tests. Voids the certificate.")
@click.option("--strict", is_flag=True, help="Refuse one-row, one-class and constant-column tasks.")
@click.option("-o", "--out", type=click.Path(), help="Folder for models, certificate and report.")
@click.option("--resume", type=click.Path(exists=True), help="Go on with a run that was stopped.")
@json_option
def command(data: str, method: str, epsilon: str, settings: tuple[str, ...], as_json: bool, out: str | None,
            resume: str | None, **given: Any) -> None:
    """Train a personal model for every task of DATA (a file or the name of a data set)."""
    from taskveil.estimators import TaskClassifier, TaskRegressor

    reading = {k: given.pop(k) for k in ("task", "target", "targets", "person", "positive", "kind", "bounds", "missing", "bad_rows")}
    tasks = load(data, **reading)
    chosen, why = choose_method(method, tasks)
    (object_,) = methods_with([chosen], parse_settings(settings))
    kind = TaskRegressor if tasks.kind == "regression" else TaskClassifier
    if why:
        click.echo(why, err=True)
    with progress_bar("training") as progress:
        estimator = kind(
            object_, epsilon=read_epsilon(epsilon), progress=progress, run_dir=resume or run_folder(out, given), **given
        ).fit(tasks)
    estimator.progress = None
    if out or resume:
        write_results(estimator, Path(out or resume or "."), as_json)
    if as_json:
        print_json(document(estimator))
    else:
        click.echo(summary(estimator))


def read_epsilon(text: str) -> float | None:
    if text.lower() == "none":
        return None
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"--epsilon expects a number or 'none', got {text!r}") from None


def choose_method(name: str, tasks: Any) -> tuple[str, str]:
    """'auto' decides from public sizes and declarations alone, and says why."""
    if name != "auto":
        return name, ""
    if tasks.n_tasks < 30:
        return "mean", (
            f"method auto: {tasks.n_tasks} tasks are few for a shared subspace; 'mean' shares one direction "
            "(consider --unit record). Decided from the number of tasks alone."
        )
    return "subspace", f"method auto: {tasks.n_tasks} tasks and {tasks.n_features} features: 'subspace'."


def run_folder(out: str | None, given: dict[str, Any]) -> Path | None:
    """Runs with a ledger keep a checkpoint, so that a crash never costs a budget twice."""
    return Path(out) / "run" if out and given.get("ledger") else None


def write_results(estimator: Any, folder: Path, quiet: bool) -> None:
    estimator.save(folder)
    try:
        from taskveil.report import write_report
    except ImportError:
        return
    page = write_report(estimator, folder)
    if page is not None and not quiet:
        click.echo(f"report: {page}", err=True)


def document(estimator: Any) -> dict[str, Any]:
    """What `fit --json` prints."""
    import json

    gain = estimator.gain_.to_dict() if estimator.method_.linear else {}
    models = {}
    if estimator.method_.linear:
        models = {
            name: {"coef": c.tolist(), "intercept": i.tolist()}
            for name, c, i in zip(estimator.task_names_, estimator.coef_, estimator.intercept_)
        }
    return {
        "certificate": json.loads(estimator.certificate_.to_json()),
        "models": models,
        "gain": gain,
        "warnings": list(estimator.warnings_),
    }


def summary(estimator: Any) -> str:
    lines = [str(estimator.certificate_)]
    if estimator.method_.linear and not estimator.method_.shares_nothing:
        kept = int(estimator.gain_.kept_shared.sum())
        lines.append(
            f"{kept} of {len(estimator.task_names_)} tasks keep the shared model, the others learn alone "
            "(each decided on its own rows; the count is for someone entitled to all of them)."
        )
    lines += [f"note: {text}" for text in estimator.warnings_]
    return "\n".join(lines)
