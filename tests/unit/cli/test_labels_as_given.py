"""Whoever writes yes and no reads yes and no; newcomers read errors in units they know."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from taskveil.cli.main import run


def call(line: str) -> int:
    with pytest.raises(SystemExit) as stopped:
        run(line.split())
    return int(stopped.value.code or 0)


def test_predict_and_adapt_speak_the_labels_of_the_table(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(0), 8 * 20
    x = rng.normal(size=n).round(3)
    table = pd.DataFrame(
        {"clinic": np.repeat(list("abcdefgh"), 20), "x": x, "back": np.where(x + rng.normal(size=n) > 0, "Yes", "No")}
    )
    table[20:].to_csv("t.csv", index=False)
    table[:20].to_csv("late.csv", index=False)
    assert call("fit t.csv --task clinic --target back --positive yes --epsilon none --method mean -o m") == 0
    assert call("predict m t.csv -o p.csv") == 0
    assert call("adapt m late.csv --task-name a -o late") == 0
    assert "log loss" in capsys.readouterr().out
    assert call("predict late late.csv -o q.csv") == 0
    for file, truth in (("p.csv", table[20:]), ("q.csv", table[:20])):
        found = pd.read_csv(file)
        assert list(found.columns) == ["row", "task", "prediction", "probability_not yes", "probability_yes"]
        assert set(found["prediction"]) == {"yes", "not yes"}
        assert ((found["prediction"] == "yes") == (found["probability_yes"] > 0.5)).all()
        assert ((found["prediction"] == "yes").to_numpy() == (truth["back"] == "Yes").to_numpy()).mean() > 0.6


def test_a_newcomers_error_is_said_in_the_units_of_the_target(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rng, n = np.random.default_rng(0), 6 * 20
    x = rng.normal(size=n).round(3)
    table = pd.DataFrame({"clinic": np.repeat(list("abcdef"), 20), "x": x, "days": (1000 * (x + rng.normal(size=n))).round()})
    table.to_csv("t.csv", index=False)
    table[:20].drop(columns="clinic").to_csv("late.csv", index=False)
    assert call("fit t.csv --task clinic --target days --epsilon none --method mean -o m") == 0
    capsys.readouterr()
    assert call("adapt m late.csv --task-name late -o late") == 0
    said = capsys.readouterr().out
    assert "typical error of 'days', in its own units" in said
    assert 500 < float(said.split("estimated error ")[1].split()[0]) < 2000  # the noise has a deviation of 1000
