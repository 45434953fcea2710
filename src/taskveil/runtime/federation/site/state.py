"""A site's own files: what it must remember between messages, because Flower starts a new process for each one.

    state/
      run.json        the plan it agreed to (digest), its run id in the ledger, and where the rows are
      rows.npz        its rows, scaled, ready to compute with (mode 0600; never sent)
      secure.json     this site's part in the current secure sum (mode 0600): its secrets, until the sum is opened
      last.npz        number and bytes of the last reply, and the task state after it; replaced in one rename
      models.npz      its finished personal models, in the user's units (mode 0600)
      certificate.json, done.json

      answer.lock     held while a message is answered, so that two processes never answer at once

A reply is stored before it leaves. A message that is asked for again is answered with the stored bytes; a crash between
the charge and the store costs a second charge and fresh noise, and nothing of the first draw was ever sent.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.checks import Entries, Rule, Text, Whole, check_table
from taskveil.errors import DataError
from taskveil.methods.base import Models, State, View
from taskveil.runtime.checkpoint import write_arrays, write_atomically
from taskveil.saved import read_arrays, read_bytes, read_described, read_json, total, under
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.scaling import ARRAYS, Scaling

AGREED: dict[str, Rule] = {
    "digest": Text(), "ledger_run": Text(), "plan": Entries(), "messages": Whole(0), "federation": Text(),  # since 0.2.0
}  # fmt: skip


class SiteState:
    """The folder of one site for one federation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            os.chmod(folder, 0o700)
        except OSError as error:
            words = f"the state folder {folder} cannot be made or used: {error.strerror}; name another in site.toml"
            raise DataError(words) from None

    # ------------------------------------------------------- what was agreed

    def check_same(self, about: dict[str, Any]) -> None:
        """Another plan needs another folder."""
        agreement = self.agreed()
        common = {"digest", "federation"} & (agreement or {}).keys() & about.keys()
        if agreement is not None and any(agreement[name] != about[name] for name in common):
            raise DataError(f"{self.folder} belongs to a run with another plan; use a new state folder for a new run")

    def agree(self, about: dict[str, Any]) -> None:
        """Remember the plan this site said yes to."""
        self.check_same(about)
        if self.agreed() is None:
            write_atomically(self.folder / "run.json", json.dumps(about).encode())

    def agreed(self) -> dict[str, Any] | None:
        path = self.folder / "run.json"
        if not path.exists():
            return None
        about: dict[str, Any] = read_json(path)
        check_table(about, AGREED, str(path), DataError, tuple(AGREED)[:-1], closed=False)
        return about

    # ------------------------------------------------------------------ rows

    def keep_rows(self, block: TaskBlock, scaling: Scaling) -> None:
        arrays = {"X": block.X, "y": block.y, "offsets": block.offsets}
        arrays |= {f"scaling/{name}": np.asarray(values) for name, values in scaling.arrays.items()}
        _write_secret(self.folder / "rows.npz", arrays, {"kind": block.kind, **scaling.about})

    def rows(self) -> tuple[TaskBlock, Scaling]:
        path = self.folder / "rows.npz"
        about, arrays = read_described(path)
        with total(str(path)):
            block = TaskBlock(arrays["X"], arrays["y"], arrays["offsets"], kind=about["kind"])
            return block, Scaling.stored({name: arrays[f"scaling/{name}"] for name in ARRAYS}, about)

    # ------------------------------------------------- memory of the exchange

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Wait for whoever is answering; the kernel gives the lock back when its holder ends, however it ends."""
        with open(self.folder / "answer.lock", "a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def load(self) -> tuple[int, State, bytes] | None:
        path = self.folder / "last.npz"
        if not path.exists():
            return None
        arrays = read_arrays(path)
        with total(str(path)):
            return int(arrays["number"]), under(arrays, "state/"), arrays["reply"].tobytes()

    def save(self, number: int, state: State, reply: bytes) -> None:
        arrays = {f"state/{name}": np.asarray(value) for name, value in state.items()}
        arrays["number"] = np.asarray(number)
        arrays["reply"] = np.frombuffer(reply, dtype=np.uint8)
        _write_secret(self.folder / "last.npz", arrays)

    def load_secure(self) -> bytes | None:
        path = self.folder / "secure.json"
        return read_bytes(path) if path.exists() else None

    def save_secure(self, data: bytes) -> None:
        with _for_its_owner():
            write_atomically(self.folder / "secure.json", data)

    def keep_models(self, models: Models, view: View) -> None:
        arrays = {"coef": models.coef, "intercept": models.intercept}
        if models.coef.shape[-1]:
            _, scaling = self.rows()
            arrays["coef"], arrays["intercept"] = scaling.coef_back(models.coef, models.intercept)
        elif "params" in models.extra:  # a neural model: its parameters, for scaled rows
            arrays["params"] = models.extra["params"]
        if models.kept is not None:
            arrays["kept"] = models.kept
        _write_secret(self.folder / "models.npz", arrays)
        write_atomically(self.folder / "done.json", json.dumps({"round": view.round}).encode())

    @property
    def finished(self) -> bool:
        return (self.folder / "done.json").exists()


def _write_secret(path: Path, arrays: dict[str, np.ndarray], about: dict[str, Any] | None = None) -> None:
    with _for_its_owner():
        write_arrays(path, arrays, about)


@contextmanager
def _for_its_owner() -> Iterator[None]:
    """Files that are made meanwhile have mode 0600."""
    old = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(old)
