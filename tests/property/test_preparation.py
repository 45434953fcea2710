"""Preparation is part of the mechanism: its two laws hold from the raw table on, and each planted leak breaks one."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.preparation import check_record_law, check_task_law, prepare

from taskveil.errors import OptionError
from taskveil.tasks import load_tasks
from taskveil.tasks import task as task_module
from taskveil.tasks.prepare import encode, step, unusable

few = settings(max_examples=40, deadline=None)
WARDS = ["icu", "er", None, "HIV", "NA", "a new level"]
NUMBERS = [0.0, 1.0, -3.5, 40.0, 1e-160, 1e140, -1e149]
BOUNDS = {"features": {"age": [0, 100], "flag": [0, 1]}, "target": [-5, 5], "classes": ["no", "yes"]}
numbers = st.one_of(st.floats(-1e6, 1e6), st.sampled_from(NUMBERS))


@st.composite
def rows(draw, min_size, max_size, labels=False):
    n = draw(st.integers(min_size, max_size))
    lists = {
        "age": st.lists(numbers, min_size=n, max_size=n),
        "flag": st.lists(st.booleans(), min_size=n, max_size=n),
        "ward": st.lists(st.sampled_from(WARDS), min_size=n, max_size=n),
        "days": st.lists(st.sampled_from(["no", "yes"]) if labels else numbers, min_size=n, max_size=n),
    }
    made = {k: draw(v) for k, v in lists.items()}
    return pd.DataFrame({**made, "ward": pd.Series(made["ward"], dtype=object)})


def table(parts):
    """One table of the tasks t0, t1, ..., with a text in the ward column whatever was drawn: types are public."""
    whole = pd.concat([p.assign(site=f"t{i}") for i, p in enumerate(parts)], ignore_index=True)
    return whole.assign(ward=whole["ward"].where(whole.index > 0, "icu").astype(object))


def by_row(data, labels=False, bounds=BOUNDS, **options):
    kind = "classification" if labels else "regression"
    return prepare(data, bounds, task="site", target="days", kind=kind, unit="record", **options)


@few
@given(st.data(), st.booleans(), st.sampled_from(["declared", "none"]), st.sampled_from([None, "row"]), st.booleans())
def test_replacing_one_row_changes_at_most_one_encoded_row(data, labels, scaling, normalise, levels):
    """Under unit = record: huge and tiny values, values out of range, missing cells and new levels included."""
    whole = table([data.draw(rows(1, 5, labels)) for _ in range(3)])
    bounds = {**BOUNDS, **({"levels": {"ward": ["er", "icu", "(other)"]}} if levels else {})}
    options = {"scaling": scaling, "normalise": normalise, "missing": "impute-bounds", "bounds": bounds, "labels": labels}
    other, at = data.draw(rows(1, 1, labels)).iloc[0], data.draw(st.integers(1, len(whole) - 1))
    changed = whole.copy()
    for name in ("age", "flag", "ward", "days"):
        changed.loc[at, name] = other[name]
    if data.draw(st.booleans()):
        changed.loc[at, "age"] = np.nan
    check_record_law(by_row(whole, **options), by_row(changed, **options))


@few
@given(
    st.data(),
    st.booleans(),
    st.sampled_from(["auto", "own", "declared", "none"]),
    st.sampled_from(["impute-own", "impute-bounds", "drop"]),
)
def test_replacing_a_task_leaves_every_other_task_bitwise_the_same(data, labels, scaling, missing):
    """Under unit = task: other numbers of rows, constants, huge values, missing cells and new levels included."""
    parts = [data.draw(rows(1, 6, labels)) for _ in range(3)]
    other = data.draw(rows(1, 12, labels))
    if data.draw(st.booleans()):
        other["age"] = data.draw(st.sampled_from([np.nan, 1e300, 7.0]))
    options = {"task": "site", "target": "days", "kind": "classification" if labels else "regression", "unit": "task"}
    bounds = BOUNDS if scaling == "declared" or missing == "impute-bounds" else {"classes": ["no", "yes"]}
    before, after = (prepare(table(p), bounds, scaling=scaling, missing=missing, **options) for p in (parts, [*parts[:2], other]))
    check_task_law(before, after, "t2")


# ---------------------------------------------------------------- planted leaks: each must be seen


@pytest.fixture
def visits():
    rng = np.random.default_rng(0)
    n = 60
    return pd.DataFrame(
        {
            "site": np.repeat(["t0", "t1", "t2"], 20),
            "age": rng.uniform(20, 90, n),
            "flag": rng.random(n) < 0.5,
            "ward": pd.Series(rng.choice(["icu", "er"], n), dtype=object),
            "days": rng.normal(size=n),
        }
    )


def with_cell(data, at, name, value):
    changed = data.copy()
    changed.loc[at, name] = value
    return changed


FEATURES_ONLY = {"features": BOUNDS["features"]}


def test_a_target_scaled_by_its_task_is_refused_for_records_and_the_law_sees_it(visits, monkeypatch):
    """One record of 1e6 moved every message of its task (epsilon >= 3.97 against a certified 1)."""
    with pytest.raises(OptionError, match=r"Declare the target's range.*scaling='private'"):
        by_row(visits, bounds=FEATURES_ONLY)
    monkeypatch.setattr(step, "_check_record_scaling", lambda *_: None)
    with pytest.raises(AssertionError, match="20 encoded rows changed"):
        check_record_law(*(by_row(d, bounds=FEATURES_ONLY) for d in (visits, with_cell(visits, 3, "days", 1e6))))


@pytest.mark.parametrize(("missing", "words"), [("impute-own", "impute-bounds"), ("drop", "keeps the number of rows")])
def test_fills_and_drops_by_other_rows_are_refused_for_records_and_the_law_sees_them(visits, monkeypatch, missing, words):
    """One raw row changed, 101 encoded rows changed: a task's median as fill. Dropping changes the public number of rows."""
    holes = visits.assign(age=visits["age"].where(visits.index % 2 == 0))
    with pytest.raises(OptionError, match=words):
        by_row(holes, missing=missing)
    with pytest.raises(OptionError, match=words):  # whether or not a cell is missing: a refusal must not depend on rows
        by_row(visits, missing=missing)
    monkeypatch.setattr(step, "check_facts", lambda *_: None)
    changed = with_cell(holes, 4, "age", 21.0 if missing == "impute-own" else np.nan)
    with pytest.raises(AssertionError):
        check_record_law(*(by_row(d, missing=missing) for d in (holes, changed)))


def test_rows_skipped_and_labels_read_off_are_refused_for_records(visits):
    with pytest.raises(OptionError, match="correct those rows"):
        by_row(visits, bad_rows="skip")
    labelled = visits.assign(days=np.where(visits["days"] > 0, "yes", "no"))
    with pytest.raises(OptionError, match="declare the labels under 'classes'"):
        by_row(labelled, labels=True, bounds=FEATURES_ONLY)
    assert by_row(labelled, labels=True, bounds=FEATURES_ONLY, positive="yes").public.kind == "classification"
    with pytest.raises(OptionError, match="one target at a time"):
        prepare(visits, BOUNDS, targets=["days", "age"], features=["flag"], leave_out=(), unit="record")


def test_levels_taken_from_rows_are_seen_by_the_law(visits, monkeypatch):
    """One row with "HIV" made a column c=HIV on the public page."""
    options = {"task": "site", "target": "days", "unit": "task"}
    changed = with_cell(visits, 3, "ward", "HIV")
    check_task_law(*(prepare(d, **options) for d in (visits, changed)), "t0")

    def learned(column, name, bounds):
        levels = tuple(sorted(column.dropna().unique())) if column.dtype == object else ()
        return encode._Column(name, levels=levels)

    monkeypatch.setattr(encode, "_plan", learned)
    with pytest.raises(AssertionError, match="feature_names depends on rows"):
        check_task_law(*(prepare(d, **options) for d in (visits, changed)), "t0")


def test_a_kind_guessed_from_values_is_seen_by_the_law(visits, monkeypatch):
    counts = visits.assign(days=np.arange(60) % 7)
    changed = counts.assign(days=counts["days"].where(counts["site"] != "t2", np.arange(60) * 3))
    options = {"task": "site", "target": "days", "unit": "task", "leave_out": ["ward"]}
    check_task_law(*(prepare(d, **options) for d in (counts, changed)), "t2")
    monkeypatch.setattr(task_module, "infer_kind", lambda y: "classification" if np.unique(y).size <= 20 else "regression")
    with pytest.raises(AssertionError, match="the public kind depends on rows"):
        check_task_law(*(prepare(d, **options) for d in (counts, changed)), "t2")


def test_a_fill_by_everybody_s_median_is_seen_by_the_law(visits, monkeypatch):
    holes = visits.assign(age=visits["age"].where(visits.index % 2 == 0))
    changed = holes.assign(age=holes["age"].where(holes["site"] != "t2", 1e4))
    options = {"task": "site", "target": "days", "unit": "task", "missing": "impute-own"}
    check_task_law(*(prepare(d, **options) for d in (holes, changed)), "t2")

    def pooled(X, j, middle, offsets):
        X[np.isnan(X[:, j]), j] = np.nanmedian(X[:, j])

    monkeypatch.setattr(unusable, "_fill_own_median", pooled)
    with pytest.raises(AssertionError):
        check_task_law(*(prepare(d, **options) for d in (holes, changed)), "t2")


def test_units_chosen_by_somebody_else_obey_the_law_of_records_too(visits):
    rules = step.PrepareRules(unit="record")
    tasks = load_tasks(visits.drop(columns="ward"), task="site", target="days", bounds=BOUNDS, kind="regression")
    own = step.fit_scaling(tasks, "own")
    with pytest.raises(OptionError, match="cannot scale by a task's own statistics"):
        step.prepare_tasks(tasks, rules, scaling=own)
    assert step.prepare_tasks(tasks, rules, scaling=step.fit_scaling(tasks, "none")).public.scaling == "none"


@pytest.mark.parametrize("value", [1e-160, 1e150, -3.0, 1e9])
def test_the_sign_of_a_zero_in_another_row_does_not_tell_of_a_value_that_had_to_be_cut(value):
    """Cutting off one row's value rewrote -0.0 to 0.0 in the others: one bit, but a bit of somebody's row."""
    whole = pd.DataFrame(
        {"age": [0.0, 0.0, -0.0], "flag": False, "ward": "icu", "days": [0.0, 0.0, -0.0], "site": ["t0", "t1", "t2"]}
    )
    changed = whole.copy()
    changed.loc[1, ["age", "days"]] = value
    for scaling in ("declared", "none"):
        check_record_law(*(by_row(t, scaling=scaling, missing="impute-bounds") for t in (whole, changed)))


def test_a_missing_cell_is_filled_the_same_whatever_other_rows_hold(visits):
    holed, changed = visits.copy(), visits.copy()
    changed.loc[0, "age"] = 77.0 if visits.loc[0, "age"] != 77.0 else 78.0
    for data in (holed, changed):
        data.loc[3, "age"] = np.nan
    check_record_law(*(by_row(data, missing="impute-bounds") for data in (holed, changed)))
