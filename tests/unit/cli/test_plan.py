"""`taskveil plan`: the epsilon of every stage of a run, and the paper's theorems at the plan's own number of rounds."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from taskveil.calculators import pmtl
from taskveil.cli.plan import command


def planned(*options: str) -> dict:
    result = CliRunner().invoke(command, ["--tasks", "200", "--features", "6", "--epsilon", "1", *options, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_it_says_what_is_spent_after_1_2_4_rounds():
    spending = planned("--method", "mean", "--rounds", "6", "--set", "strength=0.5")["spending"]
    assert [s["round"] for s in spending] == [1, 2, 4, 6]
    spent = [s["epsilon"] for s in spending]
    assert spent == sorted(spent) and spent[-1] == pytest.approx(1.0, rel=1e-3)


def test_nothing_is_spent_without_a_sound_epsilon():
    assert planned("--method", "local")["spending"] == []
    assert planned("--method", "low-rank", "--variant", "paper")["spending"] == []


def test_the_papers_theorems_are_evaluated_at_the_rounds_of_the_plan():
    found = planned("--method", "mean", "--rounds", "7", "--theorem", "pmtl-1", "--theorem", "pmtl-3", "--theorem", "pmtl-5")
    one, three, five = found["theorems"]
    expected = pmtl.privacy(n_tasks=200, n_rounds=7, epsilon=1.0, delta=found["delta"])
    assert one["values"]["noise_on_mean"] == pytest.approx(expected.values["noise_on_mean"])
    assert [t["theorem"] for t in (three, five)] == ["PMTL Theorem 3", "PMTL Theorem 5"]
