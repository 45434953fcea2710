"""run/command.json: the command that began a run, so that `fit --resume` and `predict` need not be told again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from taskveil.checks import Entries, Rule, Text, check_table
from taskveil.errors import DataError
from taskveil.saved import read_json

COMMAND: dict[str, Rule] = {"data": Text(), "options": Entries()}


def write(path: Path, data: str, options: dict[str, Any]) -> None:
    path.write_text(json.dumps({"data": data, "options": options}))


def read(path: Path) -> tuple[str, dict[str, Any]]:
    """What was asked for; DataError where the file is damaged."""
    stored = read_json(path)
    check_table(stored, COMMAND, str(path), DataError, tuple(COMMAND))
    return stored["data"], stored["options"]


def as_given(command: click.Command, options: dict[str, Any], path: Path) -> dict[str, Any]:
    """The noted options as the command line would have taken them; options that are newer than the file get their defaults."""
    context = click.Context(command)
    parameters = {p.name: p for p in command.params if p.name is not None}
    unknown = sorted(set(options) - set(parameters))
    if unknown:
        raise DataError(f"{path} is damaged: `{command.name}` has no option {unknown[0]!r}")
    given = command.make_context(command.name, [], resilient_parsing=True).params  # defaults, as click itself fills them in
    for name, value in options.items():
        try:
            given[name] = value if parameters[name].callback else parameters[name].type_cast_value(context, value)
        except (click.ClickException, TypeError, ValueError) as problem:
            raise DataError(f"{path} is damaged: option {name!r}: {' '.join(str(problem).split())}") from None
    return given
