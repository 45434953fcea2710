"""A page says when and of what it was written, in the colour of what it says, with errors in the units the reader knows."""

from __future__ import annotations

import json
import re

import numpy as np
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.estimators.planning import noise_and_signal
from taskveil.estimators.recommend import recommendation
from taskveil.report.audience import Audience, cut
from taskveil.report.billboard import pictures
from taskveil.report.by_size import sizes
from taskveil.report.comparison_charts import curves
from taskveil.report.gain_charts import gain
from taskveil.report.page import events, render, tone
from taskveil.report.privacy_charts import audit, budget, noise
from taskveil.report.records import Board, Run, from_estimator, measured_gain
from taskveil.report.words import METRICS, comparison_verdict, number_in_words


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
    lost = {f"t{i}": {"error_alone": 1.0, "error_shared": 0.9 if i < 2 else 1.1, "kept": "shared"} for i in range(5)}
    assert tone(Run(gain=lost)) == "even", "two gain, three lose"
    assert tone(cut(drowned, Audience("public"))) == "good", "the public is told of the guarantee, not of the gain"


def test_a_comparison_is_green_only_where_a_private_setting_beats_learning_alone():
    holds = {"statements": [{"holds": True, "unit": "task"}]}
    rows = [{"method": m, "epsilon": e, "mean": v, **holds} for m, e, v in (("local", None, 0.8), ("mean", 1.0, 0.8))]
    compared = {"metric": "nmse", "results": rows, "repeats": 1}
    assert tone(Run(comparison=compared)) == "even" and "the same as each task alone" in comparison_verdict(compared)[0]
    rows[1]["mean"] = 0.6
    assert tone(Run(comparison=compared)) == "good" and "25 % lower than each task alone" in comparison_verdict(compared)[0]
    assert tone(Run(comparison={**compared, "metric": "auc"})) == "even"


def test_a_comparison_is_not_green_for_a_gain_within_the_spread():
    """The page said green where the command, of the same figures, recommended to learn alone."""
    holds = {"statements": [{"holds": True, "unit": "task"}]}
    alone = {"method": "local", "epsilon": None, "mean": 0.8, "scores": [0.7, 0.9], **holds}
    rows = [alone, {"method": "mean", "epsilon": 1.0, "mean": 0.79, "scores": [0.79, 0.79], **holds}]
    compared = {"metric": "nmse", "results": rows, "repeats": 2, "recommendation": recommendation(rows, "nmse")}
    assert tone(Run(comparison=compared)) == "even"
    assert comparison_verdict(compared)[0].startswith("Recommendation: local, which shares nothing")


def test_a_constant_far_off_does_not_press_the_curves_into_one_line():
    settings = [("constant", None, 1.08), ("local", None, 0.036), ("mean", 1.0, 0.035), ("mean", 10.0, 0.033)]
    rows = [{"method": m, "variant": "sound", "epsilon": e, "mean": v, "std": 0.001} for m, e, v in settings]
    (chart,) = curves(Run(comparison={"metric": "nmse", "results": rows, "repeats": 2}))
    assert len(chart.layout["shapes"]) == 1 and "A constant for each task (1.08) is too far off" in chart.summary
    rows[0]["mean"] = 0.04
    (chart,) = curves(Run(comparison={"metric": "nmse", "results": rows, "repeats": 2}))
    assert len(chart.layout["shapes"]) == 2 and "too far off" not in chart.summary


def test_an_owner_reads_errors_in_the_units_of_the_target():
    est, run = run_of(1.0)
    name = est.task_names_[0]
    own = est.gain_.to_dict()[name]
    expected = np.sqrt(own["error_alone"]) * est.scaling_.y_scale[0]
    assert np.isclose(own["typical_error_alone"], expected)
    page = render(cut(run, Audience("owner", name)), Audience("owner", name))
    drawn = json.loads(re.search(r'id="figures">(.*?)</script>', page)[1])
    assert np.isclose(drawn["gain"]["data"][1]["x"][0], expected) and "units" in drawn["gain"]["layout"]["xaxis"]["title"]["text"]
    assert f"{expected:.3g} alone (typical error in the target&#39;s own units" in render(
        cut(run, Audience("owner", name)), Audience("owner", name)
    )


def test_a_chart_in_which_nothing_moves_says_why():
    """Above forty tasks bars of zero height looked like a chart that failed to load."""
    task = {"error_alone": 1.0, "error_shared": 1.0, "kept": "alone"}
    run = Run(gain={f"t{i}": dict(task) for i in range(50)}, gain_metric="mean squared error")
    (chart,) = gain(run)
    assert "No bar is drawn, because nothing changed" in chart.summary
    run.gain["t0"]["error_shared"], run.gain["t0"]["kept"] = 0.5, "shared"
    assert "1 of 50 tasks" in gain(run)[0].summary


def test_words_about_levels_stand_in_the_legend_and_not_over_bars():
    """In a comparison they hid the last private point, the best one."""
    _, run = run_of(1.0)
    settings = [
        {"method": m, "variant": "sound", "epsilon": e, "mean": 0.5, "std": 0.1} for m, e in (("local", None), ("mean", 1.0))
    ]
    compared = Run(comparison={"results": settings, "metric": "nmse", "repeats": 2})
    for (chart,) in (noise(run), budget(run), curves(compared)):
        assert "annotations" not in chart.layout and all(s["showlegend"] and s["name"] for s in chart.layout["shapes"])
        assert chart.layout["showlegend"]


def test_an_attack_that_shows_nothing_is_an_empty_bar_with_a_word():
    found = {"target": "mean", "lower_bound": 0.0, "claimed_epsilon": 1.0, "verdict": "consistent"}
    assert "No bar is drawn where an attack showed nothing" in audit(Run(audits=(found,)))[0].summary
    (chart,) = audit(Run(audits=({**found, "lower_bound": 0.4},)))
    assert "No bar" not in chart.summary and "no private rows" not in chart.note, "an audit of a fit does read rows"


def test_errors_by_size_are_in_the_units_of_the_target():
    task = {"error_alone": 1.0, "error_shared": 0.5, "kept": "shared", "rows": 9}
    typical = {"typical_error_alone": 30.0, "typical_error_shared": 20.0}
    (chart,) = sizes(Run(gain={n: {**task, **typical} for n in "ab"}, gain_metric="mean squared error (scaled target)"))
    assert chart.traces[0]["y"] == [30.0] and chart.layout["yaxis"]["title"]["text"] == "typical error in the target's units"
    (chart,) = sizes(Run(gain=dict.fromkeys("ab", task), gain_metric="log loss"))
    assert chart.traces[0]["y"] == [1.0] and chart.layout["yaxis"]["title"]["text"] == "log loss"


def test_a_large_matrix_is_drawn_where_its_entries_are_large():
    """Forty-seven names under each other cannot be read, and one large entry among them looked like nothing at all."""
    matrix = np.zeros((47, 47))
    matrix[33, 33], matrix[5, 33] = 0.8, 0.1
    run = Run(boards=[Board(0, {}), Board(1, {"map": matrix})], feature_names=tuple(f"f{j}" for j in range(47)))
    (chart,) = pictures(run)
    z = np.array(chart.traces[-1]["z"])
    assert z.shape == (20, 20) and z.max() == 0.8 and "f33" in chart.traces[-1]["x"]
    assert "f33 with f33, 0.8" in chart.summary and "20 x 20 part" in chart.summary


def test_the_noise_on_a_page_is_the_noise_that_plan_says():
    est = tv.TaskRegressor(epsilon=8.0).fit(related_tasks(n_tasks=8, rows=(10, 12)))
    size, signal = noise_and_signal(est.record_.plan.releases[0], est.record_.public)
    [chart] = noise(from_estimator(est, measured_gain(est)))
    assert chart.traces[0]["y"] == [size / signal]


def test_a_page_without_numbers_of_rows_does_not_weigh_the_noise_of_single_rows_against_tasks():
    bounds = {"features": {"*": [-5, 5]}, "target": [-20, 20]}
    tasks = related_tasks(n_tasks=8, rows=(30, 32))
    est = tv.TaskRegressor(epsilon=3.0, unit="record", bounds=bounds).fit(tasks)
    run = from_estimator(est, measured_gain(est))
    assert noise(run) and noise(cut(run, Audience("public"))) == []


def test_plain_words_write_no_power_of_ten_below_a_million():
    assert [number_in_words(v) for v in (2.718, 20.09, 999.9, 2981.0, 59874.1, 1e6)] == [
        "2.72", "20.1", "1,000", "2,980", "59,900", "1e+06"
    ]  # fmt: skip


def test_a_matrix_over_features_and_intercept_has_their_names():
    board = Board(1, {"basis": np.eye(3), "share": np.array([0.2, 0.0, 0.5])})
    drawn = pictures(Run(boards=[board], feature_names=("age", "dose")))
    assert drawn[0].traces[0]["x"] == ["age", "dose", "intercept"] and "intercept with intercept" in drawn[0].summary


def test_a_task_without_error_of_its_own_does_not_press_all_bars_into_the_axis():
    """A school that had next to no error alone rose by 10^15 per cent, and no other bar could be seen."""
    tasks = {f"t{i}": {"error_alone": 1.0, "error_shared": 0.9, "kept": "shared"} for i in range(50)}
    tasks["t0"] = {"error_alone": 1e-17, "error_shared": 0.1, "kept": "shared"}
    (chart,) = gain(Run(gain=tasks, gain_metric="mean squared error"))
    low, high = chart.layout["yaxis"]["range"]
    assert low < -10 and high < 110 and max(label["y"] for label in chart.layout["annotations"]) <= high
    assert "Bars end at +100 %, which the error of 1 of them exceeds" in chart.summary
    assert "> +1000 %" in {row[-1] for row in chart.rows}


def test_errors_of_zero_are_an_empty_chart_with_a_word():
    task = {"error_alone": 0.0, "error_shared": 0.0, "kept": "alone", "rows": 9}
    (chart,) = sizes(Run(gain=dict.fromkeys("ab", task), gain_metric="log loss"))
    assert "No bar is drawn, because every error is zero" in chart.summary


def test_the_name_of_a_metric_fits_beside_its_axis_and_a_lone_point_has_an_axis_around_it():
    rows = [
        {"method": m, "variant": "sound", "epsilon": e, "mean": 0.66, "std": 0.0} for m, e in (("local", None), ("mean", 2.0))
    ]
    for metric in METRICS:
        (chart,) = curves(Run(comparison={"metric": metric, "results": rows, "repeats": 1}))
        axis = chart.layout["yaxis"]
        assert len(axis["title"]["text"]) <= 34 and 0.5 < axis["range"][0] < 0.66 < axis["range"][1] < 0.8
    (chart,) = curves(Run(comparison={"metric": "auc", "results": rows, "repeats": 1}))
    assert chart.summary.startswith("Area under the curve of hits over false alarms (AUC) on held-out rows")


def test_a_page_does_not_state_how_cells_would_be_filled_where_the_table_came_filled():
    """Under `--missing impute-bounds` the settings said 'missing: error'."""
    _, run = run_of(1.0)
    assert "missing" not in run.options
    tasks = related_tasks(n_tasks=8, rows=(10, 12))
    est = tv.TaskRegressor("mean", epsilon=1.0, missing="impute-own").fit(tasks)
    assert from_estimator(est, measured_gain(est)).options["missing"] == "impute-own"


def test_without_noise_nothing_is_said_to_be_clipped():
    _, run = run_of(None)
    assert {row[3] for row in events(run)} == {"-"}
    _, run = run_of(1.0)
    assert "-" not in {row[3] for row in events(run)}
