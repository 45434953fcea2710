"""taskveil reproduce: a figure or table of a paper. Experiments live beside the package, not in it."""

from __future__ import annotations

import inspect
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import click

from taskveil.cli.flags import Given, flag
from taskveil.cli.options import json_option, print_json
from taskveil.errors import EnvironmentMissing, OptionError, UnknownName
from taskveil.saved import read_json, total


@click.command("reproduce", epilog="Example: taskveil reproduce mp-mtl-fig6 --quick")
@click.argument("name", shell_complete=lambda *asked: complete_items(*asked))
@click.option("--quick", is_flag=True, help="Few repeats, at most about 40 seconds an item.")
@click.option("--seed", type=flag("--seed"), default=0, show_default=True)
@click.option("--repeats", type=flag("reproduce --repeats"), help="Replications; default: the paper's number, few with --quick.")
@click.option("--resume", is_flag=True, help="Skip items that already have a result of this seed, length and version.")
@click.option("-o", "--out", type=Given(), help="Folder for results; default: the experiment's own.")
@json_option
def command(name: str, quick: bool, seed: int, repeats: int | None, resume: bool, out: str | None, as_json: bool) -> None:
    """Reproduce NAME ('list' for all names, 'all' for everything, each kept when done; with --quick side by side)."""
    registry = experiments()
    if name == "list":
        print_json(sorted(registry.ITEMS)) if as_json else click.echo("\n".join(registry.ITEMS))
        return
    chosen = list(registry.ITEMS) if name == "all" else [name]
    unknown = [n for n in chosen if n not in registry.ITEMS]
    if unknown:
        raise UnknownName(f"nothing to reproduce under {unknown[0]!r}; names: {', '.join(registry.ITEMS)}")
    if repeats is not None:
        fixed = [n for n in chosen if "repeats" not in inspect.signature(registry.get(n)).parameters]
        if fixed:
            raise OptionError(f"{fixed[0]} has no number of replications to set; leave --repeats out")
    run = partial(several, listed=chosen, quick=quick, seed=seed, repeats=repeats, resume=resume, out=out, quiet=as_json)
    found: dict[str, Any] = {}
    if name == "all" and quick:
        with ProcessPoolExecutor(min(4, os.cpu_count() or 1), get_context("spawn")) as pool:
            for part in pool.map(run, registry.side_by_side(chosen)):
                found |= part
    else:
        found = run(chosen)
    documents = [found[n] for n in chosen if n in found]
    missing = [n for n in chosen if n not in found]
    if as_json:
        print_json(documents if name == "all" else documents[0])
    if missing:
        raise EnvironmentMissing(f"{len(missing)} of {len(chosen)} items could not run here: {', '.join(missing)}")


def several(
    names: list[str], listed: list[str], quick: bool, seed: int, repeats: int | None, resume: bool, out: str | None, quiet: bool
) -> dict[str, Any]:
    """Documents of some of the listed items, by name, without those that this machine lacks something for."""
    registry, documents = experiments(), {}
    for n in names:
        number, count = listed.index(n) + 1, len(listed)
        below = str(Path(out) / registry.folder_of(n)) if out and count > 1 else out  # papers share names of figures
        click.echo(f"[{'#' * (20 * number // count):<20}] {number}/{count} {n} ...", err=True)
        try:
            earlier = done(registry, n, quick, seed, repeats, below) if resume else None
            documents[n] = earlier or one(registry, n, quick, seed, repeats, below, quiet)
        except EnvironmentMissing as problem:
            if count == 1:
                raise
            click.echo(f"{n} left out: {problem}", err=True)
    return documents


def complete_items(context: Any, option: Any, begun: str) -> list[str]:
    """Names of figures and tables, where the experiments are at hand."""
    try:
        return [name for name in ("list", "all", *experiments().ITEMS) if name.startswith(begun)]
    except EnvironmentMissing:
        return []


def results_of(registry: Any, name: str, out: str | None) -> Path:
    return Path(out) if out else Path(registry.__file__).parent / registry.folder_of(name) / "results"


def done(registry: Any, name: str, quick: bool, seed: int, repeats: int | None, out: str | None) -> dict[str, Any] | None:
    """What an earlier call of this version left for the same question: seed, length and number of replications."""
    from experiments.common import versions

    short = name.removeprefix(next(p for p in registry.FOLDERS if name.startswith(p + "-")) + "-")
    file = results_of(registry, name, out) / (f"{short}-quick.json" if quick else f"{short}.json")
    if not file.exists():
        return None
    document: dict[str, Any] = read_json(file)
    settings = {"seed": seed, "quick": quick, "repeats": repeats}
    with total(str(file)):
        run = document["run"]
        same = run["versions"]["taskveil"] == versions()["taskveil"]
        return document if same and all(run.get(k) == v for k, v in settings.items()) else None


def one(registry: Any, name: str, quick: bool, seed: int, repeats: int | None, out: str | None, quiet: bool) -> dict[str, Any]:
    from experiments.common import execute

    folder = results_of(registry, name, out)
    document = execute(registry.get(name), quick, seed, folder, repeats)
    if not quiet:
        click.echo(f"{name}: {document['claim']}")
        for label, key in (("paper", "paper_value"), ("as printed", "as_printed"), ("sound", "sound"), ("verdict", "verdict")):
            if document[key]:
                click.echo(f"  {label:<11}{document[key]}")
        run = document["run"]
        click.echo(f"  {'seconds':<11}{run['seconds']:g} ({run['cpu_seconds']:g} of processor time)")
    return document


def experiments() -> Any:
    """The experiments of this checkout: $TASKVEIL_EXPERIMENTS, the working directory, or beside the package."""
    given = os.environ.get("TASKVEIL_EXPERIMENTS")
    places = [Path(given)] if given else [Path.cwd(), Path(__file__).resolve().parents[3]]
    for place in places:
        if (place / "experiments" / "registry.py").exists():
            if str(place) not in sys.path:
                sys.path.insert(0, str(place))
            from importlib import import_module

            return import_module("experiments.registry")
    raise EnvironmentMissing(
        "the experiments are not part of the installed package: run this in a checkout of taskveil, or set "
        "TASKVEIL_EXPERIMENTS to one"
    )
