"""The server's run/ folder: for nobody else's eyes, for one federation.toml only, emptied when the run has ended.

It holds Flower's database with the sites' messages, which under 'curator' carry no noise yet.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from pathlib import Path

from taskveil.errors import DataError
from taskveil.runtime.checkpoint import write_atomically
from taskveil.runtime.federation.config import Federation
from taskveil.saved import read_json

KEEP = ("lock", "superlink.log")  # all that stays after the end; the log names nodes and times


def open_run(folder: Path) -> Path:
    """run/, made or made private: mode 0700."""
    run = folder / "run"
    run.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.chmod(run, 0o700)
    return run


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
    began = run / "federation.json"
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
