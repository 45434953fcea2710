"""A run that ends after its probe, through the books and the command line, and killed with SIGKILL at every write step.

At every moment the books hold at least what was released and at most the total; in the end exactly what was released, given back
once; the certificate states the total.
"""

from __future__ import annotations

import json
import math
import os
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.integration.test_kill_and_resume import NEVER, in_a_child
from tests.support.forged_folders import Folder, call
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.estimators.storage import load
from taskveil.methods.probing import PROBE, ProbingServer
from taskveil.privacy.guarantees import gaussian_epsilon, gaussian_mu
from taskveil.privacy.ledger import Book, Key

KEY, EPSILON, DELTA = Key("wards"), 1.0, 1e-5
MU = gaussian_mu(EPSILON, DELTA)
TASKS = related_tasks(n_tasks=10, rows=(6, 8), n_features=3)


@contextmanager
def stops(after: int = 1):
    """The policy ends the run after so many rounds, whatever shows."""
    before = ProbingServer.chosen
    ProbingServer.chosen = lambda self, state, possible: possible[:1] if possible[0].round <= after else []
    try:
        yield
    finally:
        ProbingServer.chosen = before


def fit(folder: Path) -> None:
    tv.TaskRegressor(
        tv.methods.get("subspace", spending="adaptive"), epsilon=EPSILON, delta=DELTA,
        ledger=f"sqlite:///{folder / 'budget.db'}", account=KEY.name, run_dir=folder / "run",
    ).fit(TASKS).save(folder / "model")  # fmt: skip


def opened(folder: Path, limit: float = EPSILON * (1 + 1e-6)) -> Book:
    folder.mkdir(parents=True, exist_ok=True)
    book = Book(f"sqlite:///{folder / 'budget.db'}")
    book.set_limit(KEY, limit, DELTA, rule="gaussian")
    return book


def steps(folder: Path) -> int:
    """How many write steps a run passes."""
    opened(folder).close()
    os.environ["TASKVEIL_KILL_LOG"] = str(folder / "points")
    try:
        assert in_a_child(folder, NEVER, fit)
    finally:
        del os.environ["TASKVEIL_KILL_LOG"]
    return len((folder / "points").read_text().split())


def check(folder: Path, ended: bool) -> None:
    book = Book(f"sqlite:///{folder / 'budget.db'}")
    (row,) = book.accounts()
    rows = book.rows(row.id)
    made = [1 / json.loads(e.body)["event"]["noise_multiplier"] ** 2 for e in rows if e.kind == "commit"]
    released = gaussian_epsilon(DELTA, math.sqrt(math.fsum(made))) if made else 0.0
    spent = book.spent(KEY)[0]
    assert released <= spent * (1 + 1e-9) <= EPSILON * (1 + 1e-8), "more was released than the books hold, or than the total"
    assert book.verify() == []
    if ended:
        assert spent == pytest.approx(released, rel=1e-9), "what was not released did not go back, or went back twice"
        assert sum(e.kind == "finish" for e in rows) == 1 and book.open_runs(KEY) == []
        certificate = load(folder / "model").certificate_
        assert certificate.verify() and certificate.statements[0].epsilon == EPSILON
        assert sum(e["count"] for e in certificate.events) == len(made)
    book.close()


@pytest.mark.kills
def test_a_run_killed_at_eight_steps_never_holds_too_little_and_returns_the_rest_once(tmp_path):
    with stops(after=1):
        last = steps(tmp_path / "whole")
        for position in map(int, np.linspace(1, last, 8)):
            folder = tmp_path / f"step-{position}"
            opened(folder).close()
            in_a_child(folder, position, fit)
            check(folder, ended=False)
            assert in_a_child(folder, NEVER, fit)
            check(folder, ended=True)


@pytest.mark.kills
def test_a_probe_that_was_made_twice_leaves_less_for_the_rest_and_never_exceeds_the_total(tmp_path):
    """Killed between its commit and its noise: the second probe is taken from the same total, and the rest no longer fits."""
    with stops(after=2):
        opened(tmp_path).close()
        order = ["plan.json.written", "plan.json.renamed", "reserved", "commit.before", "commit.after"]
        assert not in_a_child(tmp_path, len(order), fit)
        assert in_a_child(tmp_path, NEVER, fit)
        check(tmp_path, ended=True)
    est = load(tmp_path / "model")
    assert any("ended early" in text for text in est.warnings_)
    assert [p.round for p in est.record_.executed] == [1, 1]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A run of the command line that ended after its probe, and its ledger."""
    place, rng = tmp_path_factory.mktemp("returned"), np.random.default_rng(0)
    frame = pd.DataFrame(rng.standard_normal((300, 3)), columns=["a", "b", "y"]).assign(ward=np.repeat(np.arange(30), 10))
    frame.to_csv(place / "rows.csv", index=False)
    opened(place).close()
    options = ["--task", "ward", "--target", "y", *BUDGET, "--ledger", ledger(place), "--account", KEY.name]
    with stops(after=1), redirect_stdout(StringIO()) as said:
        assert call("fit", place / "rows.csv", *options, "-o", place / "model") == 0
    (place / "said").write_text(said.getvalue())
    return place


BUDGET = ["--epsilon", EPSILON, "--delta", DELTA, "--method", "subspace", "--set", "spending=adaptive"]


def ledger(folder: Path) -> str:
    return f"sqlite:///{folder / 'budget.db'}"


def test_plan_names_the_policy_and_the_total(capsys):
    assert call("plan", "--tasks", 30, "--features", 2, *BUDGET) == 0
    said = capsys.readouterr().out
    assert "'probe'" in said and f"mu = {MU:.4g}" in said


def test_the_command_line_says_what_was_returned_and_the_books_agree(place):
    assert "nothing in common showed: 70 % of the budget was returned" in (place / "said").read_text()
    spent = Book(ledger(place)).spent(KEY)[0]
    assert spent == pytest.approx(gaussian_epsilon(DELTA, MU * math.sqrt(PROBE)), rel=1e-4)
    assert call("certify", place / "model", "--ledger", ledger(place)) == 0


def smaller_total(folder: Folder) -> None:
    folder.model["plan"]["total"]["noise_multiplier"] *= math.sqrt(1 / PROBE)


def no_total(folder: Folder) -> None:
    """As if the probe had been all there ever was."""
    plan = folder.model["plan"]
    del plan["total"], plan["policy"], folder.certificate["total"]
    plan["releases"] = plan["releases"][:1]
    for statement in folder.certificate["statements"]:
        statement["epsilon"] = gaussian_epsilon(DELTA, MU * math.sqrt(PROBE))


@pytest.mark.parametrize("change", [smaller_total, no_total])
def test_a_run_that_ended_early_cannot_claim_its_probe_alone(place, tmp_path, capsys, change):
    """Every file is edited and sealed again, as a careful forger would."""
    folder = Folder(place, tmp_path / "copy")
    change(folder)
    folder.seal("certificate", "model", "arrays")
    assert call("certify", folder.path) == 1
    assert "cannot be made again" in capsys.readouterr().out


def test_the_books_know_the_total_of_a_run_that_was_rewritten_as_another(place, tmp_path, capsys):
    folder = Folder(place, tmp_path / "copy")
    no_total(folder)
    folder.model["method"]["options"]["spending"] = "fixed"
    folder.made_again()
    folder.seal("certificate", "model", "arrays")
    assert call("certify", folder.path, "--ledger", ledger(place)) == 1
    assert "another total" in capsys.readouterr().out
