"""A run is charged to every account its statements reach, in all of them or in none."""

from __future__ import annotations

import contextlib
import sqlite3
from itertools import product
from pathlib import Path

import pytest

from taskveil.errors import BudgetExceeded, OptionError
from taskveil.privacy.accountants import best_epsilon
from taskveil.privacy.accountants.base import Rdp
from taskveil.privacy.contributions import RowSum, VectorSum
from taskveil.privacy.events import Charge, GaussianEvent
from taskveil.privacy.ledger import Book, Key, open_account, reach
from taskveil.privacy.plan import Budget, Request, make_plan

DELTA, EVENT = 1e-5, GaussianEvent(8.0)
OLD = Path(__file__).parents[3] / "fixtures" / "version_0_1_0" / "ledger.sql"
TASK, SERVER, RECORD, PUBLIC = Key("h"), Key("h", observer="server"), Key("h", "record"), Key("h", observer="public")


def once(count: int = 1, event=EVENT) -> float:
    return Rdp().epsilon([Charge(event, count)], DELTA)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'l.db'}"


def opened(url, *keys, epsilon=3.0):
    book = Book(url)
    for key in keys:
        book.set_limit(key, epsilon, DELTA)
    return book


def spend(book, key, count=1, **options):
    run = book.reserve(key, [Charge(EVENT, count)], DELTA, **options)
    for k in range(count):
        book.commit(key, run, f"{k}/x", EVENT)
    book.finish(key, run)
    return run


def test_what_is_spent_against_the_server_is_spent_against_the_other_tasks_and_on_records(url):
    book = opened(url, TASK, SERVER, RECORD, PUBLIC)
    spend(book, SERVER)
    assert [book.spent(k)[0] for k in (TASK, SERVER, RECORD, PUBLIC)] == pytest.approx([once()] * 3 + [0.0])
    spend(book, TASK)
    assert [book.spent(k)[0] for k in (TASK, SERVER, RECORD)] == pytest.approx([once(2), once(), once(2)])
    assert book.verify() == []


def test_the_old_rule_leaves_the_other_tasks_uncharged(url, monkeypatch):
    """The twin, with the fault planted: one observer, one account."""
    monkeypatch.setattr(reach, "IMPLIED", dict.fromkeys(reach.IMPLIED, ()))
    book = opened(url, TASK, SERVER)
    spend(book, SERVER)
    assert book.spent(TASK)[0] == 0.0


def test_public_and_server_are_charged_apart(url):
    """Finished models may be releases although a curator sees the messages (docs/theory/servers-and-sums.md#observers)."""
    book = opened(url, TASK, SERVER, PUBLIC)
    spend(book, PUBLIC)
    assert [book.spent(k)[0] for k in (TASK, SERVER, PUBLIC)] == pytest.approx([once(), 0.0, once()])
    spend(book, PUBLIC, also=["server"])
    assert [book.spent(k)[0] for k in (TASK, SERVER, PUBLIC)] == pytest.approx([once(2), once(), once(2)])


def test_a_record_level_run_is_charged_to_records_only(url):
    book = opened(url, TASK, RECORD)
    spend(book, RECORD)
    assert book.spent(TASK)[0] == 0.0 and book.spent(RECORD)[0] == pytest.approx(once())


@pytest.mark.parametrize("tight", [TASK, RECORD])
def test_a_run_refused_by_one_account_leaves_no_trace_in_any(url, tight):
    book = opened(url, TASK, SERVER, RECORD)
    book.set_limit(tight, 1.1 * once(), DELTA)
    spend(book, SERVER)
    before = [(r.held, r.entries, r.head) for r in book.accounts()]
    with pytest.raises(BudgetExceeded, match=f"h .{tight.unit}, replace-one, against other-tasks"):
        book.reserve(SERVER, [Charge(EVENT)], DELTA)
    assert [(r.held, r.entries, r.head) for r in book.accounts()] == before


def test_an_extra_commit_refused_by_one_account_is_written_in_none(url):
    book = opened(url, TASK, SERVER)
    book.set_limit(TASK, 1.1 * once(), DELTA)
    run = book.reserve(SERVER, [Charge(EVENT)], DELTA)
    book.commit(SERVER, run, "1/x", EVENT)
    with pytest.raises(BudgetExceeded, match="once more"):
        book.commit(SERVER, run, "1/x", EVENT)
    assert [sum(e.kind == "commit" for e in book.rows(r.id)) for r in book.accounts()] == [1, 1]


def test_names_do_not_reach_each_other(url):
    book = opened(url, TASK, Key("other"))
    spend(book, TASK)
    assert book.spent(Key("other"))[0] == 0.0


# ---------------------------------------------------------------------------------------------------------------- neighbours


def plan_of(unit, neighbours, aggregation="local"):
    contribution = VectorSum((3,), 1.0) if unit == "task" else RowSum((3,), 1.0)
    budget = Budget(1.0, DELTA, unit, neighbours, aggregation=aggregation)
    return make_plan([Request("x", 1, contribution)], budget)


@pytest.mark.parametrize("unit, neighbours", list(product(["task", "record"], ["replace-one", "add-remove"])))
def test_every_account_is_charged_at_its_own_neighbours(url, unit, neighbours):
    """A sum with clipped summands moves twice as far when one is replaced: the noise multiplier is half (closed form).

    A row replaced by a null one is a task replaced by another, so records are charged a task's replace-one cost.
    """
    keys = [Key("h", u, n) for u in ("task", "record") for n in ("replace-one", "add-remove")]
    book, plan = opened(url, *keys, epsilon=9.0), plan_of(unit, neighbours)
    account = open_account(book, "h", plan)
    account.reserve(plan)
    account.commit(*plan.releases)
    account.finish()
    scale = plan.releases[0].mechanism.scale
    for key in keys:
        charged = book.committed(key, account.run)
        if unit == "record" and key.unit == "task":
            assert charged == []
            continue
        double = key.neighbours == "replace-one" or (unit, key.unit) == ("task", "record")
        ((_, event),) = charged
        assert event.noise_multiplier == pytest.approx(scale / (2 if double else 1), rel=1e-3), key
    assert book.verify() == []


def test_a_cost_that_is_not_known_is_not_guessed(url):
    null = Key("h", neighbours="add-remove")
    book = opened(url, null, RECORD)
    with pytest.raises(OptionError, match="not known"):
        book.reserve(null, [Charge(EVENT)], DELTA)


# ------------------------------------------------------------------------ accounts opened later, limits


def test_an_account_opened_later_starts_with_what_was_spent(url):
    book = opened(url, SERVER)
    spend(book, SERVER, 2)
    open_run = book.reserve(SERVER, [Charge(EVENT, 2)], DELTA)
    book.set_limit(TASK, 3.0, DELTA)
    book.set_limit(RECORD, 3.0, DELTA)
    assert [book.spent(k)[0] for k in (TASK, RECORD)] == pytest.approx([once(4)] * 2)
    book.commit(SERVER, open_run, "1/x", EVENT)
    book.finish(SERVER, open_run)
    assert [book.spent(k)[0] for k in (TASK, SERVER, RECORD)] == pytest.approx([once(3)] * 3)
    assert book.verify() == []


def test_a_run_that_said_nothing_about_an_observer_is_not_carried_over(url):
    book = opened(url, TASK)
    spend(book, TASK)
    spend(book, TASK, also=["server"])
    book.set_limit(SERVER, 3.0, DELTA)
    assert book.spent(SERVER)[0] == pytest.approx(once())


def test_null_neighbours_are_not_carried_into_an_account_for_replacements(url):
    book = opened(url, Key("h", neighbours="add-remove"))
    spend(book, Key("h", neighbours="add-remove"))
    with pytest.raises(OptionError, match="another name"):
        book.set_limit(TASK, 3.0, DELTA)
    assert len(book.accounts()) == 1, "nor is the account left open and empty"


def test_lowering_a_limit_stops_a_run_that_was_reserved_before(url):
    book = opened(url, TASK)
    run = book.reserve(TASK, [Charge(EVENT, 4)], DELTA)
    book.commit(TASK, run, "1/x", EVENT)
    book.set_limit(TASK, 0.9 * once(4), DELTA)
    with pytest.raises(BudgetExceeded, match="lowered"):
        book.commit(TASK, run, "2/x", EVENT)
    book.set_limit(TASK, 3.0, DELTA)
    book.commit(TASK, run, "2/x", EVENT)
    assert book.verify() == []


def test_a_run_resumed_after_another_account_was_opened_is_finished_in_both(url):
    book = opened(url, TASK)
    plan = plan_of("task", "replace-one")
    account = open_account(book, "h", plan)
    account.reserve(plan)
    book.set_limit(RECORD, 9.0, DELTA)
    again = open_account(book, "h", plan, run=account.run)
    again.reserve(plan)
    again.commit(*plan.releases)
    again.finish()
    assert book.open_runs(TASK) == book.open_runs(RECORD) == [] and book.verify() == []


# ------------------------------------------------------------------------------------------------------------------- migration


def test_a_ledger_of_version_0_1_0_is_read_and_its_runs_are_carried_over(url, tmp_path):
    """Made by that version: two runs against the server (one still open), one curator's, each in one account only."""
    with sqlite3.connect(tmp_path / "l.db") as raw:
        raw.executescript(OLD.read_text())
    book = Book(url)
    assert book.verify() == []
    assert book.spent(SERVER)[0] == pytest.approx(once(3)), "as that version said: one made, two reserved"
    assert book.spent(TASK)[0] == pytest.approx(once(4)), "that version said once()"
    assert book.open_runs(TASK) == book.open_runs(SERVER) == ["local-open"]
    book.commit(SERVER, "local-open", "2/x", EVENT)
    book.set_limit(Key("lonely"), 2.0, DELTA)
    assert book.spent(Key("lonely"))[0] == pytest.approx(once())
    assert book.verify() == []


@pytest.mark.parametrize(("room", "fits"), [(1.001, True), (0.999, False)])
def test_a_run_is_priced_at_the_smaller_of_its_delta_and_the_account_s(url, room, fits):
    """At a larger delta of its own a run would look cheaper than it is, or use up a delta the account does not have."""
    book = opened(url, TASK, epsilon=room * best_epsilon([Charge(EVENT)], DELTA)[0])
    with contextlib.nullcontext() if fits else pytest.raises(BudgetExceeded):
        book.reserve(TASK, [Charge(EVENT)], 1000 * DELTA)
