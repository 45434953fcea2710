"""taskveil report: one self-contained page about what a folder holds."""

from __future__ import annotations

from pathlib import Path

import click
import rich_click

from taskveil.cli.flags import Given
from taskveil.cli.options import answer, json_option
from taskveil.errors import OptionError


class ReportCommand(rich_click.RichCommand):
    """`--for owner TASK` takes two words, `--for public` one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        args = list(args)
        for i, word in enumerate(args):
            if word == "--for" and args[i + 1 : i + 2] == ["owner"] and len(args) > i + 2 and not args[i + 2].startswith("--"):
                args[i + 2 : i + 3] = ["--owner-task", args[i + 2]]
                break
        return super().parse_args(ctx, args)


@click.command(
    "report",
    cls=ReportCommand,
    epilog="Examples: taskveil report model/; taskveil report model/ --for public; taskveil report model/ --for owner north",
)
@click.argument("directory", type=Given(exists=True, file_okay=False))
@click.option(
    "--for", "audience", type=click.Choice(["all", "owner", "public", "board"]), default="all", show_default=True,
    help="Who reads the page: someone entitled to all rows, 'owner TASK' (that task's own figures only), the public, or the "
    "board (one printed side).",
)  # fmt: skip
@click.option("--owner-task", hidden=True)
@click.option("--ledger", help="For the board: show spending and limits of this ledger, for example sqlite:///budget.db.")
@click.option(
    "--groups",
    type=Given(exists=True, dir_okay=False),
    metavar="FILE",
    help="File with declared groups of tasks, {task: group} in JSON or TOML. The full page shows errors by group.",
)
@json_option
def command(
    directory: str, audience: str, owner_task: str | None, ledger: str | None, groups: str | None, as_json: bool
) -> None:  # fmt: skip
    """Write a self-contained page about the run in DIRECTORY (from fit, compare, demo or serve)."""
    from taskveil.report import report_folder
    from taskveil.report.audience import Audience

    if ledger is not None and audience != "board":
        raise OptionError("--ledger goes with --for board; other pages show one run alone")
    if groups is not None and audience != "all":
        raise OptionError("--groups goes with the full page: figures by group are statistics of everybody's rows")
    if audience == "board":
        from taskveil.report.board import write_board

        page = write_board(Path(directory), ledger)
    else:
        page = report_folder(Path(directory), Audience(audience, owner_task), groups)
    answer(as_json, {"page": str(page), "for": audience, "task": owner_task, "bytes": page.stat().st_size}, f"page: {page}")
