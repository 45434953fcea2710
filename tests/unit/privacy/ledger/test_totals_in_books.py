"""A total in the books: reserved whole, drawn on release by release, the rest given back once where the rule allows it."""

from __future__ import annotations

import json
import math
from multiprocessing import get_context

import pytest
from tests.unit.privacy.test_totals import plan

from taskveil.errors import BudgetExceeded
from taskveil.privacy.events import Charge, GaussianEvent, GaussianTotal
from taskveil.privacy.guarantees import gaussian_epsilon, gaussian_mu
from taskveil.privacy.ledger import Book, Key
from taskveil.privacy.ledger import statements as say
from taskveil.privacy.ledger.book import LedgerAccount
from taskveil.privacy.ledger.holdings import Cost, Limit
from taskveil.privacy.units import Neighbours

DELTA = 1e-5
MU = gaussian_mu(1.0, DELTA)
TOTAL = GaussianTotal(1 / MU)
RULES = {"gaussian": (1.0, "gaussian"), "renyi": (1.1, None), "sum": (1.0, None)}


def part(share: float) -> GaussianEvent:
    return GaussianEvent(1 / (MU * math.sqrt(share)))


def opened(folder, rule="gaussian"):
    epsilon, named = RULES[rule]
    book = Book(f"sqlite:///{folder / 'l.db'}")
    book.set_limit(Key("h"), epsilon, DELTA, rule=named)
    return book


def rule_of(book) -> str:
    return book.accounts()[0].rule


@pytest.mark.parametrize("rule", list(RULES))
def test_the_whole_total_is_reserved_before_anything_is_released(tmp_path, rule):
    book, key = opened(tmp_path, rule), Key("h")
    book.reserve(key, [Charge(TOTAL)], DELTA)
    assert rule_of(book) == rule
    assert book.spent(key)[0] == pytest.approx(1.0, rel=0.1)
    with pytest.raises(BudgetExceeded):
        book.reserve(key, [Charge(part(0.5))], DELTA)


@pytest.mark.parametrize(("rule", "left"), [("gaussian", 0.3), ("renyi", 0.3), ("sum", 1.0)])
def test_what_was_not_released_goes_back_where_the_rule_allows_it_and_only_once(tmp_path, rule, left):
    book, key = opened(tmp_path, rule), Key("h")
    run = book.reserve(key, [Charge(TOTAL)], DELTA)
    book.commit(key, run, "1/probe", part(0.3))
    assert book.spent(key)[0] == pytest.approx(1.0, rel=0.1), "a release is taken from the total, not added to it"
    assert book.finish(key, run) is (rule != "sum")
    spent = book.spent(key)[0]
    exact = gaussian_epsilon(DELTA, MU * math.sqrt(left))
    assert spent == pytest.approx(exact, rel=1e-9) if rule != "renyi" else exact < spent < 1.1 * exact
    book.finish(key, run)
    assert book.spent(key)[0] == spent and book.verify() == []
    with pytest.raises(BudgetExceeded, match="finished"):
        book.commit(key, run, "2/rest", part(0.1))


def test_the_books_refuse_what_exceeds_the_total_although_the_account_has_room(tmp_path):
    book, key = opened(tmp_path), Key("h")
    book.set_limit(key, 50.0, DELTA)
    run = book.reserve(key, [Charge(TOTAL)], DELTA)
    book.commit(key, run, "1/probe", part(0.3))
    with pytest.raises(BudgetExceeded, match="total"):
        book.commit(key, run, "2/rest", part(0.71))
    book.commit(key, run, "1/probe", part(0.3))  # made again after a crash: from the same total
    with pytest.raises(BudgetExceeded, match="total"):
        book.commit_all(key, run, [("2/a", part(0.3)), ("2/b", part(0.3))])
    assert len(book.committed(key, run)) == 2, "all or none"
    assert book.verify() == []


def test_a_total_that_is_used_up_stays_a_total(tmp_path):
    book, key = opened(tmp_path), Key("h")
    book.set_limit(key, 50.0, DELTA)
    run = book.reserve(key, [Charge(TOTAL)], DELTA)
    book.commit(key, run, "1/all", GaussianEvent(TOTAL.noise_multiplier))
    for event in (part(0.01), GaussianEvent(1e100)):
        with pytest.raises(BudgetExceeded, match="total"):
            book.commit(key, run, "2/more", event)
    book.finish(key, run)
    assert book.spent(key)[0] == pytest.approx(1.0, rel=1e-9) and book.verify() == []


def test_a_fixed_plan_is_charged_on_top_for_what_it_makes_again(tmp_path):
    """The twin: without a total nothing refuses the second time."""
    book, key = opened(tmp_path), Key("h")
    book.set_limit(key, 50.0, DELTA)
    run = book.reserve(key, [Charge(part(0.3)), Charge(part(0.7))], DELTA)
    for _ in range(3):
        book.commit(key, run, "1/probe", part(0.3))
    assert book.spent(key)[0] > gaussian_epsilon(DELTA, 1.2 * MU)


def test_books_whose_total_was_edited_do_not_verify(tmp_path):
    book, key = opened(tmp_path), Key("h")
    run = book.reserve(key, [Charge(TOTAL)], DELTA)
    book.commit(key, run, "1/probe", part(0.3))
    left = json.dumps([{"event": TOTAL.to_dict(), "count": 1}])
    values = {"which": run, "where": book.accounts()[0].id, "left": left, "committed": 1, "finished": 0}
    with book.database.transaction() as transaction:
        transaction.run(say.COUNT_COMMIT, values)
    assert any("left" in problem for problem in book.verify())


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
def test_a_run_is_charged_under_the_neighbours_of_every_account(tmp_path, neighbours):
    book, chosen = Book(f"sqlite:///{tmp_path / 'l.db'}"), plan(neighbours=neighbours)
    keys = [Key("h", neighbours=n) for n in ("replace-one", "add-remove")]
    for key in keys:
        book.set_limit(key, 5.0, DELTA, rule="gaussian")
    account = LedgerAccount(book, Key("h", neighbours=neighbours), chosen.budget)
    account.reserve(chosen)
    for planned in (r for r in chosen.releases if r.name == "a"):
        account.commit(planned)
    assert account.finish() is True
    for key in keys:
        relation = Neighbours(key.neighbours)
        squares = [1 / r.event_under(relation, chosen.budget).noise_multiplier ** 2 for r in chosen.releases if r.name == "a"]
        assert book.spent(key)[0] == pytest.approx(gaussian_epsilon(DELTA, math.sqrt(sum(squares))), rel=1e-6)
    assert book.verify() == []


def test_an_account_opened_later_starts_with_what_was_released_of_a_total(tmp_path):
    book, key = opened(tmp_path), Key("h")
    run = book.reserve(key, [Charge(TOTAL)], DELTA, also=["server"])
    book.commit(key, run, "1/probe", part(0.3))
    book.finish(key, run)
    book.set_limit(Key("h", observer="server"), 5.0, DELTA, rule="gaussian")
    assert book.spent(Key("h", observer="server"))[0] == pytest.approx(book.spent(key)[0], rel=1e-9)
    assert book.verify() == []


# ------------------------------------------------------------- two at a time


def probes(url: str) -> int:
    """Runs that reserve a whole epsilon 1, release three tenths of it and give the rest back."""
    book, key, done = Book(url), Key("h"), 0
    for _ in range(20):
        try:
            run = book.reserve(key, [Charge(TOTAL)], DELTA)
        except BudgetExceeded:
            continue
        book.commit(key, run, "1/probe", part(0.3))
        book.finish(key, run)
        done += 1
    return done


def test_runs_that_race_on_an_account_never_hold_more_than_its_limit(tmp_path):
    """The limit holds two totals: after k probes of 0.3 another total fits as long as 0.3 k + 1 <= 2, so 4 runs get through."""
    book = opened(tmp_path)
    book.set_limit(Key("h"), gaussian_epsilon(DELTA, MU * math.sqrt(2)) * (1 + 1e-6), DELTA)
    url = f"sqlite:///{tmp_path / 'l.db'}"
    with get_context("fork").Pool(3) as pool:
        done = sum(pool.map(probes, [url] * 3, chunksize=1))
    assert done == 4
    assert book.spent(Key("h"))[0] == pytest.approx(gaussian_epsilon(DELTA, MU * math.sqrt(1.2)), rel=1e-6)
    assert book.verify() == [] and book.open_runs(Key("h")) == []


def test_the_gaussian_rule_leaves_room_for_slack_and_failure():
    """Sums of discrete shares are Gaussian up to a slack: part of delta pays for it (it was forgotten before)."""
    base = {"curve": None, "epsilon": 0.0, "delta": 0.0, "mu_squared": MU**2}
    totals = [Limit(5.0, DELTA, "gaussian").total(Cost(slack=s, failure=f, **base)) for s, f in ((0, 0), (1e-7, 0), (0, 5e-6))]
    assert totals[0] == pytest.approx(1.0, rel=1e-9) and min(totals[1:]) > 1.001
    assert Limit(5.0, DELTA, "gaussian").total(Cost(slack=0, failure=2 * DELTA, **base)) == math.inf
