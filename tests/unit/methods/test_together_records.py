"""Together with single rows protected: a model of all rows from noisy sums, each row's part its own, never worse than alone."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

import taskveil as tv
from taskveil import methods
from taskveil.errors import OptionError
from taskveil.methods import together_records
from taskveil.methods.base import PublicInfo, View
from taskveil.methods.together_records import BINS, CURVATURE, GAIN, SCORE, RecordTasks
from taskveil.privacy.plan import Budget, make_plan
from taskveil.privacy.units import Unit
from taskveil.tasks.block import TaskBlock

WEIGHTS = np.array([1.0, -0.5, 0.0, 0.25])
BOUNDS = {"features": {"*": [-1, 1]}, "target": [-4, 4]}


def rows_of(n_tasks=40, rows=60, seed=0):
    rng, levels = np.random.default_rng(seed), 0.2 * np.random.default_rng(99).standard_normal(n_tasks)
    task = np.repeat(np.arange(n_tasks), rows)
    X = rng.uniform(-1, 1, (task.size, 4))
    return X, X @ WEIGHTS + levels[task] + 0.3 * rng.standard_normal(task.size), task


def fitted(epsilon, n_tasks=40, rows=60, seed=0):
    X, y, task = rows_of(n_tasks, rows, seed)
    return tv.TaskRegressor(unit="record", epsilon=epsilon, delta=1e-6, bounds=BOUNDS, insecure_noise_seed=1).fit(X, y, task=task)


def mse(est, n_tasks=40):
    X, y, task = rows_of(n_tasks, 50, seed=7)
    return float(np.mean((est.predict(X, task=task) - y) ** 2))


def test_without_much_noise_the_public_model_is_that_of_all_rows():
    X, y, _ = rows_of()
    model = fitted(1e4).record_.billboards[-1].values["model"][0]
    expected = LinearRegression().fit(X, y / 4.0)  # targets lie in [-1, 1]
    np.testing.assert_allclose(model, [*expected.coef_, expected.intercept_], atol=0.01)


def test_a_few_rows_a_task_gain_by_those_of_the_others_at_epsilon_one():
    X, y, task = rows_of(200, 8)
    alone = mse(tv.TaskRegressor("local", epsilon=None).fit(X, y, task=task), 200)
    best = mse(tv.TaskRegressor(epsilon=None).fit(X, y, task=task), 200)
    ours = mse(fitted(1.0, 200, 8), 200)
    assert ours < alone - 0.6 * (alone - best)


@pytest.mark.parametrize("epsilon", [0.01, 0.1])
def test_where_noise_hides_everything_tasks_learn_alone(epsilon):
    X, y, task = rows_of(10, 20)
    alone = mse(tv.TaskRegressor("local", epsilon=None).fit(X, y, task=task), 10)
    assert mse(fitted(epsilon, 10, 20), 10) <= 1.02 * alone


def test_a_rare_label_keeps_its_weight():
    rng = np.random.default_rng(3)
    X, task = rng.uniform(-1, 1, (4000, 3)), np.repeat(np.arange(400), 10)
    y = (X @ [3.0, 0.0, -2.0] + rng.logistic(size=4000) > 4.0).astype(int)
    bounds = {"features": {"*": [-1, 1]}, "classes": [0, 1]}
    est = tv.TaskClassifier(unit="record", epsilon=3.0, delta=1e-6, bounds=bounds, insecure_noise_seed=0).fit(
        X[:2000], y[:2000], task=task[:2000]
    )
    chance = est.predict_proba(X[2000:], task=task[:2000])[:, 1]
    held, base = y[2000:], y[:2000].mean()
    loss = -np.mean(np.log(np.where(held == 1, chance, 1 - chance)))
    constant = -np.mean(np.log(np.where(held == 1, base, 1 - base)))
    assert base < 0.1 and loss < 0.9 * constant


def planned(rows, features=20, epsilon=1.0):
    public = PublicInfo(10, features, 1, "regression", task_rows=(rows,) * 10, declared_bounds=True)
    budget = Budget(epsilon, 1e-6, unit=Unit.RECORD)
    return public, make_plan(methods.get("together").requests(public, budget), budget)


def test_curvature_and_rounds_are_bought_as_public_sizes_allow():
    names = [[p.name for p in planned(rows)[1].releases] for rows in (20, 5_000)]
    assert CURVATURE not in names[0] and names[0].count(SCORE) == 1
    assert CURVATURE in names[1] and names[1].count(SCORE) == together_records.MOST_ROUNDS


def test_rows_that_nobody_has_counted_in_public_are_refused():
    public = PublicInfo(10, 2, 1, "regression", declared_bounds=True)
    with pytest.raises(OptionError, match="public number of rows"):
        methods.get("together").requests(public, Budget(1.0, 1e-6, unit=Unit.RECORD))


def messages(first_row, tasks=RecordTasks):
    """At a billboard in the midst of a run, where every released number is in use."""
    public, plan = planned(5_000, features=2)
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-0.9, 0.9, (30, 2)), rng.uniform(-1, 1, (30, 1))
    X[0], y[0] = first_row
    block = TaskBlock(X, y, np.arange(0, 33, 3), kind="regression")
    side = tasks(methods.get("together"), block, public, plan)
    _, board = methods.get("together").server_side(public, plan).start()
    lengths = {"row_length": np.array(0.5), "slope_length": np.array(0.5), "centre": np.array([0.1, -0.2])}
    values = {**board.values, **lengths, "model": np.array([[0.5, -0.25, 0.1]])}
    found = {}
    for t in range(max(p.round for p in plan.releases)):
        found |= side.step({}, View(t, values))[1]
    assert set(found) == {"base", "centre", "lengths", "slopes", "curvature", "score", "gain"}
    return found


def others_moved(tasks=RecordTasks):
    """Names of releases in which another row's part changed with one row, in the middle or in a far corner."""
    a, b = messages(([1.0, 1.0], 0.9), tasks), messages(([0.0, 0.0], -0.2), tasks)
    return {n for n in a if any(np.any(getattr(a[n], part)[1:] != getattr(b[n], part)[1:]) for part in ("X", "slopes"))}


def test_a_rows_part_depends_on_that_row_alone():
    assert not others_moved()


def test_a_side_that_centres_targets_by_its_own_mean_is_noticed():
    class Centred(RecordTasks):
        def _base(self, view):
            X, slopes = super()._base(view)
            return X, slopes - slopes.mean()

    assert others_moved(Centred) == {"base"}


def test_a_side_that_measures_gains_against_its_own_mean_is_noticed():
    class Centred(RecordTasks):
        def _gain(self, view):
            gain, ones = super()._gain(view)
            return gain - np.mean(self.block.y), ones

    assert others_moved(Centred) == {"gain"}


def after_scores(sizes, *gains):
    """What the server publishes after scores along the first feature and gains of lengths, in deviations of their noise."""
    public, plan = planned(60, features=5)
    server, rows = methods.get("together", rounds=len(sizes)), 600.0
    plan = make_plan(server.requests(public, plan.budget), plan.budget)
    side = server.server_side(public, plan)
    state, board = side.start()
    deviation = {p.name: side._deviation(p.round, p.name) * rows for p in plan.releases}
    left = list(sizes)
    for t in range(1, max(p.round for p in plan.releases) + 1):
        total = {p.name: np.zeros(p.contribution.total_shape) for p in plan.releases if p.round == t}
        if SCORE in total:
            total[SCORE][0, 0] = left.pop(0) * deviation[SCORE]
        if GAIN in total:
            total[GAIN][0, : len(gains)] = np.multiply(gains, deviation[GAIN])
        state, board = side.step(state, total, np.ones(public.n_tasks, dtype=bool))
    return board.values["model"][0, :5]


def test_first_scores_are_added_up_until_they_are_heard():
    """Six coordinates: 1 in 100 of noise is longer than 4.1 deviations. Two scores of 3.5 from one model are worth one of 4.9."""
    assert not after_scores([3.5], 5.0).any()
    assert after_scores([3.5, 3.5], 5.0)[0] > 0.0


@pytest.mark.parametrize(("gain", "published"), [(-3.0, False), (0.0, False), (1.9, False), (2.0, True), (5.0, True)])
def test_a_model_is_published_only_if_noise_alone_would_hardly_show_its_gain(gain, published):
    """1.96 deviations: 1 in 20 for one of two lengths, of what was heard at 1 in 100 already."""
    assert after_scores([20.0], gain).any() == published


def test_slopes_that_are_too_long_are_shortened_where_that_gains():
    """A step as if all directions were curved alike is too long where few have most of the curvature."""
    long, short = after_scores([20.0], 5.0, 9.0), after_scores([20.0], -5.0, 5.0)
    assert long[0] > 0.0
    np.testing.assert_allclose(short, long / 3.0)


@pytest.mark.parametrize("factor", [1.0, 50.0])
def test_who_hears_nothing_is_as_good_as_local_however_wide_the_ranges(factor):
    X, y, task = rows_of(6, 30)
    bounds = {"features": {"*": [-factor, factor]}, "target": [-4 * factor, 4 * factor]}
    est = tv.TaskRegressor(unit="record", epsilon=0.05, delta=1e-6, bounds=bounds, insecure_noise_seed=1).fit(X, y, task=task)
    assert mse(est, 6) <= 1.01 * mse(tv.TaskRegressor("local", epsilon=None).fit(X, y, task=task), 6)


def test_targets_far_outside_their_range_leave_every_task_alone():
    X, y, task = rows_of(20, 20)
    y = 100.0 * y + 3000.0
    alone = tv.TaskRegressor("local", epsilon=None).fit(X, y, task=task)
    est = tv.TaskRegressor(unit="record", epsilon=3.0, delta=1e-6, insecure_noise_seed=1).fit(X, y, task=task)
    assert not est.record_.billboards[-1].values["model"][:, :4].any()
    assert abs(est.coef_ - alone.coef_).max() < 0.05 * abs(alone.coef_).max()


@pytest.mark.parametrize("options", [{}, {"bounds": BOUNDS}, {"scaling": "own"}])
def test_without_privacy_the_unit_makes_no_difference(options):
    X, y, task = rows_of(10, 6)
    a, b = (tv.TaskRegressor(unit=unit, epsilon=None, **options).fit(X, y, task=task) for unit in ("record", "task"))
    np.testing.assert_array_equal(a.coef_, b.coef_)


def test_every_row_is_counted_in_the_bin_of_its_length():
    counts, _ = together_records._bins(np.array([0.0, 2.0, 1e9, np.inf, np.nan, 2.0 * BINS[3]]), 2.0)
    assert counts.sum(axis=1).tolist() == [1.0] * 6
    assert counts.argmax(axis=1).tolist() == [0, 12, 12, 12, 12, 3]


def test_survival_is_sent_to_the_method_that_knows_it():
    public = PublicInfo(10, 3, 1, "survival", loss="cox", task_rows=(9,) * 10)
    with pytest.raises(OptionError, match="use method='mean'"):
        methods.get("together").requests(public, Budget(1.0, 1e-6, unit=Unit.RECORD))


@pytest.mark.parametrize(("median", "deviation"), [(0.1, 1e-4), (0.1, 0.1), (0.4, 0.1)])
def test_the_usual_length_is_found_below_noise_as_large_as_a_bin(median, deviation):
    """Read off the sum of the bins it was the longest possible in most draws."""
    rng, part = np.random.default_rng(0), 0.8
    lengths = np.minimum(median * np.exp(0.3 * rng.standard_normal(500)), 1.0)
    parts = together_records._bins(lengths, 1.0)[0].mean(axis=0)
    noisy = parts + deviation * rng.standard_normal((100, len(parts)))
    found = [together_records.usual_length(one, part, deviation) for one in noisy]
    wrong = np.abs(np.log(found) - np.log(np.quantile(lengths, part)))
    assert np.median(wrong) < 0.25 and np.quantile(wrong, 0.95) < 0.7
