"""A verdict has three values and comes from an interval over runs; every kind of claim can come out all three ways."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
from experiments import common, verdicts
from experiments.verdicts import below, computed, interval, near, not_above, positive
from scipy.stats import ttest_rel

RNG = np.random.default_rng(0)
LOW, HIGH = RNG.normal(1.0, 0.1, 20), RNG.normal(2.0, 0.1, 20)
MIXED = np.array([1.0, 2.0, 1.0, 2.0])
ALL_WAYS = {
    "below": (below("a", LOW, HIGH), below("a", HIGH, LOW), below("a", MIXED, MIXED[::-1])),
    "not_above": (not_above("a", LOW, HIGH), not_above("a", HIGH, LOW), not_above("a", MIXED, MIXED[::-1])),
    "positive": (positive("a", HIGH), positive("a", -HIGH), positive("a", MIXED - 1.5)),
    "near": (near("a", LOW, 1.0, 0.2), near("a", HIGH, 1.0, 0.2), near("a", MIXED, 1.0, 0.4)),
    "computed": (computed("a", 1.0, 2.0), computed("a", 2.0, 1.0), computed("a", 1.0, 1.0005)),
}


@pytest.mark.parametrize("kind", ALL_WAYS)
def test_every_kind_of_claim_can_hold_fail_and_stay_open(kind):
    assert tuple(check.holds for check in ALL_WAYS[kind]) == (True, False, None)


def test_one_run_decides_nothing():
    for check in (below("a", [1.0], [9.0]), not_above("a", [1.0], [9.0]), positive("a", [5.0]), near("a", [1.0], 1.0, 0.5)):
        assert check.holds is None, check


def test_a_tie_needs_a_margin_to_hold():
    noisy = LOW + RNG.normal(0, 0.05, 20)
    assert not_above("a", noisy, LOW).holds is None
    assert not_above("a", noisy, LOW, margin=0.2).holds is True
    assert not_above("a", LOW, LOW).holds is True, "the same numbers, run by run"


def test_draws_of_one_split_are_not_counted_as_runs():
    """Two splits that differ much, eight draws each that differ little: as sixteen runs it looks certain, as two it is not."""
    scores = np.array([[0.1], [0.9]]) + RNG.normal(0, 0.01, (2, 8))
    assert interval(scores)[2] == 2 and positive("a", scores).holds is None
    assert positive("a", scores.ravel()).holds is True, "the planted fault: draws taken for runs"
    assert interval(scores[:1])[2] == 8, "a single run is judged over its draws"


def test_the_interval_agrees_with_the_paired_t_test():
    """At the edge of the interval the two-sided p value is 5 %."""
    low, high, _ = interval(HIGH - LOW)
    for edge in (low, high):
        assert ttest_rel(HIGH - edge, LOW).pvalue == pytest.approx(0.05, abs=1e-9)


def test_a_decided_verdict_without_a_difference_is_as_rare_as_stated():
    """Null: no difference. 4,000 checks of 6 runs at 5 %: 200 expected, deviation 13.8; false alarm below 1e-6 at 68 away."""
    data = np.random.default_rng(1).normal(size=(4000, 2, 6))
    decided = sum(below("a", a, b).holds is not None for a, b in data)
    assert abs(decided - 200) < 68


def test_what_a_check_leaves_out_its_item_says(tmp_path):
    def item(quick, seed):
        checks = [below("a is below b", LOW, HIGH), below("ours is below b", LOW, HIGH, about="ours", place="section 2")]
        return common.Result("fig3", "Paper", "c", "0.39 at epsilon 1", checks=checks, axes={"y": "nMSE"})

    kept = common.execute(item, True, 0, tmp_path)["checks"]
    assert [(c["quantity"], c["place"], c["printed"]) for c in kept] == [
        ("nMSE", "Fig. 3", "0.39 at epsilon 1"), ("nMSE", "section 2", "not in the paper"),
    ]  # fmt: skip
    assert kept[0]["low"] < kept[0]["right"] - kept[0]["left"] < kept[0]["high"]


def test_no_experiment_writes_a_verdict_by_hand():
    """Check(...) and holds= are called in verdicts.py alone, so a literal True or False cannot be written."""
    for file in Path(verdicts.__file__).parent.rglob("*.py"):
        if file.name == "verdicts.py":
            continue
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                assert not (isinstance(node.func, ast.Name) and node.func.id == "Check"), (file, node.lineno)
                assert "holds" not in [k.arg for k in node.keywords], (file, node.lineno)
