"""One Ctrl-C ends a command, wherever it strikes, and leaves nothing half done."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import nullcontext

import pytest

from taskveil.cli import progress
from taskveil.cli.progress import interruptible
from taskveil.privacy.ledger import Book, Key


@pytest.fixture(autouse=True)
def in_the_foreground():
    """Interrupts count as on a terminal, also where the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


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
            patiently(seconds)
    except KeyboardInterrupt:
        return False
    return True


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interrupt_that_python_swallows_is_raised_again(monkeypatch):
    monkeypatch.setattr(progress, "AGAIN", 0.05)
    assert not works_on(5.0, interruptible())
    assert works_on(0.3, nullcontext())  # twin: without the guard it is lost


def patiently(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.005)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_cleaning_up_is_not_interrupted_again(monkeypatch):
    monkeypatch.setattr(progress, "AGAIN", 0.02)
    finished = []
    with pytest.raises(KeyboardInterrupt), interruptible():
        try:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        except KeyboardInterrupt as stopped:  # as click does, which turns it into an error of its own
            try:
                raise RuntimeError("aborted") from stopped
            except RuntimeError:
                patiently(0.2)
                finished.append("converted")
                raise KeyboardInterrupt from None
        finally:
            patiently(0.2)
            finished.append("cleaned up")
    assert finished == ["converted", "cleaned up"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def releases(books: str) -> int:
    """How many the ledger has charged."""
    book = Book(books)
    return sum(entry.kind == "commit" for entry in book.rows(book.accounts()[0].id))


@pytest.mark.kills
def test_one_interrupt_late_in_an_asynchronous_run_ends_it_and_keeps_the_books(tmp_path):
    """Stopped amid its messages, far from the end on any machine; the ledger verifies afterwards, with all that was spent."""
    books, some = f"sqlite:///{tmp_path}/books.db", 75
    Book(books).set_limit(Key("a", "task", "replace-one", "other-tasks"), 10.0, 1e-5)
    words = f"fit synthetic:hospitals?n_tasks=20 --method async --set rounds=600 --epsilon 4 --ledger {books} --account a".split()
    code = "import sys, signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    code += "from taskveil.cli.main import run; run(sys.argv[1:])"
    started = subprocess.Popen([sys.executable, "-c", code, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    while started.poll() is None and releases(books) < some:
        time.sleep(0.2)
    assert started.poll() is None, started.stderr.read()
    started.send_signal(signal.SIGINT)
    _, said = started.communicate(timeout=60)
    assert started.returncode == 130 and "stopped" in said and "Traceback" not in said
    check = subprocess.run([sys.executable, "-c", code, "ledger", "verify", "--ledger", books], cwd=tmp_path, check=False)
    assert check.returncode == 0 and releases(books) >= some


def test_an_interrupt_while_the_command_is_loaded_is_one_line(monkeypatch, capsys):
    """Importing takes half a second, in which Ctrl-C printed a traceback."""
    from taskveil.cli import __main__, main

    def stopped():
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "run", stopped)
    with pytest.raises(SystemExit) as ended:
        __main__.run()
    assert ended.value.code == 130 and capsys.readouterr().err == "taskveil: stopped\n"
