"""The board's side of A4 and the report over all accounts."""

from __future__ import annotations

import json

import numpy as np
import pytest

import taskveil as tv
from taskveil.cli.main import run as main
from taskveil.privacy.ledger import Book, Key
from taskveil.report.board import write_board


@pytest.fixture(scope="module")
def spent(tmp_path_factory):
    """Two runs of epsilon 1 on an account of 3."""
    base = tmp_path_factory.mktemp("spent")
    url = f"sqlite:///{base / 'budget.db'}"
    Book(url).set_limit(Key("clinics", "task", "replace-one", "other-tasks"), 3.0, 1e-5)
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(160, 4)), np.repeat(np.arange(20), 8)
    for _ in range(2):
        est = tv.TaskRegressor("mean", epsilon=1.0, delta=1e-5, ledger=url, account="clinics").fit(X, X[:, 0], task=task)
    est.save(base / "model")
    return base / "model", url


def test_the_board_gets_who_whom_spending_attack_and_code(spent):
    folder, url = spent
    text = write_board(folder, url).read_text()
    for part in ("All data of one task", "delta = 1e-05", "account clinics", "of 3 at delta 1e-05", "in 2 run(s)", "attacked"):
        assert part in text
    assert "What is not protected" in text and "Not signed" in text and "certify DIR --code" in text


def test_without_a_ledger_the_board_is_told_so(spent):
    assert "No ledger was given" in write_board(spent[0]).read_text()


def test_the_boards_page_prints_on_one_side(spent):
    playwright = pytest.importorskip("playwright.sync_api")
    page_file = write_board(*spent)
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(page_file.as_uri())
        printed = page.pdf(format="A4", prefer_css_page_size=True)
        browser.close()
    assert printed.count(b"/Type /Page") - printed.count(b"/Type /Pages") == 1


def test_the_ledger_report_has_history_and_the_next_refusal(spent, tmp_path, capsys):
    _, url = spent
    with pytest.raises(SystemExit):
        main(["ledger", "report", "--ledger", url, "-o", str(tmp_path / "l.html"), "--json"])
    (account,) = json.loads(capsys.readouterr().out)["accounts"]
    steps = [p["spent"] for p in account["history"] if p["what"] == "reserve"]
    assert len(steps) == 2 and steps[0] < steps[1] == pytest.approx(account["spent"])
    assert account["runs_left"] >= 1
    page = (tmp_path / "l.html").read_text()
    assert "<svg" in page and "more run(s) like the last one fit" in page and "<script" not in page


def test_as_many_runs_fit_as_the_report_says(spent):
    """The books themselves are asked: so many reservations pass, the next is refused."""
    from taskveil.errors import BudgetExceeded
    from taskveil.privacy.ledger.overview import report

    folder, url = spent
    left = report(Book(url))[0]["runs_left"]
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(160, 4)), np.repeat(np.arange(20), 8)
    est = tv.TaskRegressor("mean", epsilon=1.0, delta=1e-5, ledger=url, account="clinics")
    for _ in range(left):
        est.fit(X, X[:, 0], task=task)
    with pytest.raises(BudgetExceeded):
        est.fit(X, X[:, 0], task=task)
