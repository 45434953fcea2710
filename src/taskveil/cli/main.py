"""The command line: one file per command, loaded when it is called.

Exit codes: 0 good, 1 a check said no, 2 bad usage or bad input, 3 budget refused, 4 environment. `--json` prints one
JSON document on stdout; words and progress go to stderr. Errors never show a traceback (set TASKVEIL_DEBUG=1 for one).
"""

from __future__ import annotations

import errno
import os
import sys
import warnings
from importlib import import_module
from typing import Any

import click
import click.shell_completion
import rich_click

COMMANDS = {
    "demo": "Try it: made-up hospitals alone, pooled and private, as a table and a page.",
    "fit": "Train a personal model for every task of a table.",
    "declare": "Draft a declaration of ranges, levels and labels.",
    "predict": "Predict with saved models.",
    "adapt": "Train a model for a new task from what is public, at no privacy cost.",
    "compare": "Compare methods and epsilons on held-out rows.",
    "plan": "Show how much noise a run needs, before any row is read.",
    "certify": "Recompute a saved guarantee from its recorded run.",
    "audit": "Attack a run, a method or a mechanism: find a lower bound on epsilon.",
    "ledger": "Manage budgets and spending over all runs.",
    "serve": "Run a federation's server.",
    "join": "Join a federation as a site.",
    "status": "Show the state of a server or a site.",
    "report": "Write a self-contained page about a run.",
    "reproduce": "Reproduce a figure or table of a paper.",
    "data": "List, download and find public data sets.",
}
MOST_LETTERS = 10_000_000  # of a word on the command line


class LazyGroup(rich_click.RichGroup):
    """Imports a command's module only when the command is used; the list of commands imports none."""

    listing = False

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        if self.listing:
            return click.Command(name, help=COMMANDS[name], short_help=COMMANDS[name])
        return import_module(f"taskveil.cli.{name}").command

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.listing = True
        try:
            super().format_help(ctx, formatter)
        finally:
            self.listing = False

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[click.shell_completion.CompletionItem]:
        names = [n for n in self.list_commands(ctx) if n.startswith(incomplete)]
        return [click.shell_completion.CompletionItem(n, help=COMMANDS[n]) for n in names]


EPILOG = """Start with: taskveil demo. Then: taskveil fit visits.csv --task hospital --target days -o model/

Exit codes: 0 success, 1 a check failed, 2 wrong usage or input, 3 refused by the budget, 4 something is missing on this machine.

Completion: eval "$(_TASKVEIL_COMPLETE=bash_source taskveil)" (or zsh_source, fish_source)."""


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]}, epilog=EPILOG)
@click.version_option(package_name="taskveil")
def main() -> None:
    """A personal model for every task, trained jointly, with a privacy guarantee you can check."""


def run(arguments: list[str] | None = None) -> None:
    """Entry point: exit codes by error class, no traceback for what a user can mend."""
    from taskveil.checks import Text
    from taskveil.cli.progress import interruptible
    from taskveil.errors import TaskveilError, unexpected

    try:
        for word in sys.argv[1:] if arguments is None else arguments:
            Text(MOST_LETTERS, at_least=0).check("a word on the command line", word)
        with interruptible(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning, module=r"taskveil\.")  # commands print them as notes
            code = main.main(args=arguments, standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except click.exceptions.Abort:
        _fail("stopped", 130)
    except click.ClickException as error:
        _fail(error.format_message() + help_hint(error), 2)
    except TaskveilError as error:
        if os.environ.get("TASKVEIL_DEBUG"):
            raise
        _fail(f"{type(error).__name__}: {error}", error.exit_code)
    except (FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError) as error:
        _fail(f"{error.strerror}: {error.filename}", 2)
    except KeyboardInterrupt:
        _fail("stopped", 130)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except MemoryError:
        _fail("not enough memory on this machine for this table or method", 4)
    except OSError as error:
        named = error.errno in (errno.ENAMETOOLONG, errno.ELOOP)  # a name that cannot be one, not a fault of this machine
        _fail(f"{error.strerror or type(error).__name__}: {error.filename or 'input or output'}", 2 if named else 4)
    except Exception as error:
        if os.environ.get("TASKVEIL_DEBUG"):
            raise
        _fail(unexpected(error), 1)


def help_hint(error: click.ClickException) -> str:
    """Where to read on."""
    context = getattr(error, "ctx", None)
    return f" (see {context.command_path} --help)" if context is not None else ""


def _fail(message: str, code: int) -> None:
    from taskveil.errors import one_line

    click.echo(f"taskveil: {one_line(message)}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    run()
