"""taskveil declare: a draft of what is public about a table, to be filled in by somebody who knows what its columns mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import rich_click as click

from taskveil.cli.flags import Given, check_output
from taskveil.cli.options import LISTS, layout_options, put_out
from taskveil.errors import OptionError


@click.command("declare", epilog="Example: taskveil declare visits.csv --task hospital --target days -o bounds.toml")
@click.argument("data", type=Given())
@layout_options
@click.option("--look", is_flag=True, help="Fill in the blanks from values; certificates list each such entry.")
@click.option("--overwrite", is_flag=True, help="Replace the file of -o.")
@click.option("-o", "--out", type=Given(dir_okay=False), help="TOML file to write; default: stdout.")
def command(data: str, look: bool, overwrite: bool, out: str | None, **given: Any) -> None:
    """Draft the declaration of a table for `fit --bounds`: ranges, levels and labels as blanks to fill in.

    Only names and types of columns are read, unless --look is given.
    """
    from taskveil.tasks.files import TABLES, holds_table, read_table
    from taskveil.tasks.prepare.declare import draft
    from taskveil.tasks.table import Layout

    path = Path(data)
    if not holds_table(path):
        raise OptionError(f"declare drafts for tables ({', '.join(TABLES)}); built-in data sets are declared already.")
    if out is not None and Path(out).exists() and not overwrite:
        raise OptionError(f"{out} exists already; choose another name, or say --overwrite.")
    check_output(out, path)
    lists = {k: tuple(t.strip() for t in given[k].split(",")) if given[k] else None for k in LISTS}
    given["kind"] = "survival" if given["event"] else given["kind"]
    layout = Layout(**{**given, **lists, "leave_out": lists["leave_out"] or ()})
    text = draft(read_table(path, bad_rows="skip").frame, layout, look)
    put_out(text, out)
    filled = "filled from values, each entry marked" if look else "fill the blanks from what the columns mean"
    if out is not None:
        click.echo(f"{out}: {filled}; then fit ... --bounds {out}", err=True)
