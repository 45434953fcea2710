"""taskveil compare: methods and epsilons side by side on held-out rows."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rich_click as click

from taskveil.cli.flags import Given, flag
from taskveil.cli.options import (
    DATA_PANEL,
    PRIVACY_PANEL,
    READING,
    answer,
    complete_methods,
    data_options,
    help_panels,
    json_option,
    load,
    loss_option,
    methods_with,
    parse_epsilons,
    parse_settings,
    privacy_options,
    scaling_options,
    written_page,
)
from taskveil.cli.out_folder import overwrite_option, prepare_folder
from taskveil.cli.progress import progress_bar


@click.command(
    "compare", epilog="Example: taskveil compare school --methods local,pooled,subspace --epsilons 0.3,1,10 --train-fraction 0.3"
)
@help_panels(
    your_table=DATA_PANEL,
    comparison="--methods --train-fraction --split-by --repeats --metric --loss --set --scaling --scaling-share --normalise "
    "--seed",
    privacy=PRIVACY_PANEL,
    results="--out --overwrite --json --help",
)
@data_options
@click.option(
    "--methods",
    "names",
    type=flag("--methods"),
    shell_complete=complete_methods,
    help="Comma-separated names; default: all of local,pooled,mean,subspace,together that suit the unit and the kind.",
)
@click.option(
    "--epsilons", type=flag("--epsilons"), default="0.1,1,10", show_default=True, help="Numbers and 'none', comma-separated."
)
@click.option(
    "--train-fraction",
    type=flag("--train-fraction"),
    default=0.5,
    show_default=True,
    help="Share of each task's rows that are used for training.",
)
@click.option("--split-by", type=flag("a column"), help="Column with groups; rows of one group stay together.")
@click.option("--repeats", type=flag("--repeats"), default=3, show_default=True)
@click.option("--metric", help="nmse mse rmse r2 median-error, log-loss auc accuracy balanced-accuracy error-rate, concordance.")
@loss_option
@privacy_options
@scaling_options
@click.option("--seed", type=flag("--seed"), default=0, show_default=True, help="Seed of everything, noise included.")
@click.option("-o", "--out", type=Given(), help="Folder for results.json and a report page.")
@overwrite_option
@json_option
def command(
    data: str,
    names: str | None,
    epsilons: str,
    train_fraction: float,
    split_by: str | None,
    repeats: int,
    metric: str | None,
    settings: tuple[str, ...],
    seed: int,
    out: str | None,
    overwrite: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Compare methods on held-out rows of DATA (a file, a data-set name, or synthetic:NAME)."""
    from taskveil.estimators.compare import compare

    if out:
        prepare_folder(Path(out), overwrite)
    reading = {k: given.pop(k) for k in READING}
    given["exposure"], reading["loss"] = reading["exposure"], given["loss"]
    splits = splits_of(data, reading, train_fraction, split_by, seed, metric)
    train, _ = splits(0)
    chosen = usual(given["unit"], train.kind) if names is None else [n.strip() for n in names.split(",") if n.strip()]
    methods = methods_with(chosen, parse_settings(settings), (train.n_tasks, train.n_features, given["unit"], train.kind))
    with progress_bar("comparing") as progress:
        result = compare(
            splits, methods, parse_epsilons(epsilons), repeats=repeats, metric=metric, seed=seed, progress=progress, **given
        )
    result["data"]["name"] = data
    if out:
        write(result, Path(out), as_json)
    click.echo(result["note"], err=True)
    answer(as_json, result, table(result))


def usual(unit: str, kind: str) -> list[str]:
    """What is compared where nothing is named: the baselines, and what `fit` may take for this unit and kind."""
    if unit == "task":
        return ["local", "pooled", "mean", "subspace", "together"]
    return ["local", "pooled", "mean"] if kind == "survival" else ["local", "pooled", "mean", "together"]


def splits_of(
    data: str, reading: dict[str, Any], fraction: float, group: str | None, seed: int, metric: str | None = None
) -> Callable[[int], tuple[Any, Any]]:
    """Fresh draws of a synthetic set, fresh splits of anything else."""
    from taskveil.tasks.split import split_rows
    from taskveil.tasks.synthetic import get_synthetic

    if data.startswith("synthetic:"):

        def draw(repeat: int) -> tuple[Any, Any]:
            drawn = get_synthetic(data.removeprefix("synthetic:"), seed=seed + repeat)
            return drawn.train, drawn.test

        return draw
    with progress_bar(f"reading {Path(data).name}"):
        tasks = load(data, metric, **reading)
    for note in tasks.notes:
        click.echo(f"note: {note}", err=True)
    return lambda repeat: split_rows(tasks, fraction, seed + repeat, group=group)


WHAT = {"task": "all data of one task", "record": "one row"}
WHO = {"other-tasks": "the other tasks", "server": "the server and the other tasks", "public": "everybody"}


def table(result: dict[str, Any]) -> str:
    """Plain text, one row per method and epsilon, with the whole sentence above it."""
    rows = result["results"]
    first = next((s for r in rows if r["epsilon"] is not None for s in r["statements"]), None)  # local's delta is 0
    head = ""
    if first:
        head = (
            f"epsilon protects {WHAT[first['unit']]} ({first['neighbours']} neighbours) against {WHO[first['observer']]}; "
            f"delta {first['delta']:g}\n"
        )
    also = list(rows[0].get("also", {}))
    heads = "".join(f"{name:>10}" for name in also)
    lines = [f"{'method':<18}{'variant':<10}{'epsilon':>8}  {result['metric']:>18}{heads}  {'holds':<6}"]
    for r in rows:
        epsilon = "-" if r["epsilon"] is None else f"{r['epsilon']:g}"
        holds = "-" if not r["statements"] else "yes" if all(s["holds"] for s in r["statements"]) else "NO"
        score = f"{r['mean']:.4f}" + (f" +- {r['std']:.4f}" if result["repeats"] > 1 else "")
        others = "".join(f"{'-' if r['also'][name] is None else format(r['also'][name], '.4g'):>10}" for name in also)
        lines.append(f"{r['method']:<18}{r['variant']:<10}{epsilon:>8}  {score:>18}{others}  {holds:<6}")
    return head + "\n".join(lines) + f"\n{explained(result)}\n\n{result['recommendation']}\n{result['cost']}"


def explained(result: dict[str, Any]) -> str:
    """What the columns mean."""
    from taskveil.estimators.metrics import LOWER_IS_BETTER
    from taskveil.report.words import METRICS

    metric = result["metric"]
    better = "lower" if metric in LOWER_IS_BETTER else "higher"
    several = result["repeats"] > 1
    spread = f"mean +- spread over {result['repeats']} repeats" if several else "one repeat, so how it varies is not known"
    return (
        f"{metric}: {METRICS.get(metric, metric)}, {better} is better; {spread}.\n"
        "constant: every task predicts its own mean (median with --loss huber) or its own share of every class.\n"
        "epsilon '-': no noise. holds: whether the privacy claim is true ('-': none is made; learning alone shares nothing)."
    )


def write(result: dict[str, Any], folder: Path, quiet: bool) -> None:
    (folder / "results.json").write_text(json.dumps(result, indent=1))
    page = written_page(lambda report: report.write_comparison(result, folder))
    if page is not None and not quiet:
        click.echo(f"report: {page}", err=True)
