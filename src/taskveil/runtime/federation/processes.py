"""Child processes of `taskveil serve` and `taskveil join`: restarted when they die, never left behind.

A child gets its own process group and is told by the kernel to end when its parent does (Linux), so that even a killed
parent leaves nothing running. Output goes to a log file, never to the terminal of a script that reads JSON.

One server or site per folder: a lock that the kernel drops when the process ends, however it ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from taskveil.errors import DataError, EnvironmentMissing

QUIET = {"FLWR_TELEMETRY_ENABLED": "0", "FLWR_DISABLE_UPDATE_CHECK": "1", "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.3"}
PR_SET_PDEATHSIG = 1


class Child:
    """One command that is kept running until `stop`."""

    def __init__(self, command: Sequence[str], log: Path, environment: dict[str, str], restart_after: float = 1.0) -> None:
        self.command, self.log, self.environment = list(command), log, environment
        self.restart_after = restart_after
        self.starts = 0
        self._next_start = 0.0
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self.starts += 1
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen(
                self.command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=self.environment,
                start_new_session=True, preexec_fn=_die_with_parent,
            )  # fmt: skip

    def keep_running(self) -> None:
        """Start it, or start it again if it has died; the pause grows to a quarter of a minute."""
        if self.process is not None and self.process.poll() is None:
            return
        now = time.monotonic()
        if self.process is not None and self._next_start == 0.0:
            self._next_start = now + min(self.restart_after * 1.3 ** min(self.starts - 1, 12), 15.0)
        if now >= self._next_start:
            self._next_start = 0.0
            self._end_group()
            self.start()

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def stop(self, patience: float = 8.0) -> None:
        """End it and everything it started."""
        if self.process is None:
            return
        family = _descendants(self.process.pid)
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self._end_group()
        for pid in family:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def _end_group(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a child: quiet, with its own Flower folder, and this Python first on the path."""
    home.mkdir(parents=True, exist_ok=True)
    place = str(Path(sys.executable).parent)
    path = os.pathsep.join([place, os.environ.get("PATH", "")])
    return {**os.environ, **QUIET, "FLWR_HOME": str(home), "PATH": path, **more}


def tool(name: str) -> str:
    """A Flower program beside this Python."""
    program = Path(sys.executable).parent / name
    if not program.exists():
        raise EnvironmentMissing(f"{name} is not installed; pip install 'taskveil[federated]'")
    return str(program)


def speakable(path: Path) -> None:
    """Refuse a path that Flower's command line cannot be told."""
    if not str(path).isprintable() or set(str(path)) & {'"', "\\"}:
        raise DataError(f"{str(path)!r} holds a quotation mark, a backslash or a control character; use a folder without one")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def listening(address: str) -> bool:
    """Whether somebody listens at HOST:PORT."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=5.0):
            return True
    except OSError:
        return False


def wait_for_port(host: str, port: int, seconds: float, child: Child) -> None:
    """Until somebody listens there."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if listening(f"{host}:{port}"):
            return
        if not child.alive:
            raise EnvironmentMissing(f"the server process ended at once; see {child.log}")
        time.sleep(0.1)
    raise EnvironmentMissing(f"nothing listens on {host}:{port} after {seconds:.0f} s; see {child.log}")


def _die_with_parent() -> None:
    os.umask(0o077)  # what a server keeps between messages is for nobody else
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _descendants(pid: int) -> list[int]:
    """Ids of all processes below `pid`, from /proc; empty where there is none."""
    descendants, queue = [], [pid]
    while queue:
        parent = queue.pop()
        for path in Path("/proc").glob(f"{parent}/task/*/children"):
            with contextlib.suppress(OSError):
                children = [int(c) for c in path.read_text().split()]
                descendants += children
                queue += children
    return descendants


@contextmanager
def only_one(folder: Path, what: str) -> Iterator[None]:
    """Hold the folder's lock, or refuse at once."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise EnvironmentMissing(f"{what} is already running in {folder}; stop it first") from None
        yield
