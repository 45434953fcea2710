"""Real federations on loopback for tests: files, processes, and proof that nothing is left running."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

SITES = ("north", "south", "west")
ROWS = 40
FEATURES = ("x0", "x1", "x2")


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Trial:
    """Sites (three) and a server below one folder; a context manager that ends whatever it started."""

    def __init__(
        self, folder: Path, run: str, limit: float = 10.0, deadline: int = 120, min_sites: int = 3, sites: Sequence[str] = SITES
    ) -> None:
        from taskveil.runtime.federation.server import serve

        self.folder, self.port, self.sites = folder / "trial", free_port(), tuple(sites)
        self.processes: dict[str, subprocess.Popen] = {}
        serve.init(self.folder, list(sites), ["127.0.0.1"], self.port, "trial")
        self._write_config(run, deadline, min_sites)
        rng = np.random.default_rng(0)
        for i, site in enumerate(sites):
            self._write_rows(site, rng, i)
            path = self.folder / "sites" / site / "site.toml"
            path.write_text(path.read_text().replace("epsilon = 2.0", f"epsilon = {limit}"))

    def __enter__(self) -> Trial:
        return self

    def __exit__(self, *error: object) -> None:
        for process in self.processes.values():
            if process.poll() is None:
                process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    # ------------------------------------------------------------- commands

    def serve(self, **environment: str) -> subprocess.Popen:
        return self.start("serve", ["serve", "--config", str(self.folder / "federation.toml")], **environment)

    def join(self, site: str, **environment: str) -> subprocess.Popen:
        config, data = self.folder / "sites" / site / "site.toml", self.folder / f"{site}.csv"
        return self.start(site, ["join", "--config", str(config), "--data", str(data)], **environment)

    def words(self, name: str) -> str:
        return (self.folder / f"{name}.out").read_text()

    def state(self, site: str) -> Path:
        return self.folder / "sites" / site / "state"

    def wait(self, condition, seconds: float) -> None:
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                words = {name: self.words(name)[-400:] for name in self.processes}
                left = [Path(f"/proc/{p}/cmdline").read_text().split("\0")[1:3] for p in self.left_running()]
                raise AssertionError(f"not reached within {seconds:.0f} s; {words}; running: {left}")
            time.sleep(0.2)

    def finish(self, seconds: float) -> None:
        """Wait until server and sites have ended by themselves, with exit code 0."""
        self.wait(lambda: all(p.poll() is not None for p in self.processes.values()), seconds)
        codes = {name: p.returncode for name, p in self.processes.items()}
        assert set(codes.values()) == {0}, (codes, {n: self.words(n)[-400:] for n in codes})

    def left_running(self) -> list[int]:
        """Processes whose environment mentions this trial's folder."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                if str(self.folder).encode() in (path / "environ").read_bytes() and int(path.name) != os.getpid():
                    found.append(int(path.name))
            except OSError:
                continue
        return found

    def children(self, name: str, program: str) -> list[int]:
        """Processes of this trial with `program` in their command line and `name` in their environment."""
        found = []
        for pid in self.left_running():
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
                environ = Path(f"/proc/{pid}/environ").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if program in command and name in environ:
                found.append(pid)
        return found

    def kill_everything_of(self, name: str) -> None:
        """SIGKILL a command and all it started, as a power cut would."""
        place = "run/flower" if name == "serve" else f"sites/{name}/state"
        pids = {self.processes[name].pid, *self.children(place, "")}
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.processes[name].wait()

    # ---------------------------------------------------------------- files

    def start(self, name: str, arguments: list[str], **more: str) -> subprocess.Popen:
        """A command of ours, in the background; `more` goes into its environment."""
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **more}
        with open(self.folder / f"{name}.out", "ab") as out:
            process = subprocess.Popen(
                [sys.executable, "-m", "taskveil.cli", *arguments], stdout=out, stderr=out, env=environment
            )
        self.processes[name] = process
        return process

    def _write_config(self, run: str, deadline: int, min_sites: int) -> None:
        sites = "".join(
            f'\n[[sites]]\nname = "{s}"\ntasks = ["{s}"]\nkey = "keys/{s}.pub"\nrows = [{ROWS}]\n' for s in self.sites
        )
        (self.folder / "federation.toml").write_text(
            f'[federation]\nname = "trial"\nhost = "127.0.0.1"\nport = {self.port}\n\n'
            f'[data]\nkind = "regression"\nfeatures = {list(FEATURES)}\ntarget = "y"\n'
            '[data.bounds]\nfeatures = { "*" = [-1, 1] }\ntarget = [-3, 3]\n\n'
            f"[run]\n{run}\n\n[rules]\ndeadline = {deadline}\nmin_sites = {min_sites}\n{sites}"
        )

    def _write_rows(self, site: str, rng: np.random.Generator, i: int) -> None:
        X = rng.uniform(-1, 1, (ROWS, len(FEATURES)))
        y = X @ np.array([1.0, -0.5, 0.3]) * (1 + 0.2 * i) + 0.1 * rng.standard_normal(ROWS)
        lines = [",".join([*FEATURES, "y", "task"])]
        lines += [",".join([*(f"{v:.6f}" for v in row), f"{t:.6f}", site]) for row, t in zip(X, np.clip(y, -3, 3))]
        (self.folder / f"{site}.csv").write_text("\n".join(lines) + "\n")


def misbehaving(role: str, log: Path, **more: object) -> dict[str, str]:
    """The environment of a server or site that misbehaves in this way (misbehave/sitecustomize.py)."""
    here = Path(__file__).parent
    path = os.pathsep.join([str(here / "misbehave"), str(here.parents[1]), os.environ.get("PYTHONPATH", "")])
    settings = {f"TASKVEIL_TEST_{name.upper()}": str(value) for name, value in more.items()}
    return {"PYTHONPATH": path, "TASKVEIL_TEST_ROLE": role, "TASKVEIL_TEST_LOG": str(log), **settings}
