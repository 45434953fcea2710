"""A table with gaps: what was left out is said in numbers, and `predict` reads the very file that `fit` read."""

from __future__ import annotations

import json

import numpy as np
import pytest

pd = pytest.importorskip("pandas")

from taskveil.cli.main import run  # noqa: E402

TABLE = ["--task", "hospital", "--target", "days", "--bad-rows", "skip", "--missing", "drop"]


def call(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        run([str(a) for a in arguments])
    return int(stopped.value.code or 0)


@pytest.fixture(scope="module")
def messy(tmp_path_factory):
    """40 hospitals of ten rows: four have no outcome at all, ten rows no hospital, one outcome a word, three ages are missing."""
    rng, n = np.random.default_rng(0), 400
    table = pd.DataFrame({"hospital": [f"h{i // 10:02d}" for i in range(n)], "age": np.round(rng.uniform(18, 95, n), 1)})
    table["days"] = np.round(table["age"] / 10 + rng.normal(size=n), 2).astype(object)
    table.loc[:39, "days"] = None
    table.loc[55:64, "hospital"] = None
    table.loc[100, "days"] = "late"
    table.loc[210:212, "age"] = np.nan
    path = tmp_path_factory.mktemp("messy") / "messy.csv"
    table.to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def model(messy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("model") / "m"
    assert call("fit", messy, *TABLE, "--epsilon", 1, "-o", folder) == 0
    return folder


def test_rows_and_tasks_that_are_gone_are_counted_by_reason(model):
    notes = "\n".join(json.loads((model / "model.json").read_text())["warnings"])
    assert "51 of 400 rows were left out: 10 without a task ('hospital'), 41 without a target ('days')" in notes
    assert "3 of 349 rows were left out for an empty cell" in notes
    assert "4 of 40 task(s) have no usable row: h00, h01, h02, h03" in notes


def test_predict_reads_the_file_that_fit_read(model, messy, tmp_path):
    assert call("predict", model, messy, "-o", tmp_path / "p.csv") == 0
    predicted = pd.read_csv(tmp_path / "p.csv")
    assert len(predicted) == 400 - 10 - 3, "a row needs a hospital and an age, but no outcome"
    assert {"h00", "h03"} <= set(predicted["task"]) and np.isfinite(predicted["prediction"]).all()
