"""taskveil serve: create a federation's files, or run its server."""

from __future__ import annotations

from pathlib import Path

import rich_click as click

from taskveil.cli.flags import Given, flag
from taskveil.cli.options import json_option, print_json
from taskveil.errors import OptionError


@click.command(
    "serve",
    epilog="Example: taskveil serve --init trial --site north --site south; taskveil serve --config trial/federation.toml",
)
@click.option("--init", "folder", type=Given(file_okay=False), help="Create certificates, keys and files in this folder.")
@click.option("--site", "sites", type=flag("--site"), multiple=True, help="With --init: a site's name (repeatable).")
@click.option(
    "--host",
    "hosts",
    type=flag("--host"),
    multiple=True,
    default=("127.0.0.1",),
    show_default=True,
    help="With --init: the server's names and addresses.",
)
@click.option("--port", type=flag("--port"), default=9092, show_default=True, help="With --init: the server's port.")
@click.option(
    "--name", type=flag("--name"), default="federation", show_default=True, help="With --init: a name for the federation."
)
@click.option("--config", type=Given(exists=True, dir_okay=False), help="Run the server of this federation.toml to the end.")
@json_option
def command(
    folder: str | None, sites: tuple[str, ...], hosts: tuple[str, ...], port: int, name: str, config: str | None, as_json: bool
) -> None:
    """Run the server of a federation (or create its files with --init)."""
    from taskveil.runtime.federation.server import serve

    def say(text: str) -> None:
        click.echo(text, err=True)

    if (folder is None) == (config is None):
        raise OptionError("give either --init FOLDER or --config federation.toml")
    if folder is not None:
        written = serve.init(Path(folder), list(sites), list(hosts), port, name)
        for path in written:
            say(f"wrote {path}")
        say("Next: edit federation.toml, give each site its folder (or take its public key), then `taskveil serve --config`.")
        if as_json:
            print_json({"folder": str(folder), "files": [str(p) for p in written]})
        return
    results = serve.serve(Path(str(config)), say)
    if as_json:
        from taskveil.saved import read_json

        run, certificate = (read_json(results / name) for name in ("run.json", "certificate.json"))
        print_json({"results": str(results), "run": run, "certificate": certificate})
