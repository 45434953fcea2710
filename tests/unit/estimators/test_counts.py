"""Counts (loss="poisson") and outliers (loss="huber")."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.linear_model import HuberRegressor, PoissonRegressor
from sklearn.metrics import d2_tweedie_score, r2_score

import taskveil as tv
from taskveil import methods
from taskveil.errors import DataError, OptionError
from taskveil.estimators.compare import compare
from taskveil.losses import LOSSES
from taskveil.report.records import settings
from taskveil.tasks.robust import DEVIATIONS, medians, robust_scales


def counts(n_tasks=10, n=20, seed=0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    X, weeks = rng.standard_normal((n_tasks * n, 3)), rng.uniform(1.0, 20.0, n_tasks * n)
    level = np.repeat(rng.normal(0.0, 1.0, n_tasks), n)
    falls = rng.poisson(weeks * np.exp(X @ [0.5, -0.3, 0.0] + level - 1.0)).astype(float)
    return pd.DataFrame(X, columns=["a", "b", "c"]).assign(
        weeks=weeks, falls=falls, site=np.repeat([f"s{i}" for i in range(n_tasks)], n)
    )


@pytest.mark.parametrize("exposed", [True, False])
def test_one_task_alone_agrees_with_scikit_learn_to_a_millionth(exposed):
    f = counts(1, 300)
    X, y, e = f[["a", "b", "c"]].to_numpy(), f["falls"].to_numpy(), f["weeks"].to_numpy() if exposed else np.ones(300)
    theirs = PoissonRegressor(alpha=0.0, tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(X, y / e, sample_weight=e)
    for local in (methods.get("local", strength=0.0), "pooled"):
        est = tv.TaskRegressor(local, epsilon=None, loss="poisson", exposure=e if exposed else None)
        ours = est.fit(X, y, task=np.zeros(300))
        np.testing.assert_allclose([*ours.coef_[0], ours.intercept_[0]], [*theirs.coef_, theirs.intercept_], atol=1e-6)


def test_a_penalty_is_that_of_scikit_learn_in_units_of_the_mean_rate():
    f = counts(1, 300)
    X, y = f[["a", "b", "c"]].to_numpy(), f["falls"].to_numpy()
    theirs = PoissonRegressor(alpha=0.7, tol=1e-12, max_iter=10_000, solver="newton-cholesky").fit(X, y)
    local = methods.get("local", strength=0.7 / y.mean())
    ours = tv.TaskRegressor(local, epsilon=None, loss="poisson", scaling="none").fit(X, y, task=np.zeros(300))
    np.testing.assert_allclose([*ours.coef_[0], ours.intercept_[0]], [*theirs.coef_, theirs.intercept_], atol=1e-6)


@pytest.mark.parametrize("method", ["local", "pooled", "mean", "subspace", "together"])
@pytest.mark.parametrize("epsilon", [None, 4.0])
def test_every_method_that_takes_counts_explains_deviance(method, epsilon):
    f, new = counts(), counts(seed=0)
    est = tv.TaskRegressor(method, epsilon=epsilon, loss="poisson", exposure="weeks").fit(
        f[["a", "b", "c", "weeks"]], f["falls"], task=f["site"]
    )
    predicted = est.predict(new[["a", "b", "c", "weeks"]], task=new["site"])
    assert est.score(new[["a", "b", "c", "weeks"]], new["falls"], task=new["site"]) == pytest.approx(
        d2_tweedie_score(new["falls"], predicted, power=1)
    )
    assert d2_tweedie_score(new["falls"], predicted, power=1) > 0.3
    rates = est.predict(new[["a", "b", "c"]], task=new["site"])
    np.testing.assert_allclose(predicted, rates * new["weeks"])


def test_tables_columns_and_arrays_of_exposures_are_the_same():
    f = counts()
    options = {"epsilon": None, "loss": "poisson"}
    loaded = tv.load_tasks(f, task="site", target="falls", exposure="weeks")
    X, y, ids = f[["a", "b", "c"]], f["falls"], f["site"]
    made = [
        tv.TaskRegressor(**options).fit(loaded),
        tv.TaskRegressor(**options, exposure="weeks").fit(X.assign(weeks=f["weeks"]), y, task=ids),
        tv.TaskRegressor(**options, exposure=f["weeks"].to_numpy()).fit(X.to_numpy(), y.to_numpy(), task=ids),
    ]
    for est in made[1:]:
        np.testing.assert_array_equal(est.coef_, made[0].coef_)
    np.testing.assert_allclose(made[0].predict(loaded), made[1].predict(X.assign(weeks=f["weeks"]), task=ids))


def test_units_of_exposure_change_nothing_but_the_intercept():
    f = counts()
    one, two = (
        tv.TaskRegressor("subspace", epsilon=None, loss="poisson", exposure=f["weeks"].to_numpy() * unit).fit(
            f[["a", "b", "c"]], f["falls"], task=f["site"]
        )
        for unit in (1.0, 7.0)
    )
    np.testing.assert_allclose(two.coef_, one.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(two.intercept_, one.intercept_ - np.log(7.0), rtol=1e-9)


@pytest.mark.parametrize(
    ("column", "value", "says"), [("falls", -1.0, "negative"), ("weeks", 0.0, "above zero"), ("weeks", np.nan, "above zero")]
)
def test_impossible_counts_and_exposures_are_refused_or_set_aside(column, value, says):
    f = counts()
    f.loc[25, column] = value
    X, y, ids = f[["a", "b", "c", "weeks"]], f["falls"], f["site"]
    with pytest.raises(DataError, match=says):
        tv.TaskRegressor(epsilon=None, loss="poisson", exposure="weeks").fit(X, y, task=ids)
    est = tv.TaskRegressor("mean", epsilon=1.0, loss="poisson", exposure="weeks").fit(X, y, task=ids)
    assert list(est.task_warnings_) == ["s1"]


def test_no_events_one_row_and_huge_counts_are_normal():
    f = counts(6, 8)
    f.loc[f["site"] == "s1", "falls"] = 0.0
    f.loc[f["site"] == "s2", "falls"] = 1e12
    f = f[(f["site"] != "s3") | (f.index == 24)]
    for method in ("local", "pooled", "together", "mean"):
        est = tv.TaskRegressor(method, epsilon=2.0, loss="poisson").fit(f[["a", "b", "c"]], f["falls"], task=f["site"])
        assert np.isfinite(est.predict(f[["a", "b", "c"]], task=f["site"])).all()


def test_exposures_of_training_rows_stay_out_of_folders_and_pages(tmp_path):
    f = counts()
    est = tv.TaskRegressor("mean", epsilon=1.0, loss="poisson", exposure=f["weeks"].to_numpy()).fit(
        f[["a", "b", "c"]], f["falls"], task=f["site"]
    )
    assert "exposure" not in settings(est) and "exposure" not in (est.save(tmp_path / "m") / "model.json").read_text()
    assert tv.load(tmp_path / "m").loss == "poisson" and est.__getstate__()["exposure"] is None
    predicted = [e.predict(f[["a", "b", "c"]], task=f["site"]) for e in (tv.load(tmp_path / "m"), est)]
    np.testing.assert_array_equal(*predicted)


def test_records_need_the_largest_count_and_exposure_declared():
    f = counts(4, 500)
    features = {"a": [-4, 4], "b": [-4, 4], "c": [-4, 4]}
    given = {"epsilon": 8.0, "unit": "record", "loss": "poisson", "exposure": "weeks", "insecure_noise_seed": 1}
    X, y, ids = f[["a", "b", "c", "weeks"]], f["falls"], f["site"]
    with pytest.raises(OptionError, match="largest count to be declared"):
        tv.TaskRegressor("mean", **given, bounds={"features": {**features, "weeks": [0, 20]}}).fit(X, y, task=ids)
    with pytest.raises(OptionError, match="range of the exposure"):
        tv.TaskRegressor("mean", **given, bounds={"features": features, "target": [0, 30]}).fit(X, y, task=ids)
    declared = {"features": {**features, "weeks": [0, 20]}, "target": [0, 30]}
    est = tv.TaskRegressor("mean", **given, bounds=declared).fit(X, y, task=ids)
    assert est.record_.billboards[-1].values["mean"][0, 0] > 0.0 > est.record_.billboards[-1].values["mean"][0, 1]


@pytest.mark.parametrize("name", [n for n in methods.names() if "poisson" not in methods.get(n).losses])
def test_methods_that_cannot_refuse_with_a_sentence(name):
    f = counts()
    with pytest.raises(OptionError, match="use .*local, mean, pooled"):
        tv.TaskRegressor(name, epsilon=1.0, loss="poisson").fit(f[["a", "b", "c"]], f["falls"], task=f["site"])


def test_a_loss_or_exposure_that_does_not_fit_is_refused():
    f = counts()
    X, y, ids = f[["a", "b", "c"]], f["falls"], f["site"]
    with pytest.raises(OptionError, match="loss logistic"):
        tv.TaskClassifier(loss="poisson").fit(X, y > 2, task=ids)
    with pytest.raises(OptionError, match="goes with loss='poisson'"):
        tv.TaskRegressor(exposure="weeks").fit(f[["a", "b", "c", "weeks"]], y, task=ids)
    assert clone(tv.TaskRegressor(loss="huber", exposure="weeks")).get_params()["loss"] == "huber"


def test_huber_alone_is_the_minimum_of_its_objective():
    """Against a general minimiser of the mean loss in the task's own units (median and median absolute deviation)."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 3))
    y = X @ [1.0, -2.0, 0.5] + 3.0 + 0.3 * rng.standard_normal(150)
    y[:15] += 50.0
    local = methods.get("local", strength=0.0)
    est = tv.TaskRegressor(local, epsilon=None, loss="huber", scaling="none").fit(X, y, task=np.zeros(150))
    loss = LOSSES.get("huber")
    found = minimize(lambda v: loss.value(X @ v[:3] + v[3], y).mean(), np.zeros(4), tol=1e-12, method="BFGS")
    np.testing.assert_allclose([*est.coef_[0], est.intercept_[0]], found.x, atol=1e-5)


@pytest.mark.parametrize("method", ["local", "mean", "subspace", "together"])
def test_wild_targets_harm_huber_less_than_least_squares(method):
    rng = np.random.default_rng(1)
    X, ids = rng.standard_normal((400, 3)), np.repeat(np.arange(10), 40)
    clean = X @ [1.0, -2.0, 0.5] + 0.3 * rng.standard_normal(400)
    wild = np.where(rng.random(400) < 0.1, 40.0 * rng.standard_normal(400), clean)
    error = {}
    for loss in ("squared", "huber"):
        est = tv.TaskRegressor(method, epsilon=None, loss=loss).fit(X, wild, task=ids)
        error[loss] = np.mean((est.predict(X, task=ids) - clean) ** 2)
    assert error["huber"] < 0.5 * error["squared"]


WIDE = {"features": {f"x{i}": [-6, 6] for i in range(4)}, "target": [-30, 40]}


@pytest.mark.parametrize("wild", [20.0, 400.0, 1e6, 1e150])
@pytest.mark.parametrize(
    "options",
    [
        {"method": "local"}, {"method": "together"}, {"method": "subspace"}, {"method": "mean"},
        {"method": "together", "epsilon": 3.0}, {"method": "mean", "epsilon": 3.0}, {"method": "subspace", "epsilon": 3.0},
        {"method": "together", "epsilon": 3.0, "scaling": "own"},
        {"method": "together", "epsilon": 3.0, "unit": "record", "bounds": WIDE},
        {"method": "mean", "epsilon": 3.0, "unit": "record", "bounds": WIDE},
    ],
    ids=lambda options: "-".join(str(v) for k, v in options.items() if k != "bounds"),
)  # fmt: skip
def test_wild_targets_of_any_size_leave_the_models_as_good_as_hubers_of_scikit_learn(options, wild):
    """Eight percent of the targets, most of them on one side; scored where they are not. The reference gets every task's rows."""
    rng = np.random.default_rng(3)
    tasks, rows = 30, 40
    w, level, t = (
        rng.normal(size=4) + 0.3 * rng.normal(size=(tasks, 4)),
        5 + rng.normal(size=tasks),
        np.repeat(np.arange(30), rows),
    )
    X, Z = rng.uniform(-2, 2, (2, tasks * rows, 4))
    y = level[t] + (X * w[t]).sum(axis=1) + 0.3 * rng.normal(size=t.size)
    y = np.where(rng.random(t.size) < 0.08, wild * np.where(rng.random(t.size) < 0.8, 1.0, -1.0), y)
    true = level[t] + (Z * w[t]).sum(axis=1)
    theirs = np.empty(t.size)
    for i in range(tasks):
        here, middle = t == i, np.median(y[t == i])
        unit = np.median(np.abs(y[here] - middle))
        theirs[here] = unit * HuberRegressor(max_iter=1000).fit(X[here], (y[here] - middle) / unit).predict(Z[here]) + middle
    est = tv.TaskRegressor(loss="huber", **{"epsilon": None, **options}).fit(X, y, task=t)
    assert r2_score(true, est.predict(Z, task=t)) > min(r2_score(true, theirs), 0.99) - 0.01


def test_units_are_robust_where_most_values_are_equal():
    """Seven in ten targets are zero, one in ten is wild: the scale is that of the others."""
    y = np.array([0.0] * 14 + [1.0, 2.0, 1.0, 3.0] + [1e6] * 2)
    ends = np.array([0, 20, 20, 21])
    y = np.append(y, 5.0)
    centre = medians(y, ends)
    assert centre.tolist() == [0.0, 0.0, 5.0]
    assert robust_scales(y, ends, centre).tolist() == pytest.approx([DEVIATIONS * 2.5, 0.0, 0.0])


def test_medians_are_those_of_numpy_for_ragged_tasks_and_counted_rows():
    rng = np.random.default_rng(0)
    ends = np.array([0, 1, 1, 6, 12])
    y, counted = rng.normal(size=12), rng.random(12) < 0.7
    ours = medians(y, ends), medians(y, ends, counted)
    for i, (a, b) in enumerate(zip(ends, ends[1:], strict=False)):
        assert ours[0][i] == pytest.approx(np.median(y[a:b]) if b > a else 0.0)
        assert ours[1][i] == pytest.approx(np.median(y[a:b][counted[a:b]]) if counted[a:b].any() else 0.0)


def test_what_sharing_gains_shows_through_wild_targets():
    """Every model is as wrong about a wild target: by a mean of errors nothing would be gained."""
    rng = np.random.default_rng(2)
    tasks, rows = 20, 16
    ids = np.repeat(np.arange(tasks), rows)
    X = rng.normal(size=(ids.size, 5))
    clean = X @ [1.0, -1.0, 0.5, 0.0, 2.0] + 7.0 + rng.normal(size=ids.size)
    found = {}
    for wild in (0.0, 1e6):
        y = np.where((rng.random(ids.size) < 0.06) & (wild > 0), wild, clean)
        gain = tv.TaskRegressor("together", epsilon=None, loss="huber").fit(X, y, task=ids).gain_
        found[wild] = gain.to_frame()[["typical_error_alone", "typical_error_shared"]].median()
    assert found[1e6]["typical_error_shared"] < 0.95 * found[1e6]["typical_error_alone"]
    np.testing.assert_allclose(found[1e6], found[0.0], rtol=0.35)
    Z = rng.normal(size=X.shape)
    unseen = Z @ [1.0, -1.0, 0.5, 0.0, 2.0] + 7.0
    tables = [tv.load_tasks(pd.DataFrame(x).assign(task=ids, y=v), task="task", target="y") for x, v in ((X, y), (Z, unseen))]
    compared = compare(lambda _: tuple(tables), [methods.get("local"), methods.get("together")], [None], repeats=1, loss="huber")
    assert compared["metric"] == "median-error"
    error = {row["method"]: row["mean"] for row in compared["results"]}
    assert error["together"] < error["local"] < error["constant"] < 10.0
