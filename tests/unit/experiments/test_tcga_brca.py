"""Survival by region: what the page states is what the script found, and what the script found is what the code does today."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from experiments.tcga_brca import run

import taskveil as tv

ROOT = Path(__file__).parents[3]
FOUND = json.loads(run.RESULTS.read_text())
NAMES = {  # as the rows of the page begin
    "each region alone": "local", "pooled": "pooled", "`mean`, no noise": "mean", "**`together`, no noise**": "together",
    "`mean`, rows protected, epsilon 3: each region's own model": "mean, record, epsilon 3",
    "`mean`, rows protected, epsilon 1: each region's own model": "mean, record, epsilon 1",
}  # fmt: skip


@pytest.mark.parametrize(("row", "name"), NAMES.items())
def test_the_page_states_the_figures_of_the_script(row, name):
    page = (ROOT / "docs" / "outcomes.md").read_text()
    shown = re.search(rf"^\| {re.escape(row)} \| (.*) \| (.*) \|$", page, re.M).groups()
    scores = [split[name] for split in FOUND["splits"].values()]
    fixed = FOUND["FLamby's split"][name]
    expected = f"{np.mean(scores):.3f} +- {np.std(scores, ddof=1):.3f}", f"{fixed:.3f}"
    assert tuple(cell.strip("*") for cell in shown) == expected


def test_sharing_is_not_below_regions_alone_and_rows_are_protected_at_little_cost():
    mean = FOUND["mean"]
    assert len(FOUND["splits"]) == 20 and mean["together"] >= max(0.70, mean["local"]) and mean["mean, record, epsilon 3"] >= 0.64


def test_the_recorded_figures_are_those_of_the_code():
    """Nothing is drawn at random without noise: 0.852 stood on the page where the code gave 0.821."""
    path = Path(os.environ.get("TASKVEIL_DATA", "")) / "tcga_brca" / "tcga_brca.csv"
    if not path.is_file():
        pytest.skip("tcga_brca is not in $TASKVEIL_DATA")
    tasks = run.load(str(path), None)
    train = tasks.groups["fold"] == "train"
    for name in ("local", "together"):
        score = tv.TaskSurvival(name, epsilon=None).fit(tasks.select(train)).score(tasks.select(~train))
        assert score == pytest.approx(FOUND["FLamby's split"][name], abs=0.005), name
