"""A task that comes later: refused with a command that works, then trained from the billboard, on the command line alone."""

from __future__ import annotations

import json

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from taskveil.cli.main import run  # noqa: E402


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        run([str(a) for a in arguments])
    return int(stopped.value.code or 0)


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    rng, n, folder = np.random.default_rng(0), 400, tmp_path_factory.mktemp("newcomer")
    table = pd.DataFrame({"hospital": [f"h{i // 10:02d}" for i in range(n)], "age": np.round(rng.uniform(18, 95, n), 1)})
    table["days"] = np.round(table["age"] / 10 + rng.normal(size=n), 2)
    late = table["hospital"] == "h20"
    table[~late].to_csv(folder / "old.csv", index=False)
    table[late].to_csv(folder / "late.csv", index=False)
    table[late].drop(columns="hospital").to_csv(folder / "unnamed.csv", index=False)
    assert call("fit", folder / "old.csv", "--task", "hospital", "--target", "days", "-o", folder / "model") == 0
    return folder


def test_the_error_names_a_command_that_works(place, capsys):
    assert call("predict", place / "model", place / "late.csv") == 2
    assert "`taskveil adapt MODEL NEW.csv --task-name NAME -o DIR`" in capsys.readouterr().err


@pytest.mark.parametrize("table", ["late.csv", "unnamed.csv"])
def test_a_newcomer_gets_a_model_that_predicts_and_certifies(place, tmp_path, table, capsys):
    assert call("adapt", place / "model", place / table, "--task-name", "h20", "-o", tmp_path / "m") == 0
    assert "Nothing was sent or charged" in capsys.readouterr().out
    assert call("predict", tmp_path / "m", place / table, "-o", tmp_path / "p.csv") == 0
    predicted, truth = pd.read_csv(tmp_path / "p.csv")["prediction"], pd.read_csv(place / table)["days"]
    assert np.mean((predicted - truth) ** 2) < np.var(truth)
    assert call("certify", tmp_path / "m") == 0


def test_a_newcomer_may_be_called_otherwise_than_in_its_table(place, tmp_path, capsys):
    """`Predict with: taskveil predict DIR NEW.csv`, said adapt; predict then knew no task of the name in the table."""
    assert call("adapt", place / "model", place / "late.csv", "--task-name", "north", "-o", tmp_path / "m") == 0
    assert call("predict", tmp_path / "m", place / "late.csv", "-o", tmp_path / "p.csv") == 0
    assert "'hospital' is h20 in every row: predicted as north" in capsys.readouterr().err
    assert set(pd.read_csv(tmp_path / "p.csv")["task"]) == {"north"}
    assert call("predict", tmp_path / "m", place / "late.csv", "--unknown", "error") == 2
    assert call("predict", tmp_path / "m", place / "old.csv") == 2, "rows of several other tasks"


def test_no_other_tasks_model_goes_with_the_newcomer(place, tmp_path):
    assert call("adapt", place / "model", place / "late.csv", "--task-name", "h20", "-o", tmp_path / "m") == 0
    assert json.loads((tmp_path / "m" / "model.json").read_text())["task_names"] == ["h20"]
    with np.load(tmp_path / "m" / "arrays.npz") as arrays:
        assert arrays["model/coef"].shape[0] == 1
    assert call("adapt", place / "model", place / "late.csv", "--task-name", "h20", "-o", tmp_path / "m") == 2, "used folder"


def test_a_table_of_several_tasks_is_asked_which(place, tmp_path, capsys):
    assert call("adapt", place / "model", place / "old.csv", "--task-name", "nowhere", "-o", tmp_path / "m") == 2
    assert "none of them 'nowhere'" in capsys.readouterr().err
