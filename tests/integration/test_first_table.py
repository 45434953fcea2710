"""A newcomer's own table, from a csv with empty cells, a text column, a person column and three bad rows to a page."""

from __future__ import annotations

import json

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from taskveil.cli.main import run  # noqa: E402

TABLE = ["--task", "hospital", "--target", "days"]


def call(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        run(list(arguments))
    return int(stopped.value.code or 0)


@pytest.fixture(scope="module")
def visits(tmp_path_factory):
    """40 hospitals of 20 rows; line 7 has no target, line 19 a text among numbers, line 35 no hospital."""
    rng = np.random.default_rng(0)
    n = 800
    table = pd.DataFrame(
        {
            "hospital": [f"h{i // 20:02d}" for i in range(n)],
            "patient": [f"p{k}" for k in rng.integers(0, 600, n)],
            "age": np.round(rng.uniform(18, 95, n), 1).astype(object),
            "bmi": np.where(rng.random(n) < 0.05, np.nan, np.round(rng.normal(27, 4, n), 1)),
            "ward": rng.choice(["surgery", "medicine", "icu"], n),
        }
    )
    table["days"] = np.round(2 + table["age"].astype(float) / 20 + 2 * (table["ward"] == "icu") + rng.normal(size=n), 2)
    table.loc[5, "days"] = np.nan
    table.loc[17, "age"] = "unknown"
    table.loc[33, "hospital"] = None
    path = tmp_path_factory.mktemp("visits") / "visits.csv"
    table.to_csv(path, index=False)
    return path


def test_each_message_leads_to_the_next_step(visits, capsys):
    steps = [
        ([], "which column is the task? Give task=COLUMN (--task COLUMN)"),
        (["--task", "hospital", "--target", "day"], "Did you mean 'days'?"),
        (TABLE, "line 7 has nothing in the column 'days'; line 19 has text in the numeric column 'age'; line 35"),
        ([*TABLE, "--bad-rows", "skip"], "--missing"),
        ([*TABLE, "--features", "age,weight"], "no column 'weight'"),
        ([*TABLE, "--features", "age", "--leave-out", "bmi"], "give one of them"),
    ]
    for options, words in steps:
        assert call("fit", str(visits), *options) == 2
        assert words in capsys.readouterr().err


def test_from_the_table_to_predictions_and_pages(visits, tmp_path, capsys):
    model = str(tmp_path / "model")
    reading = [*TABLE, "--person", "patient", "--missing", "impute-own", "--bad-rows", "skip"]
    assert call("fit", str(visits), *reading, "--method", "auto", "-o", model) == 0
    out, err = capsys.readouterr()
    assert "of 800 rows were left out: 1 with text in the numeric column 'age'" in out
    assert "method auto (40 tasks, 18 features, unit task): 'together'" in err and "no row was looked at" in err
    assert call("predict", model, str(visits), "-o", str(tmp_path / "p.csv")) == 0  # reads the table as `fit` did
    predicted = pd.read_csv(tmp_path / "p.csv")
    assert len(predicted) == 798  # without the row that has no hospital and the one that has text; a target is not needed
    assert predicted["row"].tolist() == [r for r in range(800) if r not in (17, 33)]
    assert call("certify", model) == 0
    assert call("report", model, "--for", "owner", "h07", "--json") == 0


def test_the_few_tasks_of_a_small_consortium_are_advised_to_protect_rows(visits, tmp_path, capsys):
    table = pd.read_csv(visits).drop(columns=["patient", "bmi"])
    table[table["hospital"].isin(["h10", "h11", "h12", "h13"])].to_csv(tmp_path / "four.csv", index=False)
    assert call("fit", str(tmp_path / "four.csv"), *TABLE, "--method", "auto") == 0
    out, err = capsys.readouterr()
    assert "4 tasks are too few to hide one: consider unit='record'" in out and "'mean'" in err
    assert call("fit", str(tmp_path / "four.csv"), *TABLE, "--method", "auto", "--unit", "record", "--json") == 0
    out, err = capsys.readouterr()
    assert "which protects single rows" in err
    assert json.loads(out)["certificate"]["statements"][0]["unit"] == "record"


def test_a_wide_table_makes_a_task_of_every_target(visits, tmp_path, capsys):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 3))
    wide = pd.DataFrame(X, columns=["a", "b", "c"])
    for j in range(4):
        wide[f"q{j}"] = np.where(rng.random(200) < 0.1, np.nan, X @ rng.normal(size=3) + rng.normal(size=200))
    wide["who"] = np.arange(200)
    wide.to_csv(tmp_path / "wide.csv", index=False)
    options = ["--targets", "q0,q1,q2,q3", "--epsilon", "1", "--json"]
    assert call("fit", str(tmp_path / "wide.csv"), *options, "--leave-out", "who") == 0
    without = json.loads(capsys.readouterr().out)
    assert sorted(without["models"]) == ["q0", "q1", "q2", "q3"]
    assert any("one row can serve several tasks" in text for text in without["certificate"]["assumptions"])
    assert call("fit", str(tmp_path / "wide.csv"), *options, "--person", "who") == 0
    assert any("rows of one person" in text for text in json.loads(capsys.readouterr().out)["certificate"]["assumptions"])


def test_models_of_a_wide_table_predict_every_target_of_every_row(tmp_path, capsys):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 2))
    wide = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "q0": X @ [1.0, 2.0], "q1": X @ [-2.0, 1.0]})
    wide.to_csv(tmp_path / "wide.csv", index=False)
    model = str(tmp_path / "model")
    assert call("fit", str(tmp_path / "wide.csv"), "--targets", "q0,q1", "--epsilon", "none", "-o", model) == 0
    assert call("predict", model, str(tmp_path / "wide.csv"), "-o", str(tmp_path / "p.csv")) == 0
    predicted = pd.read_csv(tmp_path / "p.csv").pivot(index="row", columns="task", values="prediction")
    assert predicted.shape == (60, 2)
    np.testing.assert_allclose(predicted[["q0", "q1"]], wide[["q0", "q1"]], atol=0.1)
