"""taskveil plan: noise, noise-to-signal, bounds; before any data is read."""

from __future__ import annotations

from typing import Any

import rich_click as click

from taskveil.cli.fit import read_epsilon
from taskveil.cli.flags import choice, flag
from taskveil.cli.options import (
    answer,
    asked_method,
    json_option,
    loss_option,
    method_option,
    methods_with,
    parse_settings,
    privacy_options,
)
from taskveil.cli.progress import progress_bar

MANY_ROUNDS = 10_000
ASSUMED_ROWS = 100  # of a task, where single rows are protected and nothing else was said


@click.command("plan", epilog="Example: taskveil plan --tasks 320 --features 30 --epsilon 1 --delta 1e-5 --method subspace")
@click.option("--tasks", "n_tasks", type=flag("--tasks"), required=True, help="Number of tasks.")
@click.option("--features", "n_features", type=flag("plan --features"), required=True, help="Number of features.")
@click.option("--epsilon", type=flag("--epsilon or none"), required=True, help="A number, or 'none'.")
@method_option
@click.option("--rounds", type=flag("--rounds"), help="Number of rounds; default: the method's own.")
@click.option("--rows", type=flag("--rows"), help="Rows of each task: for unit record, and for the papers' theorems.")
@choice("--kind", ["regression", "classification", "survival"])
@loss_option
@click.option("--theorem", "theorems", multiple=True, help="Also evaluate a theorem, e.g. 2 or pmtl-1; 'all' for all.")
@privacy_options
@json_option
def command(
    n_tasks: int,
    n_features: int,
    epsilon: str,
    method: str,
    rounds: int | None,
    rows: int | None,
    kind: str,
    loss: str | None,
    theorems: tuple[str, ...],
    settings: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Show what a run would release, how much noise that needs, and whether it is likely to help. No rows are read."""
    from taskveil.estimators.planning import describe_plan, spending
    from taskveil.methods.base import PublicInfo
    from taskveil.methods.options import check_options
    from taskveil.runtime.run import assemble, budget_for

    options = parse_settings(settings)
    if rounds is not None:
        options["rounds"] = rounds
    (chosen,) = methods_with([asked_method(method, given["unit"])], options, (n_tasks, n_features, given["unit"]))
    check_options(chosen)
    by_record = given["unit"] == "record"
    if by_record and rows is None:
        rows = ASSUMED_ROWS
        click.echo(f"unit record: {rows} rows per task are assumed; --rows says how many there are", err=True)
    budget = budget_for(n_tasks, n_tasks * (rows or 1), epsilon=read_epsilon(epsilon), **given)
    task_rows = (rows or 0,) * n_tasks if by_record else None
    public = PublicInfo(n_tasks, n_features, 1, kind, declared_bounds=True, task_rows=task_rows, loss=loss or "")
    if (options.get("rounds") or 0) > MANY_ROUNDS:
        click.echo(f"planning {options['rounds']} rounds takes some seconds ...", err=True)
    with progress_bar(f"planning {chosen.name}"):
        run = assemble(chosen, public, budget, best_units=True)
        result = {**describe_plan(run), "spending": spending(run.plan)}
    result["theorems"] = calculations(theorems, n_tasks, n_features, budget, rows, result["rounds"] or None)
    answer(as_json, result, words(result, n_tasks, n_features))


def calculations(
    wanted: tuple[str, ...], n_tasks: int, n_features: int, budget: Any, rows: int | None, rounds: int | None
) -> list[dict]:
    """The papers' bounds, each with its number and its caveat."""
    if not wanted:
        return []
    from taskveil.calculators import evaluate

    return evaluate(
        wanted, n_tasks=n_tasks, n_features=n_features, epsilon=budget.epsilon, delta=budget.delta, rows=rows, rounds=rounds
    )


def words(result: dict[str, Any], n_tasks: int, n_features: int) -> str:
    private = result["epsilon"] is not None
    who = f"protects one {result['unit']} ({result['neighbours']} neighbours) against {result['observer']}"
    lines = [
        f"{result['method']} ({result['variant']}): {n_tasks} tasks, {n_features} features, {result['rounds']} round(s)",
        f"epsilon {result['epsilon']:g}, delta {result['delta']:.3g}; {who}" if private else "no privacy: nothing is protected",
        "",
        f"{'release':<16}{'times':>6}  {'mechanism':<18}{'noise scale':>12}{'noise size':>12}{'signal':>10}{'noise/signal':>14}",
    ]
    for r in result["releases"]:
        ratio = "-" if r["noise_to_signal"] is None else f"{r['noise_to_signal']:.3g}"
        signal = f"{r['signal']:>10.4g}{ratio:>14}" if private else f"{'-':>10}{'-':>14}"  # nothing is clipped then
        lines.append(f"{r['name']:<16}{r['count']:>6}  {r['mechanism']:<18}{r['scale']:>12.4g}{r['noise']:>12.4g}{signal}")
    if result["total"] is not None:
        lines += [
            "",
            f"of each round one release at most: the policy {result['total']['policy']!r} looks at what was released before",
            f"whatever it does, a total of mu = {result['total']['mu']:.4g} is reserved and stated",
        ]
    elif len(result["spending"]) > 1:
        lines += ["", "epsilon spent after rounds: " + ", ".join(f"{s['round']}: {s['epsilon']:.3g}" for s in result["spending"])]
    lines += ["", result["verdict"], *_expected(result["expected_share"]), *(f"- {text}" for text in result["advice"])]
    for item in result["theorems"]:
        lines += ["", f"{item['name']}: " + ", ".join(f"{k} = {_short(v)}" for k, v in item["values"].items())]
        lines.append(f"  caveat: {item['caveat']}")
    return "\n".join(lines)


def _expected(share: tuple[float, float] | None) -> list[str]:
    if share is None:
        return []
    least, most = (round(100 * min(max(s, 0.0), 1.0)) for s in share)
    return [f"- tasks with one model in common: {least} to {most} % of what sharing without noise would gain"]


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
