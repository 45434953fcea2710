"""Options that several commands share, and how their values are read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from taskveil.cli.flags import FLAGS, Given, choice, flag
from taskveil.errors import OptionError

# A list of texts and numbers, with no list or object in it.
FLAT_LIST = re.compile(r"""\[\n\s*+(?:(?:"(?:[^"\\]|\\.)*+"|[^\[\]{}",\s]++),?\s*+)*+\]""")


def stack(*options: Callable) -> Callable:
    """One decorator out of several."""

    def apply(function: Callable) -> Callable:
        for option in reversed(options):
            function = option(function)
        return function

    return apply


json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
seed_option = click.option("--seed", type=flag("--seed"), default=None, help="Seed of splits and initialisation.")

READING = (
    "task", "target", "targets", "event", "exposure", "person", "features", "leave_out", "positive", "kind", "bounds", "missing",
    "bad_rows",
)  # fmt: skip
LISTS = ("targets", "features", "leave_out")
missing_option = choice(
    "--missing",
    ["error", "impute-bounds", "impute-own", "drop"],
    help="Empty cells: refuse them, fill in the middle of the declared range or the task's own median, or drop the row.",
)
bad_rows_option = choice(
    "--bad-rows", ["error", "skip"], help="Rows without task or target, with text among numbers, or too short or long."
)
layout_options = stack(  # what the columns of a table mean
    click.option("--task", type=flag("a column"), help="Column that says which task a row belongs to."),
    click.option("--target", type=flag("a column"), help="Column to predict."),
    click.option("--targets", type=flag("columns"), help="Target columns of a wide table, comma-separated; each becomes a task."),
    click.option("--event", type=flag("a column"), help="Survival: column that is 1 for seen events; --target is the time."),
    click.option(
        "--exposure", type=flag("a column"), help="For counts: column that holds the exposure; goes with --loss poisson."
    ),
    click.option("--person", type=flag("a column"), help="Column that identifies the person behind a row; not a feature."),
    click.option("--features", type=flag("columns"), help="Columns to use, comma-separated; default: all others."),
    click.option("--leave-out", type=flag("columns"), help="Columns not to use, comma-separated (identifiers, free text)."),
    click.option(
        "--kind", type=click.Choice(["regression", "classification", "survival"]), help="Default: decided by the target's type."
    ),
)
reading_options = stack(
    layout_options,
    click.option("--positive", help="Label that counts as positive; all others are negative."),
    click.option("--bounds", type=Given(exists=True), help="File with declared public ranges (JSON or TOML)."),
    missing_option,
    bad_rows_option,
)

data_options = stack(click.argument("data", shell_complete=lambda *asked: complete_data(*asked)), reading_options)

privacy_options = stack(
    click.option("--delta", type=flag("--delta"), help="Chance that the guarantee fails; default: min(1e-5, 1/(10 tasks))."),
    choice("--unit", ["task", "record"], help="What epsilon protects: all data of a task, or one row."),
    choice("--neighbours", ["replace-one", "add-remove"], help="What may change: the unit gets other data, or is empty."),
    choice(
        "--variant",
        ["sound", "paper", "preprint"],
        help="The corrected method, or the method as a paper prints it (the certificate says what fails).",
    ),
    click.option("--mechanism", help="Kind of noise; default: the best valid one."),
    choice(
        "--aggregation",
        ["curator", "local", "secure", "local-model"],
        help="Where the noise is added: by a trusted server, at each task, or inside a secure sum.",
    ),
    click.option(
        "--secure",
        multiple=True,
        metavar="NAME=VALUE",
        callback=lambda context, option, given: parse_settings(given) or None,
        help="Option of a secure sum: colluders, dropouts, min_cohort, sites, grid_bits or law. Repeatable.",
    ),
    click.option("--set", "settings", multiple=True, metavar="NAME=VALUE", help="Option of the method. Repeatable."),
)

method_option = click.option(
    "--method",
    default="together",
    show_default=True,
    shell_complete=lambda *asked: complete_methods(*asked),
    help="Name of a method. 'auto' chooses from public sizes and says why; it is the default with --unit record.",
)


loss_option = click.option(
    "--loss",
    type=click.Choice(["squared", "poisson", "huber"]),
    help="Loss of a regression: squared (default), poisson for counts (with --exposure), huber for numbers with outliers.",
)


def asked_method(name: str, unit: str) -> str:
    """The method that was asked for. The default protects tasks: where rows are to be protected and none was named, 'auto'."""
    context = click.get_current_context(silent=True)
    left_out = context is not None and context.get_parameter_source("method") is click.core.ParameterSource.DEFAULT
    return "auto" if left_out and unit == "record" else name


def _share_counts(command: Callable) -> Callable:
    """A share that would buy nothing is refused rather than ignored."""

    @wraps(command)
    def checked(*arguments: Any, **given: Any) -> Any:
        source = click.get_current_context().get_parameter_source("scaling_share")
        if source is click.core.ParameterSource.COMMANDLINE and given["scaling"] != "private":
            raise OptionError("--scaling-share goes with --scaling private")
        return command(*arguments, **given)

    return checked


scaling_options = stack(
    choice(
        "--scaling",
        ["auto", "own", "declared", "private", "none", "pooled-standard"],
        help="How columns are scaled. auto: by declared ranges if any, else by each task's own statistics. private: by a "
        "common centre and scale, which cost budget.",
    ),
    click.option(
        "--scaling-share",
        type=flag("--scaling-share"),
        default=0.1,
        show_default=True,
        help="Share of the budget that --scaling private spends.",
    ),
    click.option("--normalise", type=click.Choice(["row"]), help="Scale every row to unit length."),
    _share_counts,
)


def complete_methods(context: Any, option: Any, begun: str) -> list[str]:
    """Names of methods for the shell; of a comma-separated list, the last one."""
    from taskveil import methods

    done, comma, last = begun.rpartition(",")
    return [done + comma + name for name in ("auto", *methods.names()) if name.startswith(last)]


def complete_data(context: Any, option: Any, begun: str) -> list[Any]:
    """Names of data sets, and files."""
    from click.shell_completion import CompletionItem

    from taskveil.tasks import catalogue, synthetic

    names = [n for n in (*catalogue.names(), *synthetic.names()) if n.startswith(begun)]
    return [*map(CompletionItem, names), CompletionItem(begun, type="file")]


def help_panels(**panels: str) -> Callable:
    """Options under headings, so that a long help page can be read: title="--a --b"."""
    import rich_click

    made = [
        rich_click.option_panel(title.replace("_", " ").capitalize(), options=names.split()) for title, names in panels.items()
    ]
    return stack(*made)


DATA_PANEL = (
    "--task --target --targets --event --exposure --person --features --leave-out --positive --kind --bounds --missing --bad-rows"
)
PRIVACY_PANEL = "--epsilon --epsilons --delta --unit --neighbours --variant --mechanism --aggregation --secure"

ledger_options = stack(
    click.option("--ledger", help="Ledger that records spending, for example sqlite:///budget.db."),
    click.option("--account", type=flag("--account"), help="Name of the account in the ledger."),
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
        except (ValueError, RecursionError):
            parsed[name] = value
    return parsed


def methods_with(names: list[str], settings: dict[str, Any], sizes: tuple[Any, ...] = (0, 0, "task")) -> list[Any]:
    """Method objects with the settings each of them has; an error where no method has a setting.

    `sizes` are tasks, features, unit and where it is known kind: by these 'auto' is decided, and the reason said.
    """
    from taskveil import methods

    chosen = [methods.choose(name, *sizes) for name in names]
    for why in dict.fromkeys(why for _, why in chosen if why):
        click.echo(why, err=True)
    objects = [methods.get(name) for name in dict.fromkeys(name for name, _ in chosen)]
    option_sets = [set(m.option_names()) for m in objects]
    for name in settings:
        if not any(name in options for options in option_sets):
            offered = ", ".join(sorted(n for n in set().union(*option_sets) if "__" not in n)) or "none"
            raise OptionError(f"no method in this command has an option {name!r}; options: {offered}")
    for method, options in zip(objects, option_sets):
        method.set_params(**{k: v for k, v in settings.items() if k in options})
    return objects


def parse_epsilons(text: str) -> list[float | None]:
    """'0.1,1,none' as numbers and None."""
    entry = FLAGS["--epsilon or none"]
    return [entry.check("--epsilons", entry.parse(item.strip())) for item in text.split(",") if item.strip()]


def load(data: str, metric: str | None = None, loss: str | None = None, **given: Any) -> Any:
    """The TaskSet a command works on; says which kind of target it is and how to change that.

    A metric or a loss decides it too. Where only the type of the column does, nothing but 0 and 1 is a question to whoever asks.
    """
    from taskveil.estimators.metrics import kind_of_metric
    from taskveil.tasks.load import load_tasks
    from taskveil.tasks.prepare.labels import ask_kind

    for name in LISTS:
        if given.get(name):
            given[name] = [t.strip() for t in given[name].split(",")]
    why = None
    if given.get("kind") is None and is_file(data):
        by_metric = kind_of_metric(metric) if given.get("event") is None else None
        given["kind"] = by_metric if loss is None else "regression"
        why = given["kind"] and (f"--metric {metric}" if loss is None else f"--loss {loss}")
    tasks = load_tasks(data, **{k: v for k, v in given.items() if v is not None})
    by_type = any(fact.what == "kind" for fact in tasks.facts)
    if by_type and not given.get("lazy"):  # values of lazy tasks are not looked at
        ask_kind(tasks.y, tasks.target_name)
    if by_type or why:
        by = why or "the type of the column"
        click.echo(f"target {tasks.target_name!r}: {tasks.kind}, by {by}; --kind changes that", err=True)
    return tasks


def is_file(data: str) -> bool:
    """Whether DATA is a table of the user's, not the name of a data set, which declares its kind."""
    from taskveil.tasks.files import holds_table

    return Path(data).is_file() or (Path(data).is_dir() and holds_table(Path(data)))


def print_json(document: Any) -> None:
    """One document; a list of plain values stands on one line."""
    text = json.dumps(document, indent=2, allow_nan=False)
    click.echo(FLAT_LIST.sub(lambda found: "[" + re.sub(r"\n *", " ", found[0][1:-1]).strip() + "]", text))


def answer(as_json: bool, document: Any, words: str) -> None:
    """What a command found, for programs or for people."""
    print_json(document) if as_json else click.echo(words)


def put_out(text: str, out: str | None) -> None:
    """A document to its file, or to stdout."""
    if out is None:
        click.echo(text, nl=False)
    else:
        Path(out).write_text(text, encoding="utf-8")


def written_page(write: Callable[[Any], Any]) -> Any:
    """The page `write(taskveil.report)` makes, or None with a word on stderr where the extra is missing."""
    from taskveil import report
    from taskveil.errors import EnvironmentMissing

    try:
        return write(report)
    except EnvironmentMissing as missing:
        click.echo(f"no page was written: {missing}", err=True)
        return None
