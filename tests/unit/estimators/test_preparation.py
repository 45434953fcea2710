"""What an estimator learns before it learns: refused, listed in the certificate, or kept inside the task."""

import json

import numpy as np
import pandas as pd
import pytest
from experiments.hu_2023.naive_dp import NaiveDP

import taskveil as tv
from taskveil.errors import DataError, OptionError
from taskveil.tasks.prepare.facts import Fact
from taskveil.tasks.prepare.step import PrepareRules, scaling_mode
from taskveil.tasks.public_bounds import PublicBounds

FEATURES = {"features": {"age": [0, 100], "dose": [0, 1]}}
WHOLE = {**FEATURES, "target": [-10, 10]}


@pytest.fixture
def visits():
    """12 sites of 15 rows."""
    rng = np.random.default_rng(0)
    n = 180
    sites = np.repeat([f"s{i:02d}" for i in range(12)], 15)
    table = pd.DataFrame({"site": sites, "age": rng.uniform(0, 100, n), "dose": rng.random(n)})
    table["days"] = table["dose"] * 3 + rng.normal(size=n)
    table["out"] = np.where(table["days"] > 1.5, "died", "home")
    return table


def fit(table, target="days", kind=tv.TaskRegressor, features=("age", "dose"), **options):
    options = {"method": "mean", "epsilon": 1.0, **options}
    return kind(**options).fit(table[list(features)], table[target], task=table["site"])


# ------------------------------------------------------------------------- unit = record


@pytest.mark.parametrize("method", ["mean", "pooled", "async"])
def test_records_with_declared_features_and_an_undeclared_target_are_refused_with_the_remedy(visits, method):
    with pytest.raises(OptionError, match=r"Declare the target's range"):
        fit(visits, method=method, unit="record", bounds=FEATURES)
    assert fit(visits, method=method, unit="record", bounds=WHOLE).certificate_.verify().ok


def test_one_record_cannot_move_a_published_model_beyond_the_noise(visits):
    """It moved the published intercept to -362,334: with the same noise now it moves as much as a record inside the range may."""
    public = {"method": tv.methods.get("async", refine=False), "unit": "record", "observer": "public", "bounds": WHOLE}

    def intercept(value):
        table = visits.copy()
        table.loc[3, "days"] = value
        return fit(table, **public, insecure_noise_seed=1, seed=0).intercept_[0]

    assert intercept(1e6) == intercept(10.0)  # clipped to the declared range, and nothing else reacts to it


def test_records_refuse_labels_that_nobody_declared(visits):
    with pytest.raises(OptionError, match="declare the labels under 'classes'"):
        fit(visits, "out", tv.TaskClassifier, unit="record", bounds=FEATURES)
    declared = {**FEATURES, "classes": ["died", "home"]}
    assert fit(visits, "out", tv.TaskClassifier, unit="record", bounds=declared).certificate_.holds


@pytest.mark.parametrize("options", [{"missing": "impute-own"}, {"missing": "drop"}, {"bad_rows": "skip"}])
def test_records_refuse_tasks_that_were_loaded_by_other_rows(visits, options):
    tasks = tv.load_tasks(visits.drop(columns="out"), task="site", target="days", bounds=WHOLE, **options)
    with pytest.raises(OptionError, match="unit='record' prepares each row by itself"):
        tv.TaskRegressor("mean", unit="record").fit(tasks)
    assert tv.TaskRegressor("mean").fit(tasks).certificate_.holds
    assert tv.TaskRegressor("mean", unit="record", epsilon=None).fit(tasks).certificate_.statements == ()


def test_records_refuse_rows_that_serve_several_tasks(visits):
    wide = visits[["age", "dose", "days"]].assign(again=visits["days"] * 0.5, who=np.arange(len(visits)))
    tasks = tv.load_tasks(wide, targets=["days", "again"], person="who", bounds=WHOLE)
    with pytest.raises(OptionError, match="one row can serve several tasks"):
        tv.TaskRegressor("mean", unit="record").fit(tasks)


def test_records_without_ranges_are_taken_as_they_are_and_never_in_units_of_their_task():
    bounds = PublicBounds.coerce({"classes": ["died", "home"]})
    rules = PrepareRules(unit="record")
    assert scaling_mode(rules, "classification", bounds, ["age"]) == "none"
    assert scaling_mode(PrepareRules(unit="task"), "classification", bounds, ["age"]) == "own"


# ------------------------------------------------------------------------- unit = task


def test_tasks_refuse_rows_that_were_left_out_because_of_other_tasks(visits):
    tasks = tv.load_tasks(visits.drop(columns="out"), task="site", target="days").with_facts(Fact("person-limit"))
    with pytest.raises(OptionError, match="which other tasks the person is in"):
        tv.TaskRegressor("mean").fit(tasks)


@pytest.mark.parametrize("declared", [True, False])
def test_labels_are_called_public_only_where_they_were_declared(visits, declared):
    bounds = {**FEATURES, **({"classes": ["died", "home"]} if declared else {})}
    made = fit(visits, "out", tv.TaskClassifier, bounds=bounds).certificate_
    assert ("the declared set of labels" in made.to_json()) is declared


def test_a_table_with_text_columns_runs_undeclared_and_predicts(visits):
    table = visits.assign(ward=np.where(visits["age"] > 50, "icu", "er"))
    est = fit(table, "out", tv.TaskClassifier, ("age", "ward"))
    said = " ".join(est.certificate_.assumptions)
    assert "'ward' is hashed row by row into 16 public buckets" in said and "label set of column 'out' was read off" in said
    assert "the types of all columns" in said and "the names of the tasks" in said
    assert len(est.feature_names_) == 17
    new = table[["age", "ward"]].head(4).assign(ward=["icu", "er", "never seen", None])
    assert est.predict(new, task=table["site"].head(4)).shape == (4,)


def test_no_level_and_no_label_of_a_row_reaches_the_certificate_or_a_public_page(visits, tmp_path):
    """One row with "HIV" made a column `ward=HIV` on the public page."""
    table = visits.assign(ward=["HIV-positive"] + ["er"] * 179, out=visits["out"] + "-secret")
    est = fit(table, "out", tv.TaskClassifier, ("age", "ward"), method="subspace")
    est.save(tmp_path)
    from taskveil.report.audience import Audience
    from taskveil.report.write import report_folder

    page = report_folder(tmp_path, Audience("public")).read_text()
    for text in (page, est.certificate_.to_json(), str(est.certificate_)):
        assert "HIV-positive" not in text and "-secret" not in text
    assert "read off the rows" in page and "16 public buckets" in page


def test_what_was_looked_at_stands_in_the_certificate(visits):
    est = fit(visits, bounds={**WHOLE, "looked_at": ["target", "features.age"]})
    said = est.certificate_.assumptions
    assert sum("filled by looking at values" in text for text in said) == 2
    assert any("declaration of features.age" in text for text in said)
    assert not any("looking at values" in text for text in fit(visits, bounds=WHOLE).certificate_.assumptions)


def test_the_certificate_says_whose_statistics_scaled_the_target(visits):
    """It said that the target is scaled by declared ranges when only those of the features were declared."""
    said = " ".join(fit(visits, bounds=FEATURES).certificate_.assumptions)
    assert "the target's range was not declared: every task scales it by its own statistics" in said
    assert "features and target are scaled by declared public ranges" not in said
    whole = " ".join(fit(visits, bounds=WHOLE).certificate_.assumptions)
    assert "features and target are scaled by declared public ranges" in whole


@pytest.mark.parametrize(
    ("column", "value"), [("age", np.nan), *((column, value) for column in ("age", "days") for value in (1e151, 1e300, np.inf))]
)
def test_one_unusable_value_silences_its_task_and_nobody_else_notices(visits, column, value):
    """It raised for everybody. Its task now sends nothing, keeps a model, and is named to whoever may see all rows."""
    table = visits.copy()
    table.loc[3, column] = value
    est = fit(table, method="subspace")
    assert np.isfinite(est.coef_).all() and est.task_names_ == fit(visits).task_names_
    assert any("s00" in text and "set aside" in text for text in est.warnings_)
    assert set(est.task_warnings_) == {"s00"}
    assert not any("set aside" in text for text in (*est.certificate_.assumptions, *est.certificate_.not_protected))
    for options in ({"epsilon": None}, {"unit": "record"}):
        with pytest.raises(DataError, match="missing, infinite|missing or infinite|beyond"):
            fit(table, **options)


def test_survey_fills_over_everybody_s_rows_are_refused_in_private_runs():
    from experiments.survey import survey_tasks

    rng = np.random.default_rng(0)
    answers = {name: rng.integers(0, 2, 60) for name in ("q1", "q2")}
    survey = pd.DataFrame({"a": rng.normal(size=60), "b": rng.normal(size=60), **answers})
    tasks = survey_tasks(survey.mask(rng.random(survey.shape) < 0.1), ["q1", "q2"])
    with pytest.raises(OptionError, match=r"means over everybody's rows.*impute-own"):
        tv.TaskClassifier("mean").fit(tasks)
    assert tv.TaskClassifier("mean", epsilon=None).fit(tasks).task_names_ == ("q1", "q2")


# ------------------------------------------------------------------------- who may observe


def test_the_public_is_claimed_only_where_no_task_scales_by_its_own_statistics(visits):
    """naive-dp claimed it under own scaling: a shift of a task's values by 1e6 showed in its published model."""
    pytest.importorskip("jax")
    method = NaiveDP(rounds=1)
    own = fit(visits, method=method, scaling="own")
    assert "public" not in {s.observer for s in own.certificate_.statements}
    assert any("own model" in text for text in own.certificate_.not_protected)
    half = fit(visits, method=method, bounds=FEATURES)  # the target is in units of the task's own rows
    assert "public" not in {s.observer for s in half.certificate_.statements}
    with pytest.raises(OptionError, match="only where no task scales by its own statistics"):
        fit(visits, method=method, scaling="own", observer="public")
    with pytest.raises(OptionError, match="only where no task scales by its own statistics"):
        fit(visits, method=method, bounds=FEATURES, observer="public")
    declared = fit(visits, method=method, bounds=WHOLE, observer="public")
    assert "public" in {s.observer for s in declared.certificate_.statements}


def test_learning_alone_protects_against_others_not_against_who_sees_the_models(visits):
    with pytest.raises(OptionError, match="not against 'public'"):
        fit(visits, method="local", observer="public")
    assert fit(visits, method="local").certificate_.statements[0].epsilon == 0


def test_a_large_delta_is_said_plainly_and_half_is_refused(visits):
    """0.999 was certified without a word. Publishing one of 12 tasks outright satisfies delta = 1/12."""
    for delta in (0.5, 0.999, 1.0, -0.1):
        with pytest.raises(OptionError, match="below 0.5"):
            fit(visits, delta=delta)
    assert any("delta = 0.1 allows" in text for text in fit(visits, delta=0.1).certificate_.not_protected)
    for delta in (None, 1e-3):
        assert not any("delta" in text for text in fit(visits, delta=delta).certificate_.not_protected)


# ------------------------------------------------------------------------- labels and files


@pytest.mark.parametrize(
    "labels",
    [
        pd.Series(["yes", "no", None] * 60, dtype=object),
        pd.Series(["yes", "no", None] * 60, dtype="string"),
        pd.Series(["yes", "no", None] * 60, dtype="category"),
        pd.Series(["yes", "no", "NA"] * 60),
        pd.Series(["yes", "no", ""] * 60),
        pd.Series([True, False, None] * 60, dtype="boolean"),
        pd.Series([1, 0, None] * 60, dtype="Int64"),
    ],
    ids=["None", "NA string", "category", "text NA", "empty text", "boolean", "Int64"],
)
def test_a_missing_label_is_missing_in_csv_parquet_and_tables_alike(visits, labels, tmp_path):
    """It became a label of its own, '<NA>', which counts as a negative."""
    table = visits[["site", "age"]].assign(out=labels.array)
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.csv", tmp_path / "t.parquet"):
        reading = {"task": "site", "target": "out", "kind": "classification"}
        with pytest.raises(DataError, match=r"missing values; every row|nothing in the column 'out'"):
            tv.load_tasks(source, **reading)
        tasks = tv.load_tasks(source, bad_rows="skip", **reading)
        assert tasks.n_rows == 120 and tasks.n_classes == 2
    est = fit(table, "out", tv.TaskClassifier, ("age",))
    assert est.classes_.size == 2 and "60 of 180 rows were left out: 60 without a target ('out')" in est.warnings_


def test_how_a_table_was_prepared_comes_back_with_a_saved_model(visits, tmp_path):
    est = fit(visits, bounds=FEATURES)
    est.save(tmp_path)
    back = tv.load(tmp_path)
    assert back.preparation_.facts == est.preparation_.facts and back.scaling_.own_target and back.preparation_.own_target
    model = json.loads((tmp_path / "model.json").read_text())
    del model["preparation"], model["seal"]  # as version 0.1.0 wrote it
    (tmp_path / "model.json").write_text(json.dumps({**model, "format": 1}))
    certificate = json.loads((tmp_path / "certificate.json").read_text())
    (tmp_path / "certificate.json").write_text(json.dumps({k: v for k, v in certificate.items() if k != "seal"}))
    with np.load(tmp_path / "arrays.npz") as stored:
        arrays = {k: stored[k] for k in stored.files if k != "seal"}
    np.savez(tmp_path / "arrays.npz", **arrays)
    old = tv.load(tmp_path)
    assert old.scaling_.own_target
    X = visits[["age", "dose"]]
    np.testing.assert_array_equal(old.predict(X, task=visits["site"]), est.predict(X, task=visits["site"]))


def test_only_the_owner_of_a_silenced_task_reads_why_on_its_page(visits):
    from taskveil.report.audience import Audience, cut
    from taskveil.report.records import from_estimator

    run = from_estimator(fit(visits.assign(age=visits["age"].where(visits.index != 3, 1e300)), method="subspace"))
    assert any("set aside" in text for text in cut(run, Audience("owner", "s00")).warnings)
    for audience in (Audience("owner", "s01"), Audience("public")):
        seen = cut(run, audience)
        assert not any("set aside" in text for text in seen.warnings) and not seen.task_warnings


def test_values_outside_declared_ranges_are_clipped_before_they_are_called_unusable(visits):
    """For records the refusal itself would be a function of one row."""
    huge = visits.assign(age=visits["age"].where(visits.index != 3, 1e300))
    est = fit(huge, unit="record", bounds=WHOLE)
    assert est.certificate_.holds and not est.task_warnings_


# ------------------------------------------------------------------------- what one task's faults say to the others


def as_arrays(table, target, columns):
    return (table[columns].to_numpy(dtype=float, na_value=np.nan), table[target].to_numpy(), table["site"].to_numpy())


def as_dict(table, target, columns):
    return ({site: as_arrays(rows, target, columns)[:2] for site, rows in table.groupby("site")},)


def as_text_table(table, target, columns):
    return (table[columns].assign(ward=np.where(table.index % 2, "a", "b")), table[target], table["site"])


SHAPES = {"arrays": as_arrays, "dict": as_dict, "table with text": as_text_table}
LABELS = {"classes": ["died", "home"]}
FAULTS = {
    "missing cell": ("dose", np.nan, {}), "infinite cell": ("dose", np.inf, {}), "missing target": ("days", np.nan, {}),
    "missing label": ("out", None, {}), "missing label, declared": ("out", None, LABELS),
    "label nobody declared": ("out", "transferred", LABELS),
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_one_task_is_told_to_its_owner_alone_however_the_table_comes(visits, shape, fault):
    """Each raised for everybody: an error of one task that the others see is a message nobody paid for."""
    column, value, bounds = FAULTS[fault]
    kind, target = (tv.TaskClassifier, "out") if column == "out" else (tv.TaskRegressor, "days")
    broken = visits.copy()
    broken.loc[20, column] = value
    good, bad = (
        kind("mean", bounds=bounds or None, insecure_noise_seed=1).fit(*SHAPES[shape](table, target, ["age", "dose"]))
        for table in (visits, broken)
    )
    assert not good.task_warnings_ and list(bad.task_warnings_) == ["s01"]
    assert good.preparation_.to_dict() == bad.preparation_.to_dict()
    assert kind is tv.TaskRegressor or good.classes_.tolist() == bad.classes_.tolist()
    others = [i for i, name in enumerate(good.task_names_) if name != "s01"]
    np.testing.assert_array_equal(good.gain_.error_alone[others], bad.gain_.error_alone[others])


@pytest.mark.parametrize("value", [np.nan, 0.5, "maybe", "?", None])
def test_labels_that_are_numbers_keep_their_type_whatever_one_task_holds(visits, value):
    labels = (visits["days"] > 1.5).astype(float)
    broken = labels.astype(object).where(labels.index != 20, value)
    broken = broken.astype(float) if isinstance(value, float) else broken
    X, sites = visits[["age", "dose"]].to_numpy(), visits["site"].to_numpy()
    good, bad = (tv.TaskClassifier("mean", bounds={"classes": [0, 1]}).fit(X, y, task=sites) for y in (labels, broken))
    assert list(bad.task_warnings_) == ["s01"] and good.classes_.dtype == bad.classes_.dtype


def test_a_hole_that_nobody_can_fill_is_its_own_task_s_affair(visits):
    """missing="impute-bounds" for a column without a declared range: an error would come and go with one task's cell."""
    X, sites = visits[["age", "dose"]], visits["site"].to_numpy()
    broken = X.assign(dose=X["dose"].where(X.index != 20))
    est = tv.TaskRegressor("mean", missing="impute-bounds").fit(broken, visits["days"], task=sites)
    assert list(est.task_warnings_) == ["s01"]
    with pytest.raises(DataError, match="needs a declared range"):
        tv.TaskRegressor("mean", missing="impute-bounds", epsilon=None).fit(broken, visits["days"], task=sites)


@pytest.mark.parametrize("text", [False, True])
def test_a_row_that_names_no_person_is_its_own_task_s_affair(visits, text):
    X, sites = visits[["age", "dose"]], visits["site"].to_numpy()
    X = X.assign(who=[f"p{i % 7}" for i in range(len(X))], **({"ward": "red"} if text else {}))
    broken = X.assign(who=X["who"].where(X.index != 20, None))
    fit = {"insecure_noise_seed": 3, "person": "who"}
    good, bad = (tv.TaskRegressor("mean", **fit).fit(rows, visits["days"], task=sites) for rows in (X, broken))
    np.testing.assert_array_equal(good.coef_, bad.coef_)
    assert np.unique(bad._tasks.person).size == 8
    with pytest.raises(DataError, match="every row needs its person"):
        tv.TaskRegressor("mean", epsilon=None, person="who").fit(broken, visits["days"], task=sites)


def test_where_nobody_has_a_label_or_rows_are_the_unit_it_stays_an_error(visits):
    X, sites = visits[["age", "dose"]].to_numpy(), visits["site"].to_numpy()
    with pytest.raises(DataError, match="missing labels"):
        tv.TaskClassifier("mean").fit(X, np.full(len(X), None), task=sites)
    with pytest.raises(DataError, match="NaN"):
        tv.TaskClassifier("mean").fit(X, np.full(len(X), np.nan), task=sites)
    with pytest.raises(DataError, match="outside the declared classes"):
        tv.TaskClassifier("mean", bounds=LABELS).fit(X, np.full(len(X), "transferred"), task=sites)
    odd = visits["out"].where(visits.index != 20, "transferred")
    with pytest.raises(DataError, match="outside the declared classes"):
        tv.TaskClassifier("mean", unit="record", bounds={**FEATURES, **LABELS}).fit(visits[["age", "dose"]], odd, task=sites)


def test_tables_of_tasks_may_have_numbers_for_column_names(visits):
    tables = {site: (pd.DataFrame(rows[["age", "dose"]].to_numpy()), rows["days"]) for site, rows in visits.groupby("site")}
    assert tv.TaskRegressor("mean").fit(tables).feature_names_ == ("0", "1")
