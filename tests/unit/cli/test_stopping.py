"""One Ctrl-C ends a command, wherever it strikes, and leaves nothing half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest

from taskveil.cli import stopping
from taskveil.cli.stopping import interruptible


class Swallower:
    """Python ignores what a destructor raises: an interrupt that arrives there is lost."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0)  # the handler runs here


def works_on(seconds: float, guard) -> bool:
    """True where the work went on to its end although it was interrupted."""
    try:
        with guard:
            Swallower()
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                time.sleep(0.01)
    except KeyboardInterrupt:
        return False
    return True


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_swallows_is_raised_again(monkeypatch):
    monkeypatch.setattr(stopping, "AGAIN", 0.05)
    assert not works_on(5.0, interruptible())
    assert works_on(0.3, nullcontext())  # twin: without the guard it is lost


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_cleaning_up_is_not_interrupted_again(monkeypatch):
    monkeypatch.setattr(stopping, "AGAIN", 0.02)
    finished = []
    with pytest.raises(KeyboardInterrupt), interruptible():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        finally:
            until = time.monotonic() + 0.2
            while time.monotonic() < until:
                time.sleep(0.005)
            finished.append(True)
    assert finished and signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.kills
def test_one_interrupt_late_in_an_asynchronous_run_ends_it_and_keeps_the_books(tmp_path):
    """The run is stopped in its last third, by the number of messages it has charged; the ledger verifies afterwards."""
    words = ["fit", "synthetic:hospitals?n_tasks=30", "--method", "async", "--unit", "task", "--set", "messages=400", "--epsilon", "4",
             "--ledger", f"sqlite:///{tmp_path}/books.db", "-o", "run"]  # fmt: skip
    code = "import sys; from taskveil.cli.main import run; run(sys.argv[1:])"
    started = subprocess.Popen([sys.executable, "-c", code, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "books.db").exists() and started.poll() is None:
        time.sleep(0.05)
    time.sleep(1.0)
    assert started.poll() is None, started.stderr.read()
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130 and "stopped" in said and "Traceback" not in said
    check = subprocess.run([sys.executable, "-c", code, "ledger", "verify", "--ledger", words[-3]], cwd=tmp_path, check=False)
    assert check.returncode == 0
