"""The command line: one file per command, loaded when it is called.

Exit codes: 0 good, 1 a check said no, 2 bad usage or bad input, 3 budget refused, 4 environment. `--json` prints one
JSON document on stdout; words and progress go to stderr. Errors never show a traceback (set TASKVEIL_DEBUG=1 for one).
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click
import rich_click

COMMANDS = {
    "demo": "Synthetic hospitals: alone, pooled and private, as a table and a page.",
    "fit": "Train a personal model for every task of a table.",
    "predict": "Predict with saved models.",
    "compare": "Methods and epsilons side by side on held-out rows.",
    "plan": "Noise, noise-to-signal and bounds before any data is read.",
    "certify": "Recompute a saved guarantee from its recorded events.",
    "audit": "Attack a mechanism or method: a lower bound on epsilon.",
    "ledger": "Budgets and spending over all runs.",
    "serve": "Run a federation's server.",
    "join": "Join a federation as a site.",
    "report": "One self-contained page about a run.",
    "reproduce": "A figure or table of a paper.",
    "data": "Data sets: list, fetch, path.",
}


class LazyGroup(rich_click.RichGroup):
    """Imports a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [name for name in COMMANDS if _exists(name)]

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS or not _exists(name):
            return None
        if ctx.resilient_parsing or "--help" in sys.argv[1:2] or len(sys.argv) == 1:
            return click.Command(name, help=COMMANDS[name], short_help=COMMANDS[name])
        return import_module(f"taskveil.cli.{name}").command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name]) for name in self.list_commands(ctx)])


def _exists(name: str) -> bool:
    from importlib.util import find_spec

    return find_spec(f"taskveil.cli.{name}") is not None


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="taskveil")
def main() -> None:
    """A personal model for every task, trained jointly, with a privacy guarantee you can check."""


def run(arguments: list[str] | None = None) -> None:
    """Entry point: exit codes by error class, no traceback for what a user can mend."""
    from taskveil.errors import TaskveilError

    try:
        code = main.main(args=arguments, standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        _fail("stopped", 130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except TaskveilError as error:
        if os.environ.get("TASKVEIL_DEBUG"):
            raise
        _fail(f"{type(error).__name__}: {error}", error.exit_code)
    except (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError) as error:
        _fail(f"{error.strerror}: {error.filename}", 2)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)


def _fail(message: str, code: int) -> None:
    click.echo(f"taskveil: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    run()
