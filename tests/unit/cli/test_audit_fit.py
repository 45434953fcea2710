"""taskveil audit fit: the options of fit, exit codes, and a result that only its own model's folder takes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.cli import fit


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    rng = np.random.default_rng(0)
    folder = tmp_path_factory.mktemp("visits")
    X = rng.uniform(0.0, 10.0, (120, 2)).round(2)
    frame = pd.DataFrame(X, columns=["age", "dose"]).assign(days=(X @ [0.5, 0.2]).round(2), site=np.repeat(list("abc"), 40))
    frame.to_csv(folder / "visits.csv", index=False)
    (folder / "complete.json").write_text(json.dumps({"features": {"*": [0, 10]}, "target": [0, 10]}))
    (folder / "features.json").write_text(json.dumps({"features": {"*": [0, 10]}}))
    return folder


def run(*arguments):
    from taskveil.cli.main import run as main

    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return stop.value.code


def described(table, bounds="complete.json"):
    return (
        table / "visits.csv", "--task", "site", "--target", "days", "--unit", "record", "--method", "mean", "--set", "rounds=3",
        "--bounds", table / bounds,
    )  # fmt: skip


def audit(table, *more, bounds="complete.json"):
    return run("audit", "fit", *described(table, bounds), "--trials", "40", "--seed", "1", "--jobs", "1", *more)


def test_a_sound_configuration_is_consistent_and_prints_one_document(table, capsys):
    assert audit(table, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    keys = {"target", "claimed_epsilon", "delta", "lower_bound", "confidence", "attack", "trials", "verdict", "power", "leaks"}
    assert keys <= set(found) and found["verdict"] == "consistent" and found["unit"] == "record"
    assert found["configuration"]["scaling"] == "declared" and found["trials"] == 40


def test_ranges_for_the_features_alone_never_pass_under_unit_record(table):
    """Refused before anything is run (2) or refuted (1)."""
    assert audit(table, bounds="features.json") in (1, 2)


def test_a_fault_in_preparation_exits_with_1(table, monkeypatch, capsys):
    class Centred(tv.TaskRegressor):
        def fit(self, tasks):
            from dataclasses import replace

            own = np.repeat([tasks.y[tasks.rows(i)].mean() for i in range(tasks.n_tasks)], tasks.sizes)
            return super().fit(replace(tasks, y=tasks.y - own))

    def planted(data, folder, given, made=fit.configured):
        estimator, tasks = made(data, folder, given)
        return Centred(**estimator.get_params(deep=False)), tasks

    monkeypatch.setattr(fit, "configured", planted)
    assert audit(table) == 1
    assert "REFUTED" in capsys.readouterr().out


def test_bad_input_exits_with_2_in_the_words_of_fit(table, capsys):
    assert run("audit", "fit", table / "visits.csv", "--task", "nowhere", "--target", "days") == 2
    assert run("audit", "fit", table / "visits.csv", "--task", "site", "--target", "days", "--epsilon", "none") == 2
    assert "nothing to refute" in capsys.readouterr().err


def test_no_ledger_is_opened(table, tmp_path):
    assert audit(table, "--ledger", f"sqlite:///{tmp_path}/book.db", "--account", "a") == 0
    assert list(tmp_path.iterdir()) == []


def test_the_result_goes_beside_its_own_model_only(table, tmp_path, capsys):
    model = tmp_path / "model"
    assert run("fit", *described(table), "-o", model) == 0
    assert audit(table, "-o", model) == 0
    assert run("report", model, "--for", "public") == 0
    (model / "audit.json").unlink()
    assert audit(table, "--epsilon", "2", "-o", model) == 2
    assert "epsilon" in capsys.readouterr().err and not (model / "audit.json").exists()


def test_one_run_with_canaries_is_rehearsed_and_says_first_what_it_can_show(tmp_path, capsys):
    """12 canaries share 4 features: price and power are said before, and that it cannot show much."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4))
    frame = pd.DataFrame(X, columns=list("abcd")).assign(days=X @ [1.0, 2.0, 0.0, -1.0], site=np.repeat(np.arange(25), 8))
    frame.to_csv(tmp_path / "visits.csv", index=False)
    table = tmp_path / "visits.csv"
    options = ("audit", "fit", table, "--task", "site", "--target", "days", "--epsilon", "4", "--method", "mean")
    assert run(*options, "--canaries", "12", "--seed", "1") == 0
    said = capsys.readouterr()
    assert "one-run audit with 12 canary tasks beside 25: it cannot show much" in said.err and "Price:" in said.err
    assert "12 canary tasks" in said.out and "consistent" in said.out
    assert run(*options, "--canaries", "12", "--trials", "40") == 2
