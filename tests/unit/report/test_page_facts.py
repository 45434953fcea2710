"""A page says when and of what it was written, in the colour of what it says, with errors in the units the reader knows."""

from __future__ import annotations

import re

import numpy as np
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.report.audience import Audience, cut
from taskveil.report.page import render, tone
from taskveil.report.records import from_estimator, measured_gain


def run_of(epsilon: float | None, table: str = ""):
    tasks = related_tasks(n_tasks=8, rows=(10, 12))
    est = tv.TaskRegressor("mean", epsilon=epsilon).fit(tasks)
    return est, from_estimator(est, measured_gain(est), table=table)


def test_a_page_has_date_table_and_version():
    _, run = run_of(1.0, table="visits.csv")
    head = render(run, Audience()).split("<main>")[0]
    assert re.search(rf"taskveil {re.escape(tv.__version__)} report, 20\d\d-\d\d-\d\d, table visits.csv", head)


def test_the_verdict_is_green_only_where_something_was_gained():
    _, drowned = run_of(0.001)
    assert not any(task["kept"] == "shared" for task in drowned.gain.values()) and tone(drowned) == "even"
    assert tone(cut(drowned, Audience("public"))) == "good", "the public is told of the guarantee, not of the gain"


def test_an_owner_reads_errors_in_the_units_of_the_target():
    est, run = run_of(1.0)
    name = est.task_names_[0]
    own = est.gain_.to_dict()[name]
    expected = np.sqrt(own["error_alone"]) * est.scaling_.y_scale[0]
    assert np.isclose(own["typical_error_alone"], expected)
    assert f"{expected:.3g} alone (typical error in the target&#39;s own units" in render(
        cut(run, Audience("owner", name)), Audience("owner", name)
    )
