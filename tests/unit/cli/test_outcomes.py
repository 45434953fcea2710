"""Times and counts on the command line: from a raw csv to predictions, and what is refused with exit code 2 and one line."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from taskveil.cli.main import run


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A raw csv of eight clinics, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    n = 8 * 25
    age, weeks = rng.integers(30, 90, n), rng.uniform(1, 9, n).round(1)
    frame = pd.DataFrame({
        "clinic": np.repeat(list("abcdefgh"), 25), "age": age, "dose": rng.normal(size=n).round(2), "weeks": weeks,
        "days": rng.integers(0, 900, n), "died": rng.integers(0, 2, n), "falls": rng.poisson(weeks * 0.3),
    })  # fmt: skip
    frame.to_csv("t.csv", index=False)
    return frame


def called(line: str, capsys) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        run(line.split())
    said = capsys.readouterr()
    return int(stopped.value.code or 0), said.out, said.err


SURVIVAL = "--task clinic --target days --event died --leave-out weeks,falls"
COUNTS = "--task clinic --target falls --loss poisson --exposure weeks --leave-out days,died"


@pytest.mark.parametrize("options", [SURVIVAL, COUNTS])
def test_a_raw_csv_becomes_a_model_predictions_and_a_newcomer(options, table, capsys):
    code, out, _ = called(f"fit t.csv {options} --epsilon 3 -o m --json", capsys)
    assert code == 0 and len(json.loads(out)["models"]) == 8
    assert called("predict m t.csv -o p.csv", capsys)[0] == 0
    predicted = pd.read_csv("p.csv")
    assert len(predicted) == len(table) and np.isfinite(predicted["prediction"]).all()
    assert called("certify m", capsys)[0] == 0
    assert called("adapt m t.csv --task-name c -o new", capsys)[0] == 0
    if "exposure" in options:
        table.drop(columns="weeks").to_csv("without.csv", index=False)
        _, _, said = called("predict m without.csv -o q.csv", capsys)
        assert "per unit of exposure" in said
        np.testing.assert_allclose(predicted["prediction"], pd.read_csv("q.csv")["prediction"] * table["weeks"])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--task clinic --target days --kind survival", "--event EVENT"),
        ("--task clinic --target days --kind regression --event died", "no regression"),
        ("--task clinic --target days --event dead", "no column 'dead'"),
        ("--task clinic --target days --event falls", "0 or 1"),
        ("--task clinic --target days --event days", "the target and the event"),
        ("--task clinic --target falls --exposure weeks", "goes with loss='poisson'"),
        ("--task clinic --target falls --loss poisson --exposure died", "above zero"),
        ("--task clinic --target dose --loss poisson", "not be negative"),
        ("--task clinic --target days --event died --loss huber", "leave out --kind and --loss"),
        ("--task clinic --target days --event died --method low-rank", "not survival; use local"),
        ("--task clinic --target days --event died --unit record --method mean", "largest time to be declared"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(options, says, table, capsys):
    code, _, said = called(f"fit t.csv {options} --epsilon none" if "record" not in options else f"fit t.csv {options}", capsys)
    assert code == 2 and says in said, said


def test_compare_and_plan_know_the_new_outcomes(table, capsys):
    code, out, _ = called(f"compare t.csv {SURVIVAL} --methods local,mean --epsilons 3 --repeats 1 --json", capsys)
    found = json.loads(out)
    assert code == 0 and found["metric"] == "concordance" and found["results"][0]["mean"] == 0.5
    assert called(f"compare t.csv {COUNTS} --methods local --epsilons 3 --repeats 1 --json", capsys)[0] == 0
    assert called("plan --tasks 40 --features 3 --epsilon 1 --kind survival", capsys)[0] == 0
    assert called("plan --tasks 40 --features 3 --epsilon 1 --loss poisson --method svm", capsys)[0] == 2
