"""The rules of the ledger, one by one."""

from __future__ import annotations

import json
import sqlite3

import pytest

from taskveil.errors import BudgetExceeded, LedgerUnavailable, OptionError, UnknownName
from taskveil.privacy.accountants.base import Rdp
from taskveil.privacy.events import Charge, GaussianEvent, PureEvent, UncertifiedEvent
from taskveil.privacy.ledger import Book, Key
from taskveil.privacy.ledger.holdings import Holdings

KEY = Key("hospitals")
EVENT = GaussianEvent(8.0)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.db"


@pytest.fixture
def book(path):
    book = Book(f"sqlite:///{path}")
    book.set_limit(KEY, 2.0, 1e-5)
    return book


def test_totals_compose_by_renyi_accounting_and_not_by_adding_epsilons(book):
    for _ in range(4):
        run = book.reserve(KEY, [Charge(EVENT)], 1e-5)
        book.commit(KEY, run, "1/x", EVENT)
        book.finish(KEY, run)
    spent, _ = book.spent(KEY)
    assert spent == pytest.approx(Rdp().epsilon([Charge(EVENT, 4)], 1e-5), rel=1e-9)
    assert spent < 4 * Rdp().epsilon([Charge(EVENT)], 1e-5)


def test_a_plan_that_would_pass_the_limit_is_refused_and_leaves_no_trace(book):
    with pytest.raises(BudgetExceeded, match="Nothing was released"):
        book.reserve(KEY, [Charge(GaussianEvent(0.5))], 1e-5)
    assert book.spent(KEY)[0] == 0.0
    assert [e.kind for e in book.rows(1)] == ["limit"]


def test_what_was_reserved_and_not_committed_goes_back_when_the_run_is_finished(book):
    run = book.reserve(KEY, [Charge(EVENT, 10)], 1e-5)
    book.commit(KEY, run, "1/x", EVENT)
    book.finish(KEY, run)
    assert book.spent(KEY)[0] == pytest.approx(Rdp().epsilon([Charge(EVENT)], 1e-5))
    book.finish(KEY, run)
    assert book.spent(KEY)[0] == pytest.approx(Rdp().epsilon([Charge(EVENT)], 1e-5))


def test_a_finished_run_takes_no_commit(book):
    run = book.reserve(KEY, [Charge(EVENT, 2)], 1e-5)
    book.finish(KEY, run)
    with pytest.raises(BudgetExceeded, match="finished"):
        book.commit(KEY, run, "1/x", EVENT)


def test_a_run_that_was_never_reserved_takes_no_commit(book):
    with pytest.raises(BudgetExceeded, match="never reserved"):
        book.commit(KEY, "no-such-run", "1/x", EVENT)


def test_a_release_committed_twice_is_charged_twice(book):
    run = book.reserve(KEY, [Charge(EVENT)], 1e-5)
    book.commit(KEY, run, "1/x", EVENT)
    book.commit(KEY, run, "1/x", EVENT)
    book.finish(KEY, run)
    assert book.spent(KEY)[0] == pytest.approx(Rdp().epsilon([Charge(EVENT, 2)], 1e-5))


def test_charging_again_is_refused_where_the_limit_does_not_allow_it(path):
    book = Book(f"sqlite:///{path}")
    book.set_limit(KEY, 1.001 * Rdp().epsilon([Charge(EVENT)], 1e-5), 1e-5)
    run = book.reserve(KEY, [Charge(EVENT)], 1e-5)
    book.commit(KEY, run, "1/x", EVENT)
    with pytest.raises(BudgetExceeded, match="once more"):
        book.commit(KEY, run, "1/x", EVENT)


def test_releases_committed_together_are_written_all_or_none(path):
    book = Book(f"sqlite:///{path}")
    book.set_limit(KEY, 1.001 * Rdp().epsilon([Charge(EVENT)], 1e-5), 1e-5)
    run = book.reserve(KEY, [Charge(EVENT)], 1e-5)
    with pytest.raises(BudgetExceeded, match="once more"):
        book.commit_all(KEY, run, [("1/x", EVENT), ("1/y", EVENT)])
    assert [e.kind for e in book.rows(1)] == ["limit", "reserve"], "not even the first, which was paid for"
    assert book.commit_all(KEY, run, [("1/x", EVENT)]).left == 0


def test_two_releases_in_one_commit_are_two_entries_of_an_unbroken_chain(book):
    other = GaussianEvent(9.0)
    run = book.reserve(KEY, [Charge(EVENT), Charge(other, 2)], 1e-5)
    done = book.commit_all(KEY, run, [("1/x", EVENT), ("1/y", other)])
    assert done.entries == ["hospitals/3", "hospitals/4"] and done.left == 1
    assert book.committed(KEY, run) == [("1/x", EVENT), ("1/y", other)] and book.verify() == []


def test_one_release_named_twice_in_one_commit_is_charged_twice(book):
    run = book.reserve(KEY, [Charge(EVENT, 2)], 1e-5)
    book.commit_all(KEY, run, [("1/x", EVENT), ("1/x", EVENT)])
    assert book.spent(KEY)[0] == pytest.approx(Rdp().epsilon([Charge(EVENT, 3)], 1e-5)), "reserved twice, and once on top"


def test_a_run_that_committed_all_it_reserved_holds_nothing_and_pays_for_what_it_makes_again(book):
    run = book.reserve(KEY, [Charge(EVENT)], 1e-5)
    assert book.open_runs(KEY) == [run]
    book.commit(KEY, run, "1/x", EVENT)
    assert book.open_runs(KEY) == []
    book.commit(KEY, run, "1/x", EVENT)
    assert book.spent(KEY)[0] == pytest.approx(Rdp().epsilon([Charge(EVENT, 2)], 1e-5)) and book.verify() == []
    book.finish(KEY, run)
    with pytest.raises(BudgetExceeded, match="finished"):
        book.commit(KEY, run, "1/x", EVENT)


def waits_for_the_disk(book, call):
    """What SQLite was told about syncing when `call` committed: 2 waits for the disk, 1 does not."""
    call()
    connection = book.database._engine.raw_connection()
    (level,) = connection.cursor().execute("PRAGMA synchronous").fetchone()
    connection.close()
    return level == 2


def test_commits_and_limits_wait_for_the_disk_and_a_reservation_does_not(book):
    """A power cut ends the run that reserved; a commit must outlive it, because its noise may have been seen."""
    assert not waits_for_the_disk(book, lambda: book.reserve(KEY, [Charge(EVENT, 2)], 1e-5, "a run"))
    assert waits_for_the_disk(book, lambda: book.commit(KEY, "a run", "1/x", EVENT))
    assert not waits_for_the_disk(book, lambda: book.reserve(KEY, [Charge(EVENT)], 1e-5, "another"))
    assert waits_for_the_disk(book, lambda: book.finish(KEY, "a run"))
    assert not waits_for_the_disk(book, lambda: book.reserve(KEY, [Charge(EVENT)], 1e-5, "a third"))
    assert waits_for_the_disk(book, lambda: book.set_limit(KEY, 3.0, 1e-5))


def test_the_check_notices_a_commit_that_does_not_wait_for_the_disk(book, monkeypatch):
    """The twin, with the fault planted."""
    transaction = book.database.transaction
    monkeypatch.setattr(book.database, "transaction", lambda durable=False: transaction(durable=False))
    run = book.reserve(KEY, [Charge(EVENT)], 1e-5)
    assert not waits_for_the_disk(book, lambda: book.commit(KEY, run, "1/x", EVENT))


def test_a_reservation_lost_with_the_power_can_be_made_again_under_its_name(book, path):
    """What resuming such a run finds: its id, and no reservation; it reserves again, or is refused."""
    book.reserve(KEY, [Charge(EVENT)], 1e-5, "lost")
    with sqlite3.connect(path) as raw:  # the last transaction, as if the disk had never seen it
        raw.execute("DROP TRIGGER taskveil_no_delete")
        raw.execute("DELETE FROM taskveil_runs")
        raw.execute("DELETE FROM taskveil_entries WHERE kind = 'reserve'")
        head = raw.execute("SELECT hash FROM taskveil_entries").fetchone()[0]
        raw.execute("UPDATE taskveil_accounts SET entries = 1, head = ?, held = ?", (head, Holdings().to_json()))
    with pytest.raises(BudgetExceeded, match="never reserved"):
        book.commit(KEY, "lost", "1/x", EVENT)
    book.reserve(KEY, [Charge(EVENT)], 1e-5, "lost")
    book.commit(KEY, "lost", "1/x", EVENT)
    assert book.verify() == []


def test_an_event_that_was_not_reserved_is_charged_on_top(book):
    run = book.reserve(KEY, [Charge(EVENT)], 1e-5)
    stronger = GaussianEvent(4.0)
    book.commit(KEY, run, "1/x", stronger)
    assert book.spent(KEY)[0] >= Rdp().epsilon([Charge(EVENT), Charge(stronger)], 1e-5) * (1 - 1e-9)


def test_a_limit_of_one_allows_one_run_of_exactly_one_and_then_nothing(path):
    """The first plan decides the rule; an exact accountant is valid for one fixed plan."""
    from taskveil.privacy.contributions import VectorSum
    from taskveil.privacy.plan import Budget, Request, make_plan

    plan = make_plan([Request("x", 1, VectorSum((3,), 1.0))], Budget(1.0, 1e-5))
    book = Book(f"sqlite:///{path}")
    book.set_limit(KEY, 1.0, 1e-5)
    run = book.reserve(KEY, plan.charges(), 1e-5)
    book.commit(KEY, run, "1/x", plan.releases[0].event)
    book.finish(KEY, run)
    assert book.spent(KEY)[0] <= 1.0
    with pytest.raises(BudgetExceeded):
        book.reserve(KEY, [Charge(GaussianEvent(100.0))], 1e-5)


def test_an_uncertified_event_is_always_refused(book):
    with pytest.raises(BudgetExceeded):
        book.reserve(KEY, [Charge(UncertifiedEvent("no noise"))], 1e-5)


def test_pure_events_are_accounted_too(book):
    run = book.reserve(KEY, [Charge(PureEvent(0.1), 3)], 1e-5)
    book.finish(KEY, run)
    assert book.spent(KEY)[0] == 0.0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE taskveil_entries SET body = '{}' WHERE number = 2",
        "DELETE FROM taskveil_entries WHERE number = 2",
        "DELETE FROM taskveil_entries WHERE number = 4",
        "UPDATE taskveil_accounts SET held = (SELECT held FROM taskveil_accounts) || ' '",
        "UPDATE taskveil_entries SET kind = 'finish' WHERE number = 3",
        "UPDATE taskveil_accounts SET epsilon = 20.0",
        "UPDATE taskveil_accounts SET delta = 0.001",
        "UPDATE taskveil_accounts SET rule = 'sum'",
        "UPDATE taskveil_accounts SET unit = 'record'",
        "UPDATE taskveil_accounts SET neighbours = 'add-remove'",
        "UPDATE taskveil_accounts SET observer = 'public'",
        "UPDATE taskveil_accounts SET name = 'schools'",
        "UPDATE taskveil_accounts SET entries = 3",
        "UPDATE taskveil_accounts SET head = 'x'",
        'UPDATE taskveil_runs SET "left" = replace("left", \'"count": 0\', \'"count": 9\')',
        "UPDATE taskveil_runs SET committed = 0",
        "UPDATE taskveil_runs SET finished = 0",
        "UPDATE taskveil_runs SET delta = 1e-9",
        "UPDATE taskveil_runs SET run = 'another'",
        "DELETE FROM taskveil_runs",
    ],
)
def test_an_edit_is_visible(book, path, statement):
    run = book.reserve(KEY, [Charge(EVENT)], 1e-5)
    book.commit(KEY, run, "1/x", EVENT)
    book.finish(KEY, run)
    assert book.verify() == []
    with sqlite3.connect(path) as raw:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            raw.execute("UPDATE taskveil_entries SET body = '{}'")
        for verb in ("update", "delete"):
            raw.execute(f"DROP TRIGGER taskveil_no_{verb}")
        if "SET held" in statement:
            held = json.loads(raw.execute("SELECT held FROM taskveil_accounts").fetchone()[0])
            held["curve"] = [0.0] * len(held["curve"])
            raw.execute("UPDATE taskveil_accounts SET held = ?", [json.dumps(held)])
        else:
            raw.execute(statement)
    assert book.verify() != []


def test_a_ledger_of_a_newer_version_is_refused(book, path):
    with sqlite3.connect(path) as raw:
        raw.execute("INSERT INTO taskveil_steps VALUES ('99 from the future')")
    with pytest.raises(LedgerUnavailable, match="newer version"):
        Book(f"sqlite:///{path}")


def test_a_broken_file_is_refused(path):
    path.write_bytes(b"this is not a database" * 100)
    with pytest.raises(LedgerUnavailable, match="Nothing was released"):
        Book(f"sqlite:///{path}")


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(LedgerUnavailable):
        Book(f"sqlite:///{tmp_path}/no/such/folder/x.db")


def test_a_file_that_cannot_be_written_is_refused(book, path, monkeypatch):
    """Root may write anywhere, so the database itself is told to refuse."""
    from sqlalchemy import event

    event.listen(book.database._engine, "connect", lambda c, r: c.execute("PRAGMA query_only=ON"))
    book.database._engine.dispose()
    with pytest.raises(LedgerUnavailable, match="readonly|read-only|query_only|attempt to write"):
        book.reserve(KEY, [Charge(EVENT)], 1e-5)


def test_a_full_disk_is_a_refusal(book):
    from sqlalchemy import event

    event.listen(book.database._engine, "connect", lambda c, r: c.execute("PRAGMA max_page_count=1"))
    book.database._engine.dispose()
    with pytest.raises(LedgerUnavailable, match="full"):
        for _ in range(400):
            book.finish(KEY, book.reserve(KEY, [Charge(GaussianEvent(900.0))], 1e-5))


@pytest.mark.parametrize("url", ["budget.db", "nosuch://x", ""])
def test_an_address_that_is_none_gets_a_clear_error(url):
    with pytest.raises(OptionError, match="URL"):
        Book(url)


@pytest.mark.parametrize("url", ["mysql://user:secret@host/db", "oracle://x", "duckdb:///a.db", "nonsense://"])
def test_other_databases_are_refused_by_name_and_without_their_password(url):
    """`mysql` asked for a driver, and would then have run without the locks the ledger rests on."""
    with pytest.raises(OptionError, match="SQLite or PostgreSQL") as refused:
        Book(url)
    assert "secret" not in str(refused.value)


def test_an_unknown_account_says_how_to_open_it(book):
    with pytest.raises(UnknownName, match="ledger set schools"):
        book.key_for("schools", "task", "replace-one", "other-tasks")


def test_a_run_with_another_sentence_does_not_fit_the_account(book):
    with pytest.raises(OptionError, match="kept for"):
        book.key_for("hospitals", "record", "replace-one", "other-tasks")
    assert book.key_for(None, "task", "replace-one", "other-tasks") == KEY


@pytest.mark.parametrize("epsilon, delta", [(0, 1e-5), (-1, 1e-5), (float("inf"), 1e-5), (1, 1.0), (1, -0.1)])
def test_a_limit_must_make_sense(book, epsilon, delta):
    with pytest.raises(OptionError):
        book.set_limit(KEY, epsilon, delta)


def test_passwords_are_not_shown():
    from taskveil.privacy.ledger.database import without_password

    assert "secret" not in without_password("postgresql://user:secret@host/db")
