"""taskveil join: take part in a federation with one's own rows."""

from __future__ import annotations

import sys
from pathlib import Path

import rich_click as click

from taskveil.cli.flags import Given, flag
from taskveil.cli.options import json_option, print_json
from taskveil.errors import OptionError


@click.command("join", epilog="Example: taskveil join --config site.toml --data my.parquet")
@click.option("--init", "folder", type=Given(file_okay=False), help="Create this site's key pair in this folder.")
@click.option("--name", type=flag("--name"), help="With --init: the site's name.")
@click.option("--config", type=Given(exists=True, dir_okay=False), help="The site's own site.toml.")
@click.option("--data", type=Given(exists=True), help="The site's table. Its rows stay on this machine.")
@click.option("--ask", is_flag=True, help="Show the plan and ask before anything is sent.")
@json_option
def command(folder: str | None, name: str | None, config: str | None, data: str | None, ask: bool, as_json: bool) -> None:
    """Join a federation. Rows stay on this machine; only bounded messages leave it."""
    from taskveil.runtime.federation.site import join

    def say(text: str) -> None:
        click.echo(text, err=True)

    if folder is not None:
        if not name:
            raise OptionError("--init needs --name NAME")
        public = join.init(Path(folder), name)
        say(f"wrote {public}: send this file to whoever runs the server; {public.stem}.key stays here")
        return
    if config is None or data is None:
        raise OptionError("give --config site.toml and --data FILE (or --init FOLDER --name NAME)")

    def agree(agreement: object) -> bool:
        return not ask or (sys.stdin.isatty() and click.confirm("Take part?", err=True))

    state = join.join(Path(config), data, say, agree)
    if as_json:
        print_json({"state": str(state), "models": str(state / "models.npz"), "finished": (state / "done.json").exists()})
