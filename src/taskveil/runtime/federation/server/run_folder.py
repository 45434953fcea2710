"""The server's run/ folder: for nobody else's eyes, for one federation.toml only, emptied when the run has ended.

It holds Flower's database with the sites' messages, which under 'curator' carry no noise yet.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path

from taskveil.checks import Entries, Flag, Text, Whole, check_table
from taskveil.errors import DataError, InputError, SecureSumRefused, TaskveilError
from taskveil.runtime.checkpoint import write_atomically
from taskveil.runtime.federation.config import Federation
from taskveil.saved import read_json

BEGAN = "federation.json"  # written first: the folder is this federation's
KEEP = ("lock", "superlink.log")  # all that stays after the end; the log names nodes and times


def open_run(folder: Path) -> Path:
    """run/, made or made private: mode 0700."""
    run = folder / "run"
    for made in (run, folder / "results"):
        if made.is_symlink() or (made.exists() and not made.is_dir()):  # a folder that is emptied must be ours
            raise DataError(f"{made} is a link or a file; expected a folder that only this federation uses. Move it away.")
    if run.is_dir() and not (run / BEGAN).exists() and {path.name for path in run.iterdir()} - set(KEEP):
        raise DataError(f"{run} holds files of something else, and would be emptied after the run; move it away.")
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(run, 0o700)
    return run


def read_nodes(path: Path) -> dict[str, int]:
    """Flower's node id of every registered site."""
    nodes: dict[str, int] = Entries(Whole(0, 2**64 - 1)).check(str(path), read_json(path), DataError)
    return nodes


def keep_refusal(path: Path, error: TaskveilError) -> None:
    """Why a run ended for good: it is not started again."""
    about = {"reason": str(error), "input": isinstance(error, InputError)}
    write_atomically(path, json.dumps(about).encode())


def refusal(path: Path) -> TaskveilError:
    """The error that `keep_refusal` wrote down."""
    about = read_json(path)
    check_table(about, {"reason": Text(at_least=0), "input": Flag()}, str(path), DataError, ("reason",))
    return DataError(about["reason"]) if about.get("input") else SecureSumRefused(about["reason"])


def check_same(federation: Federation) -> None:
    """Refuse to go on with, or to show the results of, a run that began with another federation.toml."""
    run, results = federation.folder / "run", federation.folder / "results"
    if (results / "run.json").exists():
        about = read_json(results / "run.json")
        if not isinstance(about, dict) or about.get("federation") != federation.digest:
            raise DataError(
                f"{results} holds the results of another federation.toml (or of version 0.1); nothing was started. "
                f"Move them away for a new run (mv {results} {results}-1), or put the old file back."
            )
    began = run / BEGAN
    if began.exists() and read_json(began) != federation.digest:
        raise DataError(
            f"federation.toml was changed while its run was under way; nothing was started. Put the old file back to finish "
            f"that run, or remove {run} for a new one: what sites have sent stays charged at the sites."
        )
    if not began.exists():
        write_atomically(began, json.dumps(federation.digest).encode())


def clean(folder: Path) -> None:
    """After the end nothing is kept that a site has sent."""
    for path in (folder / "run").iterdir():
        if path.name in KEEP:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
