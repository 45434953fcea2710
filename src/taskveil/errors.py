"""Exceptions of taskveil and the exit code each one gives the command line.

    TaskveilError                 1   anything of ours that went wrong
    |-- CheckFailed               1   a check said no (a certificate does not hold, an audit refutes a claim)
    |   `-- SecureSumRefused      1   a secure sum stopped before anything was released
    |-- InputError (ValueError)   2   what the caller gave cannot be used
    |   |-- DataError             2   tables, arrays, files
    |   |   `-- WrongType         2   ... of objects that are no numbers (a TypeError too, as scikit-learn expects)
    |   |-- OptionError           2   parameters and their combinations
    |   `-- UnknownName           2   a name that is in no table
    |-- BudgetExceeded            3   the privacy budget refuses; nothing was released
    `-- EnvironmentMissing        4   a missing extra, an unreachable server
        `-- LedgerUnavailable     4   the ledger cannot be opened or locked

Messages say what was expected, what came and what to do. They never contain values, norms or counts of
private data.
"""

from __future__ import annotations

import os

LONGEST = 800  # characters of a message


def one_line(text: str) -> str:
    """A text without control characters or line ends; of a very long one the beginning and the end, which say what to do."""
    words = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return words if len(words) <= LONGEST else f"{words[: LONGEST // 2]} ... {words[-LONGEST // 3 :]}"


class TaskveilError(Exception):
    """Base class of all errors raised on purpose by taskveil; whatever names and paths stand in it, its message is one line."""

    exit_code: int = 1

    def __str__(self) -> str:
        return one_line(super().__str__())


class CheckFailed(TaskveilError):
    """A check was carried out and its answer is no."""

    exit_code = 1


class SecureSumRefused(CheckFailed):
    """A secure sum was stopped (too few tasks, a changed message, a repeated round); nothing was released."""


class InputError(TaskveilError, ValueError):
    """What the caller gave cannot be used as it is."""

    exit_code = 2


class DataError(InputError):
    """A table, an array or a file does not have the expected form."""


class WrongType(DataError, TypeError):
    """An array holds objects that are neither numbers nor text."""


class OptionError(InputError):
    """A parameter, or a combination of parameters, is not allowed."""


class UnknownName(InputError):
    """A name that is not in the table it was looked up in."""


class BudgetExceeded(TaskveilError):
    """The privacy budget does not cover what was asked for; nothing was released."""

    exit_code = 3


class EnvironmentMissing(TaskveilError):
    """Something outside the program is missing: an optional package, a server, a device."""

    exit_code = 4


class LedgerUnavailable(EnvironmentMissing):
    """The ledger of privacy spending cannot be reached, locked or read."""


def unexpected(error: Exception) -> str:
    """Where a defect of ours struck; not its message, which may quote values of private rows."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "taskveil" in code.co_filename:
            place = f" in {os.path.basename(code.co_filename)}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return (
        f"unexpected {type(error).__name__}{place}. This is a defect of taskveil; its text is not shown because it may hold "
        "values of your rows. TASKVEIL_DEBUG=1 shows it."
    )
