"""The board's side of A4 and the report over all accounts."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3

import numpy as np
import pytest
import yaml
from tests.support.require import require

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


LONG = ("W" * 190, "name of a register with many words " * 5, "\u8abf\u67fb" * 60, "<b>" * 60)


def sides(browser, page_file) -> int:
    page = browser.new_page()
    page.goto(page_file.as_uri())
    printed = page.pdf(format="A4", prefer_css_page_size=True)
    page.close()
    return len(re.findall(rb"/Type\s*/Page\b", printed))


@pytest.mark.browser
def test_the_boards_page_prints_on_one_side_whatever_stands_on_it(spent, tmp_path):
    """A run as it is; one with a long name and many accounts; one as printed in a paper; and, as a twin, twice the page."""
    require("browser")
    from playwright.sync_api import sync_playwright

    url = f"sqlite:///{tmp_path / 'many.db'}"
    for name in (f"{n[:170]} {i}" for n in LONG for i in range(3)):
        Book(url).set_limit(Key(name, "task", "replace-one", "other-tasks"), 3.0, 1e-5)
    long_name = tmp_path / LONG[0]
    shutil.copytree(spent[0], long_name)
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(160, 4)), np.repeat(np.arange(20), 8)
    tv.TaskRegressor("low-rank", epsilon=1.0, variant="paper").fit(X, X[:, 0], task=task).save(tmp_path / "paper")
    pages = [write_board(*spent), write_board(long_name, url), write_board(tmp_path / "paper", url)]
    twice = tmp_path / "twice.html"
    twice.write_text(pages[0].read_text().replace("</body>", pages[0].read_text().split("<body>")[1]))
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        assert [sides(browser, page) for page in (*pages, twice)] == [1, 1, 1, 2]
        browser.close()


@pytest.mark.parametrize("long", LONG)
def test_no_name_and_no_number_of_lines_makes_the_boards_page_longer(spent, long):
    from dataclasses import replace

    from taskveil.estimators.check_folder import check_folder
    from taskveil.report import board
    from taskveil.report.exports.evidence import gather

    evidence = gather(spent[0], check_folder(spent[0]).certificate, ())
    account = {"account": long, "spent": 1.0, "limit": 3.0, "delta": 1e-5, "runs": 2, "unit": "task", "neighbours": "replace-one"}
    account |= {"observer": "other-tasks", "next_run_fits": True}
    certificate = replace(evidence.certificate, not_protected=[long] * 9, statements=list(evidence.certificate.statements) * 4)
    evidence = replace(evidence, certificate=certificate, accounts=(account,) * 30, problems=(long,) * 9)
    shown = board.sections(evidence, "nothing")
    assert sum(board._printed(line) for _, lines in shown for line in lines) <= board.LINES
    assert [title for title, _ in shown][-1] == "What is not protected" and re.search(r"and 2\d more", str(shown))


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


@pytest.fixture(scope="module")
def odd_ledger(tmp_path_factory):
    """Names that would break out of YAML, JSON, Markdown or HTML, and an account without runs."""
    url = f"sqlite:///{tmp_path_factory.mktemp('odd') / 'budget.db'}"
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(80, 3)), np.repeat(np.arange(20), 4)
    for name in ODD:
        Book(url).set_limit(Key(name, "task", "replace-one", "other-tasks"), 3.0, 1e-5)
        if "\n" not in name:  # refused since version 0.2.0; books of before may hold such accounts
            tv.TaskRegressor("mean", epsilon=1.0, delta=1e-5, ledger=url, account=name).fit(X, X[:, 0], task=task)
    Book(url).set_limit(Key("no run yet", "record", "add-remove", "public"), 1.0, 1e-6)
    return url


ODD = ('a: "b"\n- c', "<script>alert(1)</script>", "```\n# heading", "ümläut \u202e & 'quotes'", "---")


def exported(url: str, form: str, tmp_path, capsys) -> str:
    with pytest.raises(SystemExit) as stop:
        main(["ledger", "report", "--ledger", url, "--export", form, "-o", str(tmp_path / form)])
    capsys.readouterr()
    assert int(stop.value.code or 0) == 0
    return (tmp_path / form).read_text()


def test_the_books_export_in_every_form_whatever_accounts_are_called(odd_ledger, tmp_path, capsys):
    from tests.unit.report.test_exports import cyclonedx, opendp

    records = list(yaml.safe_load_all(exported(odd_ledger, "registry", tmp_path, capsys)))
    assert len(records) == len(ODD) + 1
    assert [list(map(str, opendp().iter_errors(r))) for r in records] == [[]] * len(records)
    assert {n for n in ODD for r in records if n in r["deployment"]["basic"]["name"]} == set(ODD)
    bill = json.loads(exported(odd_ledger, "mlbom", tmp_path, capsys))
    assert not list(cyclonedx().iter_errors(bill)) and len(bill["components"]) == sum("\n" not in name for name in ODD)
    text = exported(odd_ledger, "nist", tmp_path, capsys)
    assert len(text.split("```json\n")) == 2
    document = json.loads(text.split("```json\n")[1].rsplit("\n```", 1)[0])
    assert [len(a["items"]) for a in document["accounts"]] == [18] * (len(ODD) + 1)
    assert all(bool(i["answer"]) != bool(i["why"]) for a in document["accounts"] for i in a["items"])


def test_the_page_over_accounts_runs_nothing_an_account_is_called(odd_ledger, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["ledger", "report", "--ledger", odd_ledger, "-o", str(tmp_path / "l.html")])
    capsys.readouterr()
    assert "<script" not in (tmp_path / "l.html").read_text()


def test_an_empty_ledger_exports_and_a_changed_one_says_so_and_exits_with_one(spent, tmp_path, capsys):
    empty = f"sqlite:///{tmp_path / 'empty.db'}"
    assert json.loads(exported(empty, "mlbom", tmp_path, capsys))["components"] == []
    assert yaml.safe_load(exported(empty, "registry", tmp_path, capsys)) is None
    assert "no account" in exported(empty, "nist", tmp_path, capsys)
    changed = tmp_path / "changed.db"
    shutil.copy(spent[1].removeprefix("sqlite:///"), changed)
    with sqlite3.connect(changed) as base:
        base.execute("drop trigger taskveil_no_update")  # whoever can write the file can do that too
        base.execute("update taskveil_entries set body = replace(body, '1e-05', '2e-05')")
    with pytest.raises(SystemExit) as stop:
        main(["ledger", "report", "--ledger", f"sqlite:///{changed}", "--export", "registry", "-o", str(tmp_path / "c.yaml")])
    assert int(stop.value.code or 0) == 1
    assert "LEDGER CHANGED" in (tmp_path / "c.yaml").read_text()


def test_two_books_with_different_spending_differ_in_every_export(odd_ledger, spent, tmp_path, capsys):
    for form in ("nist", "registry", "mlbom"):
        assert exported(odd_ledger, form, tmp_path, capsys) != exported(spent[1], form, tmp_path, capsys)
