"""What the values of command-line flags may be: one table, read by the commands and by the tests.

A flag that means different things in different commands is listed with its command. Words with fixed choices are
given where they stand (`choice`); every number is here.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from taskveil.checks import AnyOf, Engine, Host, Line, ListOf, Name, Nothing, Number, Place, Rule, Text, Whole, shown
from taskveil.errors import OptionError

MOST_ROUNDS = 100_000  # as in methods.options, which this file does not import: the command line starts without it
SEED = Whole(0, 2**63 - 1)
EPSILON = Number(above=0)
DELTA = Number(at_least=0, below=1)

FLAGS: dict[str, Rule] = {
    "--seed": SEED,
    "--insecure-noise-seed": SEED,
    "--epsilon": EPSILON,
    "--epsilon or none": AnyOf(EPSILON, Nothing()),
    "--epsilons": ListOf(AnyOf(EPSILON, Nothing()), at_most=1000),
    "--methods": ListOf(Text(100), at_most=1000),
    "--delta": DELTA,
    "--train-fraction": Number(above=0, below=1),
    "--scaling-share": Number(above=0, below=1),
    "--repeats": Whole(1, 100_000),
    "reproduce --repeats": Whole(2, 100_000),
    "--trials": Whole(1, 100_000_000),
    "--jobs": Whole(1, 1024),
    "--audit-canaries": Whole(10, 100_000),
    "--at-delta": Number(above=0, below=1),
    "--tasks": Whole(1, 100_000_000),
    "plan --features": Whole(1, 1_000_000),
    "--rounds": Whole(1, MOST_ROUNDS),
    "--rows": Whole(1, 10**12),
    "--port": Whole(1, 65535),
    "--host": Host(253),
    "--engine": Engine(253),
    "--wait-for-workers": Number(at_least=0, at_most=10**9),
    "--site": Name(),
    "--name": Name(),
    "a column": Line(1000),
    "columns": ListOf(Line(1000)),
    "--task-name": Line(1000),
    "--account": Line(200),
}


class Flag(click.ParamType):
    """A click type that keeps a rule of the table; a comma-separated list is checked as a list and stays the text it was."""

    def __init__(self, key: str) -> None:
        self.key, self.rule = key, FLAGS[key]
        self.name = {"Whole": "integer", "Number": "number"}.get(type(self.rule).__name__, "text")

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name = param.opts[-1] if param is not None else self.key
        if not isinstance(value, str):
            return self.rule.check(name, value)
        if isinstance(self.rule, ListOf):
            entry = self.rule.entry
            self.rule.check(name, [entry.parse(item.strip()) for item in value.split(",") if item.strip()])
            return value
        parsed = self.rule.check(name, self.rule.parse(value))
        return value if parsed is None else parsed  # 'none' stays a word: None would read as a flag left out


class Given(click.Path):
    """A path on the command line: a name on one line, and never a pipe, which may keep a command waiting for ever."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        name = param.opts[-1] if param is not None else "a path"
        Place().check(name, value)
        if not str(value).startswith("/dev/") and Path(value).is_fifo():
            raise OptionError(f"{name} must be {Place().allowed}, and {shown(value)} is a pipe: write it to a file first")
        return super().convert(value, param, ctx)


def check_output(out: str | None, *inputs: str | Path) -> None:
    """What a command writes is a file, in a folder that is there, and none of those it reads: found out before anything is."""
    if out is not None and (os.path.isdir(out) or not os.path.isdir(os.path.dirname(out) or ".")):
        raise OptionError(f"-o must be a file in a folder that exists; got {shown(out)}")
    for path in inputs if out is not None else ():
        if Path(str(out)).exists() and Path(path).exists() and Path(str(out)).samefile(path):
            raise OptionError(f"-o {out} is a file that this command reads: write somewhere else")


def flag(key: str) -> Flag:
    """The type of a flag."""
    return Flag(key)


def choice(name: str, words: list[str], help: str | None = None) -> Callable:
    """An option that takes one of these words; the first is its default."""
    return click.option(name, type=click.Choice(words), default=words[0], show_default=True, help=help)
