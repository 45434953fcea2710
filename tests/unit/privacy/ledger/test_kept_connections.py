"""A process keeps its connection to a ledger, and never to another file that stands where the ledger was."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import sqlite3

import pytest

from taskveil.errors import LedgerUnavailable, UnknownName
from taskveil.privacy.events import Charge, GaussianEvent
from taskveil.privacy.ledger import Book, Key, database

KEY = Key("here")


def spend(url: str, releases: int = 1) -> None:
    book = Book(url)
    run = book.reserve(KEY, [Charge(GaussianEvent(3.0), releases)], 1e-5)
    for k in range(releases):
        book.commit(KEY, run, f"{k}/x", GaussianEvent(3.0))
    book.finish(KEY, run)


@pytest.fixture
def url(tmp_path):
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    for _ in range(2):  # the first makes the file, the second is kept
        Book(url).set_limit(KEY, 100.0, 1e-5)
    return url


def test_a_second_book_uses_the_connection_of_the_first(url):
    assert Book(url).database._engine is Book(url).database._engine


def test_a_ledger_that_a_newer_program_changed_in_between_is_refused(url, tmp_path):
    spend(url)
    with sqlite3.connect(tmp_path / "ledger.db") as raw:
        raw.execute("INSERT INTO taskveil_steps VALUES ('99 of the future')")
    with pytest.raises(LedgerUnavailable, match="newer version"):
        spend(url)


def test_an_account_that_was_found_once_is_not_looked_for_again_and_a_new_file_forgets_it(url, tmp_path):
    about = (KEY.unit, KEY.neighbours, KEY.observer)
    assert Book(url).key_for("here", *about) == KEY and KEY in Book(url).database.open_accounts
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(UnknownName):
        Book(url).key_for("here", *about)


def test_a_file_that_was_deleted_and_made_anew_is_opened_anew(url, tmp_path):
    spend(url)
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(UnknownName):
        Book(url).reserve(KEY, [Charge(GaussianEvent(3.0))], 1e-5)
    Book(url).set_limit(KEY, 50.0, 1e-5)
    assert Book(url).spent(KEY) == (0.0, 50.0)


def test_the_check_of_the_place_is_what_notices(url, tmp_path, monkeypatch):
    """The twin: without it the program would go on writing into a file that nobody can see any more."""
    spend(url)
    before = Book(url).spent(KEY)
    monkeypatch.setattr(database, "_place", lambda engine: "anywhere")
    Book(url)
    for path in tmp_path.iterdir():
        path.unlink()
    assert Book(url).spent(KEY) == before and not (tmp_path / "ledger.db").exists()
    Book(url).close()


def test_a_copy_put_in_its_place_is_opened_anew(url, tmp_path, tmp_path_factory):
    backup = tmp_path_factory.mktemp("backup") / "copy"
    shutil.copytree(tmp_path, backup)
    spend(url)
    assert Book(url).spent(KEY)[0] > 0
    for path in tmp_path.iterdir():
        path.unlink()
    shutil.copytree(backup, tmp_path, dirs_exist_ok=True)
    assert Book(url).spent(KEY)[0] == 0.0


def test_closing_forgets_the_connection(url):
    kept = Book(url)
    kept.close()
    assert Book(url).database._engine is not kept.database._engine


@pytest.mark.skipif(not hasattr(os, "fork"), reason="fork only")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_opens_its_own_connection_and_both_sides_count(url):
    mine = Book(url).database._engine

    def child() -> None:
        fresh = Book(url).database._engine is not mine
        spend(url)
        os._exit(0 if fresh else 1)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(30)
    assert process.exitcode == 0
    one = Book(url).spent(KEY)[0]
    spend(url)
    assert Book(url).spent(KEY)[0] > one > 0
    assert Book(url).verify() == []


def test_only_a_few_ledgers_stay_open(tmp_path):
    books = []
    for k in range(database.MOST_KEPT + 3):
        for _ in range(2):
            books.append(Book(f"sqlite:///{tmp_path / str(k)}.db"))
        books[-1].set_limit(KEY, 10.0, 1e-5)
    assert len(database._kept) <= database.MOST_KEPT
    assert [book.spent(KEY) for book in books] == [(0.0, 10.0)] * len(books), "and all of them still answer"
