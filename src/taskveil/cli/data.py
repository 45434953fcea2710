"""taskveil data: built-in data sets, where they lie and where they come from."""

from __future__ import annotations

import click
import rich_click

from taskveil.cli.options import answer, json_option, print_json
from taskveil.cli.progress import progress_bar


@click.group("data", cls=rich_click.RichGroup)
def command() -> None:
    """Public data sets by name. The package contains no data; it looks in $TASKVEIL_DATA, then in the user's cache."""


@command.command("list", epilog="Example: taskveil data list --json")
@json_option
def list_(as_json: bool) -> None:
    """List all names, what they are, and whether they are on this machine."""
    from taskveil.tasks import catalogue, synthetic

    sets = [catalogue.describe(name) for name in catalogue.names()]
    lines = [f"{d['name']:<15}{'here' if d['path'] else 'not here':<10}{d['kind']:<16}{d['title']}" for d in sets]
    lines += ["", f"made up when asked for: {', '.join(synthetic.names())}"]
    answer(as_json, {"data": sets, "synthetic": synthetic.names()}, "\n".join(lines))


@command.command("fetch", epilog="Example: taskveil data fetch heart")
@click.argument("name")
@click.option("--force", is_flag=True, help="Download again even if it is in the cache.")
@json_option
def fetch(name: str, force: bool, as_json: bool) -> None:
    """Download the public original of NAME, check it, and keep it in the user's cache. No other command uses the internet."""
    from taskveil.tasks import catalogue
    from taskveil.tasks import fetch as fetching

    about = catalogue.describe(name)
    if about["path"] and not force:
        path = about["path"]
        click.echo(f"{name} is here already; --force downloads it again", err=True)
    else:
        with progress_bar(f"fetching {name}") as progress:
            path = str(fetching.fetch(name, force=force, progress=lambda url, done, total: progress(done, total or done)))
    if as_json:
        print_json({**catalogue.describe(name), "path": str(path)})
        return
    click.echo(f"cite:  {about['citation']}", err=True)
    click.echo(f"terms: {about['licence']}", err=True)
    click.echo(path)


@command.command("path", epilog="Example: taskveil data path school")
@click.argument("name")
@click.option("--verify", is_flag=True, help="Also check its content. Exit with 1 if it is not the published one.")
@json_option
def path(name: str, verify: bool, as_json: bool) -> int:
    """Print where the file of NAME is. Exit with 4 if it is not on this machine."""
    from taskveil.tasks import catalogue
    from taskveil.tasks import fetch as fetching

    place = catalogue.find(name)
    good = fetching.verify(name) if verify else None
    answer(as_json, {**catalogue.describe(name), "verified": good}, str(place))
    if good is not None:
        click.echo("its content is the published one" if good else "this is NOT the published content", err=True)
    return 1 if good is False else 0
