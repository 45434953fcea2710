"""The board's side of A4 and the report over all accounts."""

from __future__ import annotations

import json
import shutil
import sqlite3

import numpy as np
import pytest
import yaml

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


@pytest.fixture(scope="module")
def odd_ledger(tmp_path_factory):
    """Names that would break out of YAML, JSON, Markdown or HTML, and an account without runs."""
    url = f"sqlite:///{tmp_path_factory.mktemp('odd') / 'budget.db'}"
    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(80, 3)), np.repeat(np.arange(20), 4)
    for name in ODD:
        Book(url).set_limit(Key(name, "task", "replace-one", "other-tasks"), 3.0, 1e-5)
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
    assert list(map(str, cyclonedx().iter_errors(bill))) == [] and len(bill["components"]) == len(ODD)
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
