"""What the ledger costs: the share it adds to `taskveil fit school` and to the bare call of `fit`, and milliseconds per commit.

The bare call takes some 50 ms. A reservation and one durable commit (both releases of the round) add about 2, of which the disk
takes a quarter; the command also measures each school's gain and writes models and a page.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import taskveil as tv
from benchmarks.timing import measured, take_turns
from taskveil.privacy.events import Charge, GaussianEvent
from taskveil.privacy.ledger import Book, Key

KEY, DELTA, COMMITS = Key("bench"), 1e-5, 20
MANY = 61  # turns of a call of 50 ms: with eleven the median moves by 3 % from run to run


def _book(folder: str) -> tuple[str, Book]:
    url = f"sqlite:///{Path(folder) / 'ledger.db'}"
    book = Book(url)
    book.set_limit(KEY, 1e6, DELTA)
    return url, book


def fit_command(repeats: int) -> dict:
    """Time of the whole command on School with a ledger over one without, turn by turn, in one process."""
    from taskveil.cli.main import run

    with tempfile.TemporaryDirectory() as folder:
        url, _ = _book(folder)

        def command(*more: str) -> None:
            wanted = ["fit", "school", "--epsilon", "0.01", "--delta", str(DELTA), "--json", "-o", f"{folder}/model", *more]
            try:
                with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere):
                    run(wanted)
            except SystemExit as end:
                if end.code:
                    raise RuntimeError(f"taskveil {' '.join(wanted)} ended with code {end.code}") from None

        turns = {"without": command, "with": lambda: command("--ledger", url, "--account", KEY.name)}
        times = take_turns(turns, repeats)
    return measured(times["with"] / times["without"], at_most=1.05, unit="ratio")


def fit_call(repeats: int) -> dict:
    """Time of the bare `fit` on School with a ledger over one without, turn by turn."""
    tasks = tv.load_tasks("school")

    def fit(ledger: str | None) -> None:
        account = KEY.name if ledger else None
        tv.TaskRegressor(epsilon=0.01, delta=DELTA, ledger=ledger, account=account).fit(tasks)

    with tempfile.TemporaryDirectory() as folder:
        url, _ = _book(folder)
        times = take_turns({"without": lambda: fit(None), "with": lambda: fit(url)}, max(repeats, MANY))
    return measured(times["with"] / times["without"], at_most=1.05, unit="ratio")


def commit_milliseconds(repeats: int) -> dict:
    """Wall time of one durable commit."""
    event = GaussianEvent(1000.0)
    with tempfile.TemporaryDirectory() as folder:
        _, book = _book(folder)

        def commits() -> None:
            run = book.reserve(KEY, [Charge(event, COMMITS)], DELTA)
            for number in range(COMMITS):
                book.commit(KEY, run, f"{number}/x", event)

        times = take_turns({"commits": commits}, repeats)["commits"]
    return measured(1e3 * times / COMMITS, at_most=5.0, unit="ms per commit")


BENCHMARKS = {
    "fit_command_with_a_ledger": fit_command,
    "fit_call_with_a_ledger": fit_call,
    "ledger_commit_ms": commit_milliseconds,
}
