"""Any order of reserve, commit, finish and crash: what was released never passes the limit of any account it reaches."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from taskveil.errors import BudgetExceeded
from taskveil.privacy.accountants.base import Rdp
from taskveil.privacy.events import Charge, GaussianEvent, PureEvent
from taskveil.privacy.ledger import Book, Key

KEY, DELTA, LIMIT = Key("x", observer="server"), 1e-5, 1.5
REACHED = {KEY: LIMIT, Key("x"): LIMIT, Key("x", "record"): 0.8 * LIMIT}  # every run is charged to all of them
EVENTS = [GaussianEvent(20.0), GaussianEvent(9.0), PureEvent(0.05)]


class LedgerMachine(RuleBasedStateMachine):
    """`released` is what noise was drawn for: an independent list, composed by the accountant from scratch."""

    runs = Bundle("runs")

    @initialize()
    def open(self):
        self.folder = tempfile.TemporaryDirectory()
        self.url = f"sqlite:///{Path(self.folder.name) / 'l.db'}"
        self.book = Book(self.url)
        for key, limit in REACHED.items():
            self.book.set_limit(key, limit, DELTA)
        self.released: list[Charge] = []
        self.plans: dict[str, list] = {}

    @rule(target=runs, event=st.sampled_from(EVENTS), count=st.integers(1, 12))
    def reserve(self, event, count):
        try:
            run = self.book.reserve(KEY, [Charge(event, count)], DELTA)
        except BudgetExceeded:
            return "refused"
        self.plans[run] = [event, count]
        return run

    @rule(run=runs, release=st.integers(1, 14), other=st.sampled_from([None, *EVENTS]))
    def commit_then_draw_noise(self, run, release, other):
        event = other or (self.plans[run][0] if run in self.plans else EVENTS[0])
        try:
            self.book.commit(KEY, run, f"{release}/x", event)
        except BudgetExceeded:
            return
        self.released.append(Charge(event))

    @rule(run=runs)
    def commit_and_crash_before_the_noise(self, run):
        try:
            self.book.commit(KEY, run, "crashed", EVENTS[0])
        except BudgetExceeded:
            return

    @rule(run=runs)
    def finish(self, run):
        self.book.finish(KEY, run)

    @rule()
    def crash_and_reopen(self):
        self.book.close()
        self.book = Book(self.url)

    @invariant()
    def what_was_released_stays_within_the_limit(self):
        if not hasattr(self, "book"):
            return
        total = Rdp().epsilon(self.released, DELTA) if self.released else 0.0
        for key, limit in REACHED.items():
            held, _ = self.book.spent(key)
            assert total <= held * (1 + 1e-9)
            assert held <= limit * (1 + 1e-6)

    def teardown(self):
        if hasattr(self, "book"):
            assert self.book.verify() == []
            self.book.close()
            self.folder.cleanup()


LedgerMachine.TestCase.settings = settings(max_examples=15, stateful_step_count=15, deadline=None)
TestLedger = LedgerMachine.TestCase
