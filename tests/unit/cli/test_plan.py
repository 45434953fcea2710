"""`taskveil plan`: the epsilon of every stage of a run, and the paper's theorems at the plan's own number of rounds."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

import taskveil as tv
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


def test_the_gain_it_expects_falls_with_the_noise_until_little_is_left():
    shares = [planned("--epsilon", e)["expected_share"] for e in ("10", "1", "0.1", "0.01")]
    least, most = zip(*shares, strict=True)
    assert list(least) == sorted(least, reverse=True) and list(most) == sorted(most, reverse=True)
    assert least[0] >= 0.4 and most[-1] <= 0.1


def test_it_expects_nothing_that_was_not_measured():
    for options in (["--method", "local"], ["--epsilon", "none"], ["--unit", "record", "--rows", "50"], ["--method", "mean"]):
        assert planned(*options)["expected_share"] is None


def test_what_it_expects_of_tasks_with_a_common_model_is_what_they_gain():
    """Noise alone decides here: one setting that is clear and one that is hopeless (20 more: experiments/estimator_study)."""
    rng = np.random.default_rng(3)
    W = rng.standard_normal(6) + 0.3 * rng.standard_normal((200, 6))
    task, of = np.repeat(np.arange(200), 8), np.repeat(np.arange(200), 20)
    X, Z = rng.standard_normal((1600, 6)), rng.standard_normal((4000, 6))
    y, z = ((A * W[t]).sum(axis=1) + rng.standard_normal(len(t)) for A, t in ((X, task), (Z, of)))

    def error(method, epsilon):
        est = tv.TaskRegressor(method, epsilon=epsilon, delta=1e-5, insecure_noise_seed=1).fit(X, y, task=task)
        return np.mean((est.predict(Z, task=of) - z) ** 2)

    alone, plain = error("local", None), error("together", None)
    for epsilon in ("3", "0.05"):
        least, most = planned("--epsilon", epsilon, "--delta", "1e-5")["expected_share"]
        assert least <= (alone - error("together", float(epsilon))) / (alone - plain) <= most


def test_without_privacy_nothing_is_said_to_be_protected_and_no_signal_of_1e71_is_shown():
    given = ["--tasks", "20", "--features", "6", "--epsilon", "none"]
    text = CliRunner().invoke(command, given).stdout
    assert "no privacy: nothing is protected" in text and "protects one" not in text and "to hide one in" not in text
    assert "e+" not in text and "worth it" not in text
