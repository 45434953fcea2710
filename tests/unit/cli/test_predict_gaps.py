"""Gaps on the way to a prediction: a row's prediction is its own, and every row that is left out is counted aloud."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from taskveil.cli.main import run

READ = "--task clinic --target days --bad-rows skip --missing impute-own"


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A raw csv of eight clinics whose `mass` is far from zero, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 8 * 20
    mass, dose = rng.normal(80, 5, n).round(1), rng.normal(size=n).round(2)
    days = (mass - 80 + dose + rng.normal(size=n)).round(1)
    frame = pd.DataFrame({"clinic": np.repeat(list("abcdefgh"), 20), "mass": mass, "dose": dose, "days": days})
    frame.to_csv("t.csv", index=False)
    return frame


def called(line: str, capsys) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        run(line.split())
    said = capsys.readouterr()
    return int(stopped.value.code or 0), said.out, said.err


def test_an_empty_cell_is_filled_from_training_whatever_else_is_in_the_file(table, capsys):
    assert called(f"fit t.csv {READ} --epsilon 3 -o m", capsys)[0] == 0
    row = table[:1].assign(mass=np.nan)
    found = []
    for beside in (table[:0], table[20:40], table[1:20].assign(mass=70.0)):  # nobody, another clinic, strange rows of its own
        pd.concat([row, beside]).to_csv("new.csv", index=False)
        code, _, said = called("predict m new.csv -o p.csv", capsys)
        assert code == 0, said
        found.append(pd.read_csv("p.csv")["prediction"][0])
    assert np.ptp(found) == 0.0
    assert abs(found[0] - table["days"][:20].mean()) < 10.0  # a mass of zero would stand eighty days below


def test_rows_left_out_are_counted_by_predict_and_compare(table, capsys):
    assert called(f"fit t.csv {READ} --epsilon 3 -o m", capsys)[0] == 0
    bad = table.astype({"dose": object, "days": object})
    bad.loc[3, "dose"] = "n.d."
    bad.loc[[7, 9], "days"] = None
    bad.loc[11, "mass"] = np.nan
    bad.to_csv("bad.csv", index=False)
    text = "1 with text in the numeric column 'dose'"
    assert f"1 of 160 rows were left out: {text}" in called("predict m bad.csv -o p.csv", capsys)[2]
    assert "1 of 159 rows were left out for an empty cell" in called("predict m bad.csv --missing drop -o p.csv", capsys)[2]
    _, table, said = called(f"compare bad.csv {READ} --methods local --repeats 1", capsys)
    assert text in said and "2 without a target ('days')" in said
    assert "+-" not in table and "one repeat, so how it varies is not known" in table


@pytest.mark.parametrize("unit", ["task", "record"])
def test_a_comparison_holds_the_method_that_fit_takes(unit, table, tmp_path, capsys):
    (tmp_path / "b.toml").write_text("target = [-50, 50]\n[features]\nmass = [50, 110]\ndose = [-5, 5]\n")
    read = "--task clinic --target days --bounds b.toml --missing impute-bounds"
    code, out, said = called(f"compare t.csv {read} --unit {unit} --epsilons 3 --repeats 1", capsys)
    assert code == 0 and "\ntogether " in out, said


def test_a_comparison_of_single_rows_until_an_event_needs_no_names(table, tmp_path, capsys):
    table.assign(days=table["days"].abs(), died=1).to_csv("s.csv", index=False)
    (tmp_path / "b.toml").write_text("target = [0, 50]\n[features]\nmass = [50, 110]\ndose = [-5, 5]\n")
    read = "--task clinic --target days --event died --bounds b.toml"
    code, out, said = called(f"compare s.csv {read} --unit record --epsilons 3 --repeats 1", capsys)
    assert code == 0 and "\nmean " in out, said
