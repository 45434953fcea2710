"""TaskSurvival: what it takes, what it says, what it refuses, and what stays with a task."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sksurv.metrics import concordance_index_censored
from sksurv.util import Surv

import taskveil as tv
from taskveil import methods
from taskveil.errors import DataError, OptionError
from taskveil.estimators.metrics import concordance
from taskveil.report.audience import Audience, cut
from taskveil.report.page import charts
from taskveil.report.records import from_estimator

BOUNDS = {"features": {"*": [-4, 4]}, "target": [0, 3]}


def table(n_tasks=8, n=30, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_tasks * n, 3))
    time, end = rng.exponential(np.exp(-X @ [1.0, -0.5, 0.0])), rng.uniform(0.2, 4.0, n_tasks * n)
    made = pd.DataFrame(X, columns=["a", "b", "c"]).assign(time=np.minimum(time, end), died=(time <= end).astype(int))
    return made.assign(site=np.repeat([f"s{i}" for i in range(n_tasks)], n))


def fitted(method="together", **options):
    f = table()
    return tv.TaskSurvival(method, **{"epsilon": None, **options}).fit(tv.load_tasks(f, task="site", target="time", event="died"))


def test_concordance_is_that_of_scikit_survival():
    rng = np.random.default_rng(0)
    time, seen, risk = np.ceil(9 * rng.random(300)), rng.random(300) < 0.4, np.round(rng.normal(size=300), 1)
    expected = concordance_index_censored(seen, time, risk)[0]
    assert concordance(risk, np.where(seen, time, -time)) == pytest.approx(expected, abs=1e-12)
    assert np.isnan(concordance(risk, -time))


def test_a_structured_array_two_columns_and_a_table_are_the_same_target():
    f = table()
    X, ids = f[["a", "b", "c"]], f["site"]
    structured = Surv.from_arrays(f["died"].astype(bool), f["time"])
    columns = f[["died", "time"]]
    made = [tv.TaskSurvival(epsilon=None).fit(X, y, task=ids) for y in (structured, columns, columns.to_numpy())]
    read = fitted()
    for est in made:
        np.testing.assert_array_equal(est.coef_, read.coef_)
    assert read.score(X, structured, task=ids) == made[0].score(X, f[["died", "time"]], task=ids) > 0.7


@pytest.mark.parametrize("method", ["local", "pooled", "mean", "subspace", "together"])
@pytest.mark.parametrize("epsilon", [None, 4.0])
def test_every_method_that_takes_survival_ranks_better_than_chance(method, epsilon):
    est = fitted(method, epsilon=epsilon, insecure_noise_seed=None if epsilon is None else 1)
    f = table(seed=5)
    assert est.score(f[["a", "b", "c"]], f[["died", "time"]], task=f["site"]) > 0.6
    assert est.gain_.metric == "1 - concordance" and (est.gain_.error_shared <= 1.0).all()


@pytest.mark.parametrize("method", ["mean", "pooled"])
def test_rows_are_protected_on_a_declared_horizon(method):
    tasks = tv.load_tasks(table(12, 60), task="site", target="time", event="died", bounds=BOUNDS)
    est = tv.TaskSurvival(method, unit="record", epsilon=8.0, insecure_noise_seed=0).fit(tasks)
    assert est.record_.billboards[-1].values["mean"][0, 0] > 0.05 > est.record_.billboards[-1].values["mean"][0, 1]
    assert all(s.unit == "record" for s in est.certificate_.statements)


def test_an_undeclared_horizon_is_refused_before_anything_is_released():
    """The unit of time would be a task's own, and carry one row into every message."""
    declared = {"features": BOUNDS["features"]}
    tasks = tv.load_tasks(table(), task="site", target="time", event="died", bounds=declared)
    for scaling in ("auto", "none", "declared"):
        with pytest.raises(OptionError, match=r"largest time to be declared.*taskveil declare"):
            tv.TaskSurvival("mean", unit="record", scaling=scaling).fit(tasks)


def test_who_is_followed_beyond_the_horizon_was_seen_up_to_it():
    tasks = tv.load_tasks(table(), task="site", target="time", event="died", bounds=BOUNDS)
    late = np.abs(tv.load_tasks(table(), task="site", target="time", event="died").y) > 3
    assert late.any() and (tasks.y[late] == -3.0).all() and (np.abs(tasks.y) <= 3.0).all()


@pytest.mark.parametrize(
    ("column", "value", "says"),
    [("time", -1.0, "not negative"), ("time", np.nan, "missing"), ("died", 2, "0 or 1"), ("died", np.nan, "missing"),
     ("time", np.inf, "finite")],
)  # fmt: skip
def test_times_and_events_that_cannot_be_are_said_in_one_line(column, value, says):
    f = table().astype({"died": float})
    f.loc[3, column] = value
    with pytest.raises(DataError, match=says) as caught:
        tv.load_tasks(f, task="site", target="time", event="died")
    assert "\n" not in str(caught.value)


def test_in_a_private_run_such_a_row_is_its_own_tasks_affair():
    f = table()
    y = f[["died", "time"]].to_numpy(dtype=float)
    y[3, 1] = -1.0
    est = tv.TaskSurvival("mean", epsilon=2.0).fit(f[["a", "b", "c"]], y, task=f["site"])
    assert list(est.task_warnings_) == ["s0"] and "negative counts or times" in est.task_warnings_["s0"][0]
    with pytest.raises(DataError, match="not negative"):
        tv.TaskSurvival("mean", epsilon=None).fit(f[["a", "b", "c"]], y, task=f["site"])


def test_the_time_before_the_event_is_said_in_private_runs_too():
    """Every task was set aside, and the message spoke of missing values."""
    f = table()
    with pytest.raises(DataError, match="the event first"):
        tv.TaskSurvival("mean", epsilon=2.0).fit(f[["a", "b", "c"]], f[["time", "died"]], task=f["site"])


@pytest.mark.parametrize("events", ["none", "all", "in one task", "one row"])
@pytest.mark.parametrize("method", ["local", "pooled", "together"])
def test_few_many_and_no_events_are_normal(events, method):
    f = table(4, 12)
    f["died"] = {"none": 0, "all": 1, "in one task": (f["site"] == "s1").astype(int), "one row": f["died"]}[events]
    f = f.iloc[:37] if events == "one row" else f
    est = tv.TaskSurvival(method, epsilon=3.0 if method == "together" else None).fit(
        f[["a", "b", "c"]], f[["died", "time"]], task=f["site"]
    )
    X = f[["a", "b", "c"]]
    risk, alive = est.predict(X, f["site"]), est.predict_survival_function(X, f["site"], [0.5, 9.0])
    assert np.isfinite(risk).all() and ((alive >= 0) & (alive <= 1)).all()


def test_a_saved_model_predicts_and_survives_as_before(tmp_path):
    est, X = fitted(epsilon=2.0), table()[["a", "b", "c"]]
    back = tv.load(est.save(tmp_path / "m"))
    assert isinstance(back, tv.TaskSurvival)
    ids = table()["site"]
    np.testing.assert_array_equal(back.predict(X, task=ids), est.predict(X, task=ids))
    np.testing.assert_array_equal(*(e.predict_survival_function(X, ids, [1.0]) for e in (back, est)))
    assert json.loads((tmp_path / "m" / "model.json").read_text())["public"]["kind"] == "survival"


def test_a_newcomer_has_a_baseline_of_its_own_and_an_unknown_task_has_none():
    est, new = fitted(epsilon=None), table(1, 40, seed=7)
    adapted = est.adapt(new[["a", "b", "c"]], new[["died", "time"]], name="new")
    assert adapted.predict_survival_function(new[["a", "b", "c"]], times=[1.0]).shape == (40, 1)
    with pytest.raises(DataError, match="no baseline"), pytest.warns(UserWarning, match="not there in fit"):
        est.predict_survival_function(new[["a", "b", "c"]], task=["new"] * 40)


def test_the_times_of_a_survival_function_are_the_tasks_own():
    """Other rows of another task move no time and no value of it."""
    f, other = table(), table(seed=9)
    changed = pd.concat([f[f["site"] != "s5"], other[other["site"] == "s5"]])
    curves = []
    for rows in (f, changed):
        est = tv.TaskSurvival("local", epsilon=None).fit(rows[["a", "b", "c"]], rows[["died", "time"]], task=rows["site"])
        curves.append(est.predict_survival_function(f[["a", "b", "c"]][:1], task=["s0"])[0])
    assert curves[0].x.tobytes() == curves[1].x.tobytes() and curves[0].y.tobytes() == curves[1].y.tobytes()


def test_the_kaplan_meier_picture_is_on_the_owners_page_alone():
    run = from_estimator(fitted(epsilon=2.0))
    names = {kind: [c.name for c in charts(cut(run, Audience(kind, task)))] for kind, task in
             [("all", None), ("owner", "s2"), ("public", None)]}  # fmt: skip
    assert "survival" in names["owner"] and "survival" not in names["all"] + names["public"]
    assert cut(run, Audience("public")).survival == {} and list(cut(run, Audience("owner", "s2")).survival) == ["s2"]


def test_the_kaplan_meier_curve_is_that_of_scikit_survival():
    from sksurv.nonparametric import kaplan_meier_estimator

    f = table(2, 40).assign(time=lambda t: np.ceil(10 * t["time"]))
    est = tv.TaskSurvival("local", epsilon=None).fit(f[["a", "b", "c"]], f[["died", "time"]], task=f["site"])
    mine = f[f["site"] == "s1"]
    times, share = kaplan_meier_estimator(mine["died"].astype(bool), mine["time"])
    own = est.models_.extra
    at = np.searchsorted(times, own["curve_times"][1])
    np.testing.assert_allclose(own["curve_kaplan_meier"][1], share[at], atol=1e-12)


@pytest.mark.parametrize("name", [n for n in methods.names() if "survival" not in methods.get(n).kinds])
def test_methods_that_cannot_refuse_with_a_sentence(name):
    with pytest.raises(OptionError, match="survival.*use .*local, mean, pooled"):
        fitted(name, epsilon=1.0)


def test_scikit_learn_habits():
    est = clone(tv.TaskSurvival("mean", epsilon=None, seed=3))
    assert est.get_params()["seed"] == 3
    with pytest.raises(OptionError, match="loss cox"):
        tv.TaskSurvival(loss="poisson").fit(*[None] * 3)
    with pytest.raises(OptionError, match="sample_weight"):
        fitted().score(table()[["a", "b", "c"]], table()[["died", "time"]], task=table()["site"], sample_weight=np.ones(240))
    with pytest.raises(DataError, match="event first"):
        tv.TaskSurvival(epsilon=None).fit(table()[["a"]], table()["died"].to_numpy(), task=table()["site"])
