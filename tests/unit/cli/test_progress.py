"""The progress bar: rounds, spent epsilon, time left, and nothing that depends on a row."""

from __future__ import annotations

import io

import pytest
from tests.support.small import related_tasks

from taskveil import methods
from taskveil.cli import progress
from taskveil.estimators import TaskRegressor
from taskveil.privacy.plan import Budget, make_plan


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_by(seed: int) -> list[tuple]:
    """All that a run of other rows of the same sizes shows."""
    seen: list[tuple] = []
    bar = progress.Bar(lambda *shown: seen.append(shown), clock=lambda: 0.0)
    est = TaskRegressor(methods.get("mean", rounds=4, rate=0.5), epsilon=2.0, delta=1e-3, progress=bar)
    est.fit(related_tasks(seed=seed, rows=(10, 10)))
    return seen


def test_it_shows_rounds_and_the_epsilon_they_spent():
    seen = shown_by(0)
    assert [(done, total) for done, total, _ in seen] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    spent = [float(text.split()[1]) for _, _, text in seen]
    assert spent == sorted(spent) and 0 < spent[0] < spent[-1] <= 2.0
    assert spent[-1] == pytest.approx(2.0, rel=0.01)


def test_it_shows_the_same_for_other_rows():
    assert shown_by(0) == shown_by(1)


def test_the_spent_epsilon_is_that_of_the_first_rounds():
    from taskveil.methods.base import PublicInfo

    public = PublicInfo(n_tasks=50, n_features=3, n_outputs=1, kind="regression")
    budget = Budget(epsilon=1.0, delta=1e-3)
    plan = make_plan(methods.get("mean", rounds=5).requests(public, budget), budget)
    assert plan.spent_after(5) == plan.epsilon() and plan.spent_after(2) < plan.spent_after(3)


def test_a_number_that_is_slow_to_compute_is_computed_seldom():
    now, calls, texts = [0.0], [], []
    bar = progress.Bar(lambda done, total, text: texts.append(text), clock=lambda: now[0])

    def slow(rounds: int) -> float:
        calls.append(rounds)
        now[0] += 1.0
        return float(rounds)

    bar.follow(slow)
    for done in range(1, 41):
        bar(done, 40)
        now[0] += 0.5
    assert calls[0] == 1 and calls[-1] == 40 and len(calls) <= 4
    assert len(texts) == 40


def test_on_a_terminal_the_line_has_rounds_epsilon_and_time_left(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.progress_bar("training") as bar:
        bar.follow(lambda rounds: 0.25 * rounds)
        for done in (1, 4):
            bar(done, 4)
    text = terminal.getvalue()
    assert "4/4" in text and "epsilon 1 spent" in text and ":" in text


def test_what_is_not_counted_yet_shows_no_question_mark(monkeypatch):
    """An audit showed `0/?` until its first trials were done."""
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with progress.progress_bar("attacking"):
        pass
    assert "attacking" in terminal.getvalue() and "?" not in terminal.getvalue().replace("\x1b[?", "")


def test_without_a_terminal_nothing_is_written(monkeypatch):
    quiet = io.StringIO()
    monkeypatch.setattr("sys.stderr", quiet)
    with progress.progress_bar("training") as bar:
        bar(1, 2)
    assert quiet.getvalue() == ""
