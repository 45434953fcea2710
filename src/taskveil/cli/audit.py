"""taskveil audit: attack a mechanism or a method; a lower bound on epsilon with its confidence."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import rich_click as click

from taskveil.cli.flags import Given, choice, flag
from taskveil.cli.options import answer, json_option, methods_with, parse_settings
from taskveil.cli.progress import progress_bar
from taskveil.errors import OptionError


class AuditCommand(click.RichCommand):
    """`audit fit ...` takes the options of `fit`; any other first word is a mechanism or a method."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> click.Context:
        if args[:1] != ["fit"]:
            return super().make_context(info_name, args, parent, **extra)
        from taskveil.cli.audit_fit import command as audit_fit

        return audit_fit.make_context("audit fit", args[1:], parent, **extra)


@click.command(
    "audit",
    cls=AuditCommand,
    epilog="Examples: taskveil audit paper-wishart --epsilon 1;  taskveil audit low-rank --variant paper --epsilon 1;  "
    "taskveil audit fit visits.csv --task hospital --target days --epsilon 1  (your own configuration: audit fit --help)",
)
@click.argument("target", shell_complete=lambda *asked: complete_targets(*asked))
@click.option("--epsilon", type=flag("--epsilon"), default=1.0, show_default=True, help="The claimed epsilon, which is attacked.")
@click.option("--delta", type=flag("--delta"), default=None, help="Claimed delta; default: 1e-5.")
@click.option("--trials", type=flag("--trials"), default=None, help="Runs with each of two tables; default: by target.")
@click.option("--seed", type=flag("--seed"), default=None, help="Seeds the whole simulation, noise included.")
@choice("--variant", ["sound", "paper", "preprint"])
@click.option(
    "--neighbours",
    type=click.Choice(["replace-one", "add-remove"]),
    default=None,
    help="Default: add-remove for mechanisms, replace-one for methods.",
)
@click.option("--mechanism", default=None, help="Noise of a method; default: its own.")
@choice("--unit", ["task", "record"])
@choice("--observer", ["other-tasks", "server", "public"])
@choice("--aggregation", ["curator", "local", "secure", "local-model"])
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of the method; for mechanisms: dimension, low_bits. Repeatable.",
)
@choice("--canary", ["largest", "changing", "one-run"], help="What canary is planted; one-run: many in a single run.")
@choice("--view", ["billboard", "releases"], help="What the attacker sees: the billboard, or the noisy sums behind it.")
@click.option("--jobs", type=flag("--jobs"), default=None, help="Number of processes; default: one per core.")
@click.option("--gallery", type=Given(file_okay=False), default=None, help="Folder for the pictures of known attacks.")
@json_option
def command(target: str, settings: tuple[str, ...], gallery: str | None, as_json: bool, **given: Any) -> int:
    """Attack TARGET, a mechanism or a method calibrated to a claim. Exit with 1 if the claim is refuted.

    `taskveil audit fit DATA ...`, with the options of `fit`, attacks what you run, from the raw table on. With another TARGET:
    a simulation on made-up tasks: no data is read and no ledger is touched. A verdict of `refuted` is wrong with probability
    at most 1e-6; `consistent` proves nothing.
    """
    options = parse_settings(settings)
    with progress_bar(f"attacking {target}") as progress:
        result = attack(target, options, progress, **given)
    if gallery is not None:
        from taskveil.report.gallery_page import write_gallery

        for page in write_gallery(Path(gallery), seed=given["seed"] or 0):
            click.echo(f"wrote {page}", err=True)
    answer(as_json, result.to_dict(), str(result))
    return 1 if result.refuted else 0


def complete_targets(context: Any, option: Any, begun: str) -> list[str]:
    """What can be attacked: `fit` (your own configuration), mechanisms, methods."""
    from taskveil import methods
    from taskveil.audits.mechanisms import TARGETS

    return [name for name in ("fit", *TARGETS, *methods.names()) if name.startswith(begun)]


def attack(target: str, options: dict[str, Any], progress: Any, **given: Any) -> Any:
    """One audit, of a mechanism or of a method."""
    from taskveil import methods
    from taskveil.audits import audit_mechanism
    from taskveil.audits.mechanisms import TARGETS
    from taskveil.errors import UnknownName

    if target in TARGETS:
        unknown = set(options) - {"dimension", "low_bits"}
        if unknown:
            raise OptionError(f"mechanism audits have the options dimension and low_bits; got {', '.join(sorted(unknown))}")
        chosen = {k: given[k] for k in ("delta", "trials", "seed", "neighbours", "variant")}
        return audit_mechanism(target, given["epsilon"], progress=progress, **chosen, **options)
    if target not in methods.names():
        raise UnknownName(
            f"unknown target {target!r}: expected a mechanism ({', '.join(TARGETS)}) or a method ({', '.join(methods.names())})"
        )
    return attack_method(target, options, progress, **given)


def attack_method(target: str, options: dict[str, Any], progress: Any, **given: Any) -> Any:
    from taskveil.audits import audit_one_run
    from taskveil.audits.methods import audit_estimator
    from taskveil.estimators import TaskRegressor

    (method,) = methods_with([target], options)
    est = TaskRegressor(
        method, epsilon=given["epsilon"], delta=1e-5 if given["delta"] is None else given["delta"], variant=given["variant"],
        neighbours=given["neighbours"] or "replace-one", mechanism=given["mechanism"], unit=given["unit"],
        observer=given["observer"], aggregation=given["aggregation"],
    )  # fmt: skip
    view = "releases" if given["view"] == "releases" else None
    if given["canary"] == "one-run":
        return audit_one_run(est, seed=given["seed"], announce=lambda text: click.echo(text, err=True))
    jobs = given["jobs"] or os.cpu_count() or 1
    return audit_estimator(
        est, trials=given["trials"], seed=given["seed"], canary=given["canary"], view=view, jobs=jobs, progress=progress
    )
