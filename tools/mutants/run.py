"""Runs mutants: a copy of the package with one changed file, the fast tests of that file, and a failure expected.

One process loads what every test needs (pytest, NumPy, SciPy, dp-accounting, OpenDP) and forks a child for every mutant, so
that a mutant costs seconds of tests and no imports of other people's code. A child has its own copy of the package at the front
of its path. First all tests are run on an unchanged copy: where those fail, "caught" would mean nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.mutants.table import ROOT, SOURCE, Mutant

PATIENCE = 180  # seconds for the tests of one mutant; a mutant that hangs is noticed
PRELOADED = (
    "pytest", "_pytest.assertion", "hypothesis", "numpy.testing", "scipy.special", "scipy.stats", "scipy.optimize", "pandas",
    "sklearn.base", "sklearn.utils.validation", "sqlalchemy", "cryptography", "dp_accounting", "dp_accounting.pld",
    "opendp.prelude",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    mutant: Mutant | None  # None: the unchanged package
    tests: tuple[str, ...]
    caught: bool
    seconds: float
    log: str
    durations: dict[str, float]


def preload() -> None:
    """Import once what children would import every time; nothing of ours."""
    import importlib

    os.environ["PYTHONHASHSEED"] = "0"
    for name in PRELOADED:
        importlib.import_module(name)
    assert not any(name.split(".")[0] == "taskveil" for name in sys.modules)


def run_all(mutants: Sequence[Mutant | tuple[str, ...]], jobs: int, known: dict[str, float] | None = None) -> Iterator[Outcome]:
    """Outcomes as they come. A tuple of tests instead of a mutant asks for the unchanged package.

    `known` holds the seconds of single tests.
    """
    known = known or {}
    waiting, running = list(mutants), {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        copies = [_copy(Path(folder) / str(job)) for job in range(jobs)]
        while waiting or running:
            while waiting and copies:
                task, copy = waiting.pop(0), copies.pop()
                running[_start(task, copy, known)] = (task, copy, time.monotonic())
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                _kill_late(running)
                time.sleep(0.02)
                continue
            if pid in running:
                task, copy, started = running.pop(pid)
                yield _outcome(task, copy, status, time.monotonic() - started)
                copies.append(copy)


def _copy(folder: Path) -> Path:
    shutil.copytree(SOURCE, folder / "taskveil")
    return folder


def _start(task: Mutant | tuple[str, ...], copy: Path, known: dict[str, float]) -> int:
    if isinstance(task, Mutant):
        (copy / "taskveil" / task.file).write_text(task.text)
    tests = task.tests if isinstance(task, Mutant) else task
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _child(tests, copy, known)
    return pid


class FastFirst:
    """A pytest plugin: tests that took least time on the unchanged package come first, so that a fault shows early."""

    def __init__(self, path: Path, known: dict[str, float]) -> None:
        self.path, self.known, self.taken = path, known, {}

    def pytest_collection_modifyitems(self, items: list) -> None:
        items.sort(key=lambda item: self.known.get(item.nodeid, 0.0))

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.taken[report.nodeid] = self.taken.get(report.nodeid, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        self.path.write_text(json.dumps(self.taken))


def _child(tests: Sequence[str], copy: Path, known: dict[str, float]) -> None:
    """Never returns: the exit status is pytest's."""
    os.setsid()
    log = os.open(copy / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    status = 70
    try:
        sys.dont_write_bytecode = True
        os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(copy / "hypothesis")
        os.environ["PYTHONPATH"] = os.pathsep.join([str(copy), str(ROOT)])
        sys.path[:0] = [str(copy)]
        os.chdir(ROOT)
        import pytest

        options = ["-x", "-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:randomly", "--hypothesis-seed=0"]
        status = int(pytest.main([*options, *tests], plugins=[FastFirst(copy / "durations.json", known)]))
        import taskveil

        if not str(taskveil.__file__).startswith(str(copy)):
            status = 71  # the tests ran on another copy: nothing was tried
    except BaseException as problem:
        print(repr(problem))
    finally:
        sys.stdout.flush()
        os._exit(status)


def _kill_late(running: dict) -> None:
    for pid, (_, _, started) in running.items():
        if time.monotonic() - started > PATIENCE:
            os.killpg(pid, 9)


def _outcome(task: Mutant | tuple[str, ...], copy: Path, status: int, seconds: float) -> Outcome:
    log, path = (copy / "log").read_text(errors="replace"), copy / "durations.json"
    durations = json.loads(path.read_text()) if path.exists() else {}
    path.unlink(missing_ok=True)
    code = os.waitstatus_to_exitcode(status)
    if isinstance(task, Mutant):
        shutil.copyfile(SOURCE / task.file, copy / "taskveil" / task.file)
        # 1: a test failed. 2: the tests could not be collected (the package did not import). Negative: killed, it hung.
        if code not in (0, 1, 2) and code >= 0:
            raise RuntimeError(f"the tests of {task.name} could not be run (exit {code}):\n{log[-2000:]}")
        return Outcome(task, task.tests, code != 0, seconds, log, durations)
    return Outcome(None, task, code != 0, seconds, log, durations)
