"""taskveil report: one self-contained page about what a folder holds."""

from __future__ import annotations

from pathlib import Path

import click
import rich_click

from taskveil.cli.options import json_option, print_json


class ReportCommand(rich_click.RichCommand):
    """`--for owner TASK` takes two words, `--for public` one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = list(args)
        for i, word in enumerate(args):
            if (
                word == "--for"
                and args[i + 1 : i + 2] == ["owner"]
                and len(args) > i + 2
                and not args[i + 2].startswith("--")
            ):
                args[i + 2 : i + 3] = ["--owner-task", args[i + 2]]
                break
        return super().parse_args(ctx, args)


@click.command(
    "report",
    cls=ReportCommand,
    epilog="Examples: taskveil report model/; taskveil report model/ --for public; taskveil report model/ --for owner north",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--for", "audience", type=click.Choice(["all", "owner", "public"]), default="all", show_default=True,
    help="Who reads the page: someone entitled to all rows, 'owner TASK' (that task's own figures only), or the public.",
)  # fmt: skip
@click.option("--owner-task", hidden=True)
@json_option
def command(directory: str, audience: str, owner_task: str | None, as_json: bool) -> None:
    """Write one self-contained page about the run in DIRECTORY (from fit, compare, demo or serve)."""
    from taskveil.report import report_folder
    from taskveil.report.audience import Audience

    page = report_folder(Path(directory), Audience(audience, owner_task))
    if as_json:
        print_json({"page": str(page), "for": audience, "task": owner_task, "bytes": page.stat().st_size})
    else:
        click.echo(f"page: {page}")
