"""The rule "gaussian": squares of mu add up, exactly, whatever the next run depends on.

Theorem: docs/theory/spending.md#adaptive.
"""

from __future__ import annotations

import math

import pytest

from taskveil.errors import BudgetExceeded, OptionError
from taskveil.privacy.accountants.base import Rdp
from taskveil.privacy.events import Charge, GaussianEvent, PureEvent, SampledGaussianEvent
from taskveil.privacy.guarantees import gaussian_epsilon, gaussian_mu
from taskveil.privacy.ledger import Book, Key

KEY, DELTA, EVENT = Key("h"), 1e-5, GaussianEvent(8.0)


@pytest.fixture
def book(tmp_path):
    book = Book(f"sqlite:///{tmp_path / 'l.db'}")
    book.set_limit(KEY, 1.0, DELTA, rule="gaussian")
    return book


def spend(book, event, reserved=1, made=1):
    run = book.reserve(KEY, [Charge(event, reserved)], DELTA)
    for k in range(made):
        book.commit(KEY, run, f"{k}/x", event)
    book.finish(KEY, run)


def test_the_total_is_that_of_one_gaussian(book):
    for _ in range(4):
        spend(book, EVENT)
    spent, _ = book.spent(KEY)
    assert spent == pytest.approx(gaussian_epsilon(DELTA, math.sqrt(4) / 8), rel=1e-12)
    assert spent < 0.95 * Rdp().epsilon([Charge(EVENT, 4)], DELTA), "Renyi composition pays for what it cannot see"
    assert book.verify() == []


def test_a_limit_is_used_up_to_the_last_square(book):
    """Four quarters of mu^2 at epsilon 1 fit, one release more does not; under Renyi composition the fourth is refused."""
    mu = gaussian_mu(1.0, DELTA)
    for _ in range(4):
        spend(book, GaussianEvent(2 / mu))
    assert book.spent(KEY)[0] == pytest.approx(1.0, rel=1e-9)
    with pytest.raises(BudgetExceeded):
        spend(book, GaussianEvent(1000.0))
    assert Rdp().epsilon([Charge(GaussianEvent(2 / mu), 4)], DELTA) > 1.0


def test_what_was_not_released_goes_back_release_by_release(book):
    spend(book, EVENT, reserved=4, made=2)
    assert book.spent(KEY)[0] == pytest.approx(gaussian_epsilon(DELTA, math.sqrt(2) / 8), rel=1e-9)
    assert book.verify() == []


@pytest.mark.parametrize("event", [PureEvent(0.01), SampledGaussianEvent(50.0, 0.01)])
def test_what_is_not_an_unsampled_gaussian_is_refused(book, event):
    with pytest.raises(BudgetExceeded, match="unsampled Gaussian"):
        spend(book, event)
    assert book.spent(KEY)[0] == 0.0


def test_the_rule_is_chosen_at_opening(book):
    book.set_limit(KEY, 2.0, DELTA)
    spend(book, EVENT)
    assert book.accounts()[0].rule == "gaussian" and book.verify() == []
    book.set_limit(Key("other"), 2.0, DELTA)
    for name, rule in (("other", "gaussian"), ("third", "sum")):
        with pytest.raises(OptionError, match="rule is chosen"):
            book.set_limit(Key(name), 2.0, DELTA, rule=rule)


def test_it_starts_with_what_earlier_runs_have_spent(tmp_path):
    book = Book(f"sqlite:///{tmp_path / 'l.db'}")
    server = Key("h", observer="server")
    book.set_limit(server, 3.0, DELTA)
    run = book.reserve(server, [Charge(EVENT)], DELTA)
    book.commit(server, run, "1/x", EVENT)
    book.set_limit(KEY, 3.0, DELTA, rule="gaussian")
    assert book.spent(KEY)[0] == pytest.approx(gaussian_epsilon(DELTA, 1 / 8), rel=1e-12) and book.verify() == []
