"""Tasks: nothing is lost or changed on the way in, whatever the table looks like."""

import json
from itertools import pairwise

import numpy as np
import pandas as pd
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from taskveil.tasks import PublicBounds, TaskBlock, TaskSet, fit_scaling, load_rows, load_tasks, split_rows
from taskveil.tasks.block import position_folds
from taskveil.tasks.grouping import factorize, sums_by_group

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
numbers = st.floats(-1e6, 1e6, allow_nan=False, width=32).map(float)
labels = st.text("abcXYZ 09_-äß,;'\"=", min_size=1, max_size=6).filter(lambda s: s.strip() == s)


@st.composite
def tables(draw, min_rows=1, max_rows=30):
    """A table with text task names, a few number columns and a number target."""
    n, d = draw(st.integers(min_rows, max_rows)), draw(st.integers(1, 4))
    sites = draw(st.lists(labels, min_size=1, max_size=4, unique=True))
    columns = {"site": draw(st.lists(st.sampled_from(sites), min_size=n, max_size=n))}
    for j in range(d):
        columns[f"f{j}"] = draw(st.lists(numbers, min_size=n, max_size=n))
    columns["days"] = draw(st.lists(numbers, min_size=n, max_size=n))
    return pd.DataFrame(columns)


def load(source, **options):
    return load_tasks(source, task="site", target="days", kind="regression", **options)


@quick
@given(tables())
def test_every_row_keeps_its_values_and_its_task(table):
    tasks = load(table)
    back = table.iloc[tasks.row_index]
    np.testing.assert_array_equal(tasks.X, back.drop(columns=["site", "days"]).to_numpy())
    np.testing.assert_array_equal(tasks.y, back["days"].to_numpy())
    assert [tasks.task_names[i] for i in tasks.task_of_row()] == back["site"].tolist()
    assert sorted(tasks.row_index) == list(range(len(table)))
    for t in tasks:
        assert (np.diff(t.row_index) > 0).all(), "rows of a task keep their order"


@quick
@given(table=tables(min_rows=2))
def test_csv_parquet_and_npz_round_trips(table, tmp_path):
    expected = load(table)
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet")
    for name in ("t.csv", "t.parquet"):
        tasks = load(tmp_path / name)
        assert tasks.task_names == expected.task_names
        np.testing.assert_allclose(tasks.X, expected.X, rtol=1e-12)
        np.testing.assert_allclose(tasks.y, expected.y, rtol=1e-12)
    np.savez(
        tmp_path / "t.npz",
        X=expected.X,
        y=expected.y,
        task=expected.task_of_row(),
        task_names=np.asarray(expected.task_names),
        feature_names=np.asarray(expected.feature_names),
    )
    again = load_tasks(tmp_path / "t.npz", kind="regression")
    assert again.task_names == expected.task_names
    np.testing.assert_array_equal(again.X, expected.X)


@quick
@given(tables(), st.lists(labels, min_size=1, max_size=3, unique=True), st.randoms())
def test_rows_to_predict_match_training_rows_after_any_shuffle(table, levels, rng):
    table["kind of ward"] = [rng.choice(levels) for _ in range(len(table))]
    tasks = load(table)
    order = list(range(len(table)))
    rng.shuffle(order)
    rows = load_rows(table.iloc[order].drop(columns="days"), tasks.feature_names, task="site")
    at = np.empty(len(table), dtype=int)
    at[tasks.row_index] = np.arange(len(table))
    np.testing.assert_array_equal(rows.X, tasks.X[at[order]])
    assert rows.task.tolist() == table["site"].iloc[order].tolist()


@quick
@given(tables(min_rows=3), st.sampled_from(["own", "declared", "none", "pooled-standard"]))
def test_predictions_do_not_depend_on_the_units(table, mode):
    tasks = load(table, bounds={"features": {"*": [-1e6, 1e6]}, "target": [-1e6, 1e6]})
    scaling = fit_scaling(tasks, mode, private=False)
    block = scaling.apply(tasks)
    rng = np.random.default_rng(0)
    W, b = rng.standard_normal((tasks.n_tasks, 1, tasks.n_features)), rng.standard_normal((tasks.n_tasks, 1))
    of = block.task_of_row
    scaled = block.scores(W, b)[:, 0] * scaling.y_scale[of] + scaling.y_shift[of]
    raw = TaskBlock.from_tasks(tasks).scores(*scaling.coef_back(W, b))[:, 0]
    size = np.abs(W / scaling.scale[:, None]).max() * np.abs(tasks.X).max() * scaling.y_scale.max()
    np.testing.assert_allclose(raw, scaled, rtol=1e-6, atol=1e-9 * max(size, np.abs(tasks.y).max(), 1))
    assert np.isfinite(block.X).all()


@quick
@given(arrays(np.float64, st.tuples(st.integers(0, 40), st.integers(1, 3)), elements=numbers), st.data())
def test_sums_by_group_equal_a_plain_loop(values, data):
    cuts = data.draw(st.lists(st.integers(0, len(values)), max_size=8))
    offsets = np.asarray([0, *sorted(cuts), len(values)])
    expected = [values[a:b].sum(axis=0) for a, b in pairwise(offsets)]
    np.testing.assert_allclose(sums_by_group(values, offsets), expected, atol=1e-6)


@quick
@given(st.lists(st.integers(0, 20), min_size=1, max_size=8), st.integers(2, 6), st.integers(0, 2**40))
def test_folds_are_balanced_and_the_same_alone(sizes, k, seed):
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    fold = position_folds(offsets, k, seed)
    for i, n in enumerate(sizes):
        own = fold[offsets[i] : offsets[i + 1]]
        np.testing.assert_array_equal(own, position_folds(np.asarray([0, n]), k, seed))
        counts = np.bincount(own, minlength=k)
        assert counts.max() - counts.min() <= 1


@quick
@given(st.lists(st.integers(1, 12), min_size=1, max_size=6), st.floats(0.01, 0.99), st.integers(0, 99))
def test_splits_partition_the_rows_and_never_starve_a_task(sizes, fraction, seed):
    n = sum(sizes)
    tasks = TaskSet.from_arrays(
        np.arange(n, dtype=float)[:, None], np.zeros(n), np.repeat(np.arange(len(sizes)), sizes), kind="regression"
    )
    train, test = split_rows(tasks, fraction, seed)
    assert (train.sizes >= 1).all()
    assert sorted([*train.row_index, *test.row_index]) == list(range(n))


ranges = st.tuples(numbers, numbers).filter(lambda p: p[0] != p[1]).map(lambda p: (min(p), max(p)))


@quick
@given(
    st.dictionaries(labels, ranges, max_size=4),
    st.none() | ranges,
    st.dictionaries(labels, st.lists(labels, min_size=1, max_size=3, unique=True), max_size=2),
)
def test_bounds_survive_json(features, target, levels):
    bounds = PublicBounds(features, target=target, levels=levels)
    assert PublicBounds.from_dict(json.loads(json.dumps(bounds.to_dict()))) == bounds


@quick
@given(arrays(np.float64, (7, 2), elements=st.floats(allow_nan=False)), ranges, ranges)
def test_clipping_to_bounds_lands_inside_and_changes_nothing_inside(X, first, second):
    bounds = PublicBounds({"a": first, "b": second})
    clipped = bounds.clip_features(X, ["a", "b"])
    low, high = bounds.arrays(["a", "b"])
    assert (clipped >= low).all() and (clipped <= high).all()
    inside = (X >= low) & (X <= high)
    np.testing.assert_array_equal(clipped[inside], X[inside])
    assert bounds.clip_features(clipped, ["a", "b"]) is clipped


@quick
@given(st.lists(st.one_of(st.integers(-5, 5), labels, st.integers(-5, 5).map(float)), min_size=1, max_size=20))
def test_identifiers_that_read_the_same_are_the_same_task(ids):
    codes, names = factorize(np.asarray(ids, dtype=object))
    text = [str(int(i)) if isinstance(i, float) else str(i) for i in ids]
    assert [names[c] for c in codes] == text
    assert len(set(names)) == len(names)
