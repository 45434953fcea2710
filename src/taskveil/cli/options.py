"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import click

from taskveil.errors import OptionError


def stack(*options: Callable) -> Callable:
    """One decorator out of several."""

    def apply(function: Callable) -> Callable:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


json_option = click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
seed_option = click.option("--seed", type=int, default=None, help="Seed of splits and initialisation.")

READING = ("task", "target", "targets", "person", "positive", "kind", "bounds", "missing", "bad_rows")
reading_options = stack(
    click.option("--task", help="Column that says which task a row belongs to."),
    click.option("--target", help="Column to predict."),
    click.option("--targets", help="Several target columns of a wide table, comma-separated: one task each."),
    click.option("--person", help="Column that names rows of one person across tasks."),
    click.option("--positive", help="Label that counts as positive: makes the target binary."),
    click.option("--kind", type=click.Choice(["regression", "classification"]), help="Default: from the target."),
    click.option("--bounds", type=click.Path(exists=True), help="File with declared public ranges (JSON or TOML)."),
    click.option(
        "--missing",
        type=click.Choice(["error", "impute-bounds", "impute-own", "drop"]),
        default="error",
        show_default=True,
        help="What to do with missing values.",
    ),
    click.option(
        "--bad-rows",
        type=click.Choice(["error", "skip"]),
        default="error",
        show_default=True,
        help="What to do with csv rows that cannot be read.",
    ),
)

data_options = stack(click.argument("data"), reading_options)

privacy_options = stack(
    click.option("--delta", type=float, help="Default: min(1e-5, 1/(10 tasks))."),
    click.option("--unit", type=click.Choice(["task", "record"]), default="task", show_default=True),
    click.option(
        "--neighbours", type=click.Choice(["replace-one", "add-remove"]), default="replace-one", show_default=True
    ),
    click.option("--variant", type=click.Choice(["sound", "paper", "preprint"]), default="sound", show_default=True),
    click.option("--mechanism", help="Noise; default: the best valid one for what is released."),
    click.option(
        "--aggregation",
        type=click.Choice(["curator", "local", "secure", "local-model"]),
        default="curator",
        show_default=True,
    ),
    click.option(
        "--secure",
        multiple=True,
        metavar="NAME=VALUE",
        callback=lambda context, option, given: parse_settings(given) or None,
        help="What a secure sum withstands: colluders, dropouts, min_cohort, grid_bits, law. Repeatable.",
    ),
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="A method's own option, repeatable."),
)

scaling_options = stack(
    click.option(
        "--scaling",
        type=click.Choice(["auto", "own", "declared", "none", "pooled-standard"]),
        default="auto",
        show_default=True,
    ),
    click.option("--normalise", type=click.Choice(["row"]), help="Scale every row to unit length."),
)

ledger_options = stack(
    click.option("--ledger", help="Where spending is recorded, for example sqlite:///budget.db."),
    click.option("--account", help="Name of the account in the ledger."),
)


def parse_settings(settings: tuple[str, ...]) -> dict[str, Any]:
    """`rounds=10` and `momentum=none` as Python values: JSON where it reads as JSON, text otherwise."""
    parsed = {}
    for item in settings:
        name, equals, value = item.partition("=")
        if not equals or not name.isidentifier():
            raise OptionError(f"--set expects NAME=VALUE, got {item!r}")
        try:
            parsed[name] = json.loads(value)
        except json.JSONDecodeError:
            parsed[name] = value
    return parsed


def methods_with(names: list[str], settings: dict[str, Any]) -> list[Any]:
    """Method objects with the settings each of them has; an error where no method has a setting."""
    from taskveil import methods

    objects = [methods.get(name) for name in names]
    known = [set(m.get_params(deep=False)) for m in objects]
    for name in settings:
        if not any(name in options for options in known):
            offered = ", ".join(sorted(set().union(*known))) or "none"
            raise OptionError(f"no method in this command has an option {name!r}; options: {offered}")
    for method, options in zip(objects, known):
        method.set_params(**{k: v for k, v in settings.items() if k in options})
    return objects


def parse_epsilons(text: str) -> list[float | None]:
    """'0.1,1,none' as numbers and None."""
    values: list[float | None] = []
    for item in text.split(","):
        item = item.strip().lower()
        if item in ("none", "inf"):
            values.append(None)
            continue
        try:
            value = float(item)
        except ValueError:
            raise OptionError(f"--epsilons expects numbers or 'none', got {item!r}") from None
        if not 0 < value < float("inf"):
            raise OptionError(f"epsilon must be positive, got {item}")
        values.append(value)
    return values


def load(data: str, **given: Any) -> Any:
    """The TaskSet a command works on."""
    from taskveil.tasks.load import load_tasks

    targets = given.pop("targets", None)
    if targets:
        given["targets"] = [t.strip() for t in targets.split(",")]
    return load_tasks(data, **{k: v for k, v in given.items() if v is not None})


def print_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2, allow_nan=False))


def written_page(write: Callable[[Any], Any]) -> Any:
    """The page `write(taskveil.report)` makes, or None with a word on stderr where the extra is missing."""
    from taskveil import report
    from taskveil.errors import EnvironmentMissing

    try:
        return write(report)
    except EnvironmentMissing as missing:
        click.echo(f"no page was written: {missing}", err=True)
        return None
