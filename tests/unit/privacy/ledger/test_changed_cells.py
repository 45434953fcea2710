"""A ledger whose cells somebody changed by hand: `verify` says so, and whatever else reads it is refused in one line.

Nearly every case was a traceback-like "defect" before; whoever audits a ledger meets exactly these.
"""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from tests.support.wrong import label, one_line

import taskveil as tv
from taskveil.cli.main import run
from taskveil.privacy.ledger import Book, Key

CELLS = {
    "taskveil_accounts": ("held", "entries", "head"),
    "taskveil_entries": ("kind", "body", "run", "release"),
    "taskveil_runs": ("left",),
}
VALUES = ("", "null", "{}", "[" * 3000, b"\xff\0")
COMMANDS = (["show"], ["export"], ["report"], ["set", "a", "--epsilon", "60", "--delta", "1e-3"])


@pytest.fixture(scope="module")
def spent(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("spent") / "book.db"
    book = Book(f"sqlite:///{path}")
    book.set_limit(Key("a"), 50.0, 1e-3)
    data = tv.get_synthetic("tiny").train
    tv.TaskRegressor("mean", epsilon=1.0, ledger=f"sqlite:///{path}", account="a").fit(data)
    book.close()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        for (trigger,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            connection.execute(f"DROP TRIGGER {trigger}")
    return path


def said(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    with pytest.raises(SystemExit) as ended:
        run(["ledger", *words])
    return int(ended.value.code or 0), capsys.readouterr().err


@pytest.mark.parametrize("value", VALUES, ids=label)
@pytest.mark.parametrize(("table", "column"), [(table, column) for table, columns in CELLS.items() for column in columns])
def test_a_changed_cell_is_found_and_never_a_defect(table, column, value, spent, tmp_path, capsys):
    (tmp_path / "book.db").write_bytes(spent.read_bytes())
    with sqlite3.connect(tmp_path / "book.db") as connection:
        connection.execute(f'UPDATE {table} SET "{column}" = ?', (value,))
    url = f"sqlite:///{tmp_path / 'book.db'}"
    code, error = said(capsys, "verify", "--ledger", url)
    assert code == 1 and "defect" not in error
    for command in COMMANDS:
        code, error = said(capsys, *command, "--ledger", url)
        assert code in (0, 2, 4), error
        if code:
            one_line(error)


def test_the_ledger_as_it_was_is_whole(spent, capsys):
    assert said(capsys, "verify", "--ledger", f"sqlite:///{spent}")[0] == 0
    assert json.loads(Book(f"sqlite:///{spent}").accounts()[0].held)
