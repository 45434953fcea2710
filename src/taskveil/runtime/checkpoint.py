"""A run directory from which a killed run goes on, without spending twice and without using the same noise twice.

    run/
      lock                  held by the process that works here; a second one is refused
      plan.json             what was planned, from which public sizes, on which data (a fingerprint), which ledger run
      commits.jsonl         ids of committed releases, written and synced after the commit and before the noise is drawn
      billboard-00003.npz   what was published after round 3
      state.npz             task and server state after the last whole round; replaced atomically
      finished              nothing is left to do

Order within a round: commit (ledger, then commits.jsonl), noise, billboard, state. A round whose state was stored is never
repeated. A release that was committed but whose round was not stored is charged again and gets fresh noise; the first
draw was never published. Task state is private to the tasks; the folder belongs to whoever holds all rows.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np

from taskveil.checks import parse_json
from taskveil.errors import DataError
from taskveil.faults import point
from taskveil.methods.base import Billboard, PublicInfo
from taskveil.privacy.plan import Plan, PlannedRelease
from taskveil.privacy.release import Account
from taskveil.runtime.round import Position
from taskveil.runtime.run import executed_releases
from taskveil.saved import read_bytes, read_described, read_json, total, under
from taskveil.tasks.block import TaskBlock

FORMAT = 1


class Checkpoint:
    """The run directory of one plan on one data set, which is a block or its fingerprint."""

    def __init__(self, folder: str | Path, plan: Plan, public: PublicInfo, block: TaskBlock | str):
        self.folder = Path(folder)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            os.chmod(self.folder, 0o700)  # the state of a run holds models without noise
        except OSError as error:
            raise DataError(f"the run folder {folder} cannot be made or used: {error.strerror}; name another") from None
        self._alone = one_process(self.folder)
        self.plan, self.public = plan, public
        self._planned = {p.id: p for p in plan.releases}
        self._about = {"format": FORMAT, "plan": plan.to_dict(), "data": block if isinstance(block, str) else fingerprint(block)}
        self._check_same_run()

    # ------------------------------------------------------------- accounts

    def account(self, inner: Account) -> JournalAccount:
        """The account of this run, which also notes every commit in the run directory."""
        stored = self._stored()
        return JournalAccount(inner, self, stored.get("ledger_run") if stored else None)

    def opened(self, ledger_run: str | None) -> None:
        """Note the plan and the ledger's run id, once, before the first release."""
        write_atomically(self.folder / "plan.json", json.dumps({**self._about, "ledger_run": ledger_run}).encode())

    def note_commit(self, planned: PlannedRelease) -> None:
        point("journal.before")
        with open(self.folder / "commits.jsonl", "ab") as file:
            file.write(json.dumps({"id": planned.id}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        point("journal.after")

    def journal(self) -> list[str]:
        """Ids of committed releases; a half-written last line was never followed by noise."""
        path = self.folder / "commits.jsonl"
        if not path.exists():
            return []
        with total(str(path)):
            return [parse_json(line, str(path), DataError)["id"] for line in read_bytes(path).split(b"\n")[:-1]]

    # ------------------------------------------------------------ positions

    def load(self) -> Position | None:
        """Where the run stopped, or None for a new one; `executed` is what the journal says was committed."""
        with total(str(self.folder)):
            return self._load()

    def _load(self) -> Position | None:
        executed = [self._planned[i] for i in self.journal()]
        path = self.folder / "state.npz"
        if not path.exists():
            return Position({}, [], executed) if executed or self._stored() else None
        about, arrays = read_described(path)
        boards = [self.billboard(i) for i in about["billboards"]]
        self._check_journal(executed, len(about["schedule"]))
        return Position(under(arrays, "server/"), boards, executed, about["schedule"], tasks=under(arrays, "task/"))

    def _check_journal(self, executed: list[PlannedRelease], rounds: int) -> None:
        """A round that is over was committed before it was stored; a journal that lacks it was damaged."""
        over = sorted({p.round for p in self._planned.values()})[:rounds]
        made, some = {p.id for p in executed}, {p.round for p in executed}
        lost = {p.round for p in self._planned.values() if p.round in over and p.id not in made}
        if lost if self.plan.total is None else lost - some:  # where releases are chosen, one of each round was made
            raise DataError(f"{self.folder}: commits.jsonl lacks releases of rounds that are over; this run cannot be resumed")

    def save(self, at: Position) -> None:
        """Store a whole round: first what was published, then, in one rename, that the round is over."""
        boards = at.billboards
        for board in (boards[-1], boards[0]) if len(boards) == 2 else boards[-1:]:
            about, arrays = board_parts(board)
            write_arrays(self.folder / f"billboard-{board.round:05d}.npz", arrays, about)
        about = {
            "billboards": [b.round for b in boards],
            "schedule": [None if s is None else [int(i) for i in s] for s in at.schedule],
        }
        arrays = {f"task/{k}": v for k, v in at.tasks.items()} | {f"server/{k}": v for k, v in at.state.items()}
        write_arrays(self.folder / "state.npz", arrays, about)
        point("state.stored")

    def finish(self) -> None:
        write_atomically(self.folder / "finished", b"\n")

    @property
    def finished(self) -> bool:
        return (self.folder / "finished").exists()

    # ------------------------------------------------------------ internals

    def billboard(self, number: int) -> Billboard:
        """What was published after a round."""
        return board_from(*read_described(self.folder / f"billboard-{number:05d}.npz"))

    def _stored(self) -> dict[str, Any] | None:
        path = self.folder / "plan.json"
        return (read_json(path) or {}) if path.exists() else None

    def _check_same_run(self) -> None:
        """A run directory belongs to one plan on one data set; anything else would mix two runs."""
        stored = self._stored()
        if stored is None:
            return
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise DataError(f"{self.folder} was written by another version of taskveil; start a new run elsewhere")
        for what, text in (("plan", "another plan (method, options or budget)"), ("data", "other rows")):
            if stored.get(what) != json.loads(json.dumps(self._about[what])):
                raise DataError(f"{self.folder} holds a run of {text}; resume it unchanged, or use a new folder")


def one_process(folder: Path) -> Any:
    """An open file whose lock says that this process has the folder; it goes with the process, however that ends."""
    try:
        import fcntl
    except ImportError:  # no such locks on this system
        return None
    file = open(folder / "lock", "ab")  # noqa: SIM115
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        file.close()
        raise DataError(f"{folder} is in use by another process; wait for its end, or use a new folder") from None
    except OSError:
        pass  # a file system without locks
    return file


class JournalAccount:
    """An account whose commits are also noted in the run directory, before any noise is drawn."""

    def __init__(self, inner: Account, checkpoint: Checkpoint, ledger_run: str | None):
        self.inner, self.checkpoint = inner, checkpoint
        if ledger_run is not None and hasattr(inner, "run"):
            inner.run = ledger_run

    def reserve(self, plan: Plan) -> None:
        """A run that was reserved before goes on with that reservation."""
        self.checkpoint.opened(getattr(self.inner, "run", None))
        self.inner.reserve(plan)
        point("reserved")

    def commit(self, *planned: PlannedRelease) -> str:
        point("commit.before")
        entry = self.inner.commit(*planned)
        point("commit.after")
        for one in planned:
            self.checkpoint.note_commit(one)
        return entry

    def finish(self) -> bool | None:
        point("finish.before")
        returned = self.inner.finish()
        self.checkpoint.finish()
        point("finish.after")
        return returned

    def spent(self) -> list[Any]:
        return self.inner.spent()

    def executed(self, planned: dict[str, PlannedRelease]) -> list[PlannedRelease]:
        """What was really charged: the ledger's word where there is one, else the journal's."""
        ids = self.checkpoint.journal()
        if hasattr(self.inner, "committed"):
            ids = [release for release, _ in self.inner.committed()]
        return executed_releases(ids, planned)


def fingerprint(block: TaskBlock) -> str:
    """A hash of rows, targets and tasks; stays in the run directory, with the rows' owner."""
    digest = hashlib.sha256()
    for array in (block.X, block.y, block.offsets):
        digest.update(np.ascontiguousarray(array).view(np.uint8).data)
    return digest.hexdigest()


def board_parts(
    board: Billboard, values: str = "value/", accepted: str = "accepted"
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """A billboard as plain values and arrays, called so in a file; `board_from` reads them back."""
    arrays = {f"{values}{name}": np.asarray(value) for name, value in board.values.items()}
    if board.accepted is not None:
        arrays[accepted] = board.accepted
    return {"round": board.round, "per_task": sorted(board.per_task), "done": board.done}, arrays


def board_from(
    about: dict[str, Any], arrays: dict[str, np.ndarray], values: str = "value/", accepted: str = "accepted"
) -> Billboard:
    """The billboard that `board_parts` took apart."""
    per_task = frozenset(about["per_task"])
    return Billboard(about["round"], under(arrays, values), per_task, arrays.get(accepted), about["done"])


def write_arrays(path: Path, arrays: dict[str, np.ndarray], about: dict[str, Any] | None = None) -> None:
    """Arrays, and plain values beside them (`read_described` gets both)."""
    buffer, described = io.BytesIO(), {} if about is None else {"about": np.asarray(json.dumps(about))}
    np.savez(buffer, **arrays, **described)  # type: ignore[arg-type]
    write_atomically(path, buffer.getvalue())


def write_atomically(path: Path, content: bytes) -> None:
    """Write beside, sync, rename, sync the folder: a reader or a crash sees the old file or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    with open(temporary, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    point(f"{path.name}.written")
    os.replace(temporary, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    point(f"{path.name}.renamed")
