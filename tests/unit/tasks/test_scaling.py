"""Scaling and the way back."""

import numpy as np
import pytest

from taskveil import TaskRegressor
from taskveil.errors import OptionError
from taskveil.tasks import PublicBounds, TaskBlock, TaskSet, fit_scaling
from taskveil.tasks.prepare.scaling import NO_UNIT


def some_tasks(bounds=None, kind="regression", dtype=float):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((300, 4)) * [1, 10, 100, 0] + [0, 5, -50, 7]
    task = rng.integers(0, 6, 300)
    y = X[:, 0] * 3 + task if kind == "regression" else rng.integers(0, 3, 300)
    return TaskSet.from_arrays(X.astype(dtype), y, task, kind=kind, bounds=bounds)


BOUNDS = PublicBounds({"x0": (-5, 5), "x1": (-60, 60), "x2": (-600, 600), "x3": (6, 8)}, target=(-30, 40))


@pytest.mark.parametrize("mode", ["own", "declared", "none", "pooled-standard"])
def test_coefficients_come_back_to_the_user_s_units(mode):
    tasks = some_tasks(BOUNDS)
    scaling = fit_scaling(tasks, mode, private=False)
    block = scaling.apply(tasks)
    rng = np.random.default_rng(1)
    W, b = rng.standard_normal((6, 1, 4)), rng.standard_normal((6, 1))
    of = block.task_of_row
    expected = block.scores(W, b)[:, 0] * scaling.y_scale[of] + scaling.y_shift[of]
    raw = TaskBlock.from_tasks(tasks)
    np.testing.assert_allclose(raw.scores(*scaling.coef_back(W, b))[:, 0], expected, rtol=1e-9)
    for back, start in zip(scaling.coef_in(*scaling.coef_back(W, b)), (W, b), strict=True):
        np.testing.assert_allclose(back, start, atol=1e-9)


def test_own_scaling_gives_every_task_mean_zero_and_spread_one():
    tasks = some_tasks()
    block = fit_scaling(tasks, "own").apply(tasks)
    for i in range(block.n_tasks):
        rows = block.rows(i)
        np.testing.assert_allclose(block.X[rows].mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(block.X[rows, :3].std(axis=0), 1)
        np.testing.assert_allclose(block.y[rows].std(), 1)


def test_constant_columns_become_zero_not_nan():
    tasks = some_tasks()
    assert (fit_scaling(tasks, "own").apply(tasks).X[:, 3] == 0).all()
    X = np.full((5, 1), 0.1) + 1e6
    almost = TaskSet.from_arrays(X, np.arange(5) / 3, [0] * 5, kind="regression")
    assert (fit_scaling(almost, "own").scale == NO_UNIT).all(), "rounding is not a spread"


def test_one_row_tasks_scale_to_zero():
    tasks = TaskSet.from_arrays(np.array([[3.0, 4.0]]), [2.0], ["only"], kind="regression")
    block = fit_scaling(tasks, "own").apply(tasks)
    assert block.X.tolist() == [[0, 0]] and block.y.tolist() == [[0]]


def test_own_scaling_of_a_task_ignores_all_other_tasks():
    """A privacy test: replace all rows of task 0; nothing of the other tasks moves."""
    tasks = some_tasks()
    X = tasks.X.copy()
    X[tasks.rows(0)] *= 1000
    changed = TaskSet.from_arrays(X, tasks.y, tasks.task_of_row(), kind="regression")
    a, b = fit_scaling(tasks, "own"), fit_scaling(changed, "own")
    np.testing.assert_array_equal(a.shift[1:], b.shift[1:])
    np.testing.assert_array_equal(a.scale[1:], b.scale[1:])
    pooled = [fit_scaling(t, "pooled-standard", private=False).shift for t in (tasks, changed)]
    assert (pooled[0][1:] != pooled[1][1:]).any(), "twin: the same check sees pooled statistics move"


def test_held_out_rows_do_not_enter_own_statistics():
    tasks = some_tasks()
    mask = np.arange(tasks.n_rows) % 2 == 0
    kept = fit_scaling(tasks, "own", mask=mask)
    alone = fit_scaling(tasks.select(mask), "own")
    np.testing.assert_allclose(kept.shift, alone.shift)
    np.testing.assert_allclose(kept.scale, alone.scale)
    np.testing.assert_allclose(kept.y_scale, alone.y_scale)


def test_declared_scaling_maps_the_range_to_minus_one_and_one():
    tasks = some_tasks(BOUNDS)
    s = fit_scaling(tasks, "declared")
    np.testing.assert_allclose((np.array([5, 60, 600, 8]) - s.shift[0]) / s.scale[0], [1, 1, 1, 1])
    assert (s.shift == s.shift[0]).all()
    assert (s.y_shift[0], s.y_scale[0]) == (5, 35)
    assert not s.data_dependent


def test_a_target_without_a_declared_range_is_scaled_by_each_task():
    tasks = some_tasks(PublicBounds.same(-600, 600))
    s = fit_scaling(tasks, "declared")
    np.testing.assert_allclose(s.y_shift, [t.y.mean() for t in tasks])


def test_labels_are_never_scaled():
    tasks = some_tasks(BOUNDS, kind="classification")
    for mode in ("own", "declared", "none"):
        block = fit_scaling(tasks, mode).apply(tasks)
        assert set(np.unique(block.y)) == {-1.0, 1.0} and block.n_outputs == 3


def test_statistics_of_all_tasks_are_refused_in_a_private_run():
    with pytest.raises(OptionError, match="statistics of all tasks"):
        fit_scaling(some_tasks(), "pooled-standard")
    assert fit_scaling(some_tasks(), "pooled-standard", private=False).data_dependent


def test_row_normalisation_gives_unit_rows_and_prepares_prediction():
    tasks = some_tasks()
    s = fit_scaling(tasks, "none", normalise="row")
    block = s.apply(tasks)
    np.testing.assert_allclose(np.linalg.norm(block.X, axis=1), 1)
    assert not s.linear
    np.testing.assert_array_equal(s.inputs(tasks.X, tasks.task_of_row()), block.X)
    W, b = np.ones((6, 1, 4)), np.zeros((6, 1))
    np.testing.assert_array_equal(s.coef_back(W, b)[0], W)
    zero = TaskSet.from_arrays(np.zeros((2, 2)), [0.5, 1.5], [0, 0], kind="regression")
    assert (fit_scaling(zero, "none", normalise="row").apply(zero).X == 0).all()


def test_no_scaling_copies_nothing():
    tasks = some_tasks()
    assert np.shares_memory(fit_scaling(tasks, "none").apply(tasks).X, tasks.X)


def test_narrow_rows_stay_narrow():
    assert fit_scaling(t := some_tasks(dtype=np.float32), "own").apply(t).X.dtype == np.float32


def test_some_tasks_scale_as_they_do_among_all():
    tasks = some_tasks()
    part = fit_scaling(tasks, "own").take([4, 1])
    np.testing.assert_allclose(part.shift, fit_scaling(tasks.take_tasks([4, 1]), "own").shift)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "max"}, "scaling must be one of"),
        ({"normalise": "column"}, "normalise must be"),
        ({"mode": "declared"}, "needs public bounds"),
    ],
)
def test_unknown_scalings_are_refused(options, message):
    with pytest.raises(OptionError, match=message):
        fit_scaling(some_tasks(), **options)


def test_rows_may_be_scaled_where_they_are_and_the_callers_stay_as_they_were():
    import taskveil as tv

    rng = np.random.default_rng(0)
    X, task = rng.normal(size=(60, 3)), rng.permutation(np.repeat(np.arange(6), 10))
    y, before = X[:, 0] + rng.normal(size=60), X.copy()
    shuffled = tv.TaskRegressor("low-rank", epsilon=None).fit(X, y, task=task)
    order = np.argsort(task, kind="stable")
    given = tv.TaskSet.from_arrays(X[order], y[order], task[order], kind="regression")
    kept = given.X.copy()
    sorted_rows = tv.TaskRegressor("low-rank", epsilon=None).fit(given)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_array_equal(given.X, kept)
    np.testing.assert_allclose(shuffled.coef_, sorted_rows.coef_, rtol=1e-12)


def test_a_column_without_spread_has_no_slope_however_it_was_rounded():
    """Two columns, both constant: centred they are rounding (1e-16), from which a slope of 3e14 was once made."""
    X = np.tile([0.0, -0.847312860499705], (21, 1))
    y = np.random.default_rng(0).standard_normal(21)
    tasks = TaskSet.from_arrays(X, y, np.zeros(21, dtype=int), kind="regression")
    model = TaskRegressor("local", epsilon=None).fit(tasks)
    np.testing.assert_array_equal(model.coef_, 0.0)
    np.testing.assert_allclose(model.predict(tasks), y.mean())


def test_what_others_know_of_a_column_counts_for_nothing_where_a_task_saw_no_spread():
    """A column in thousands that one task saw at one value only: a slope in chance units would take a new row anywhere."""
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(40), 8)
    X = rng.standard_normal((320, 2)) * [1.0, 1000.0]
    y = X @ [0.3, 0.002] + 0.1 * rng.standard_normal(320)
    X[task == 0, 1] = 5000.0
    tasks = TaskSet.from_arrays(X, y, task, kind="regression")
    fitted = TaskRegressor("subspace", epsilon=None).fit(tasks)
    assert fitted.coef_[0, 1] == pytest.approx(0.0, abs=1e-12)
    moved = fitted.predict(np.array([[0.0, 9000.0]]), task=[0]) - fitted.predict(np.array([[0.0, 5000.0]]), task=[0])
    np.testing.assert_allclose(moved, 0.0, atol=1e-6)
    assert abs(fitted.coef_[1, 1] - 0.002) < 5e-4
