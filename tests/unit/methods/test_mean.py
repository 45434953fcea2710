"""Mean-regularised learning in NumPy: its limits and optimum, its cohorts, and the record-level rounds."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.small import related_tasks

from taskveil.errors import OptionError
from taskveil.estimators import TaskClassifier, TaskRegressor
from taskveil.losses import LOSSES
from taskveil.methods.base import PublicInfo
from taskveil.methods.mean import RELEASE, Mean
from taskveil.methods.mean_rounds import extrapolated
from taskveil.privacy.contributions import RowSum
from taskveil.privacy.plan import Budget, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime.round import bounded_rows
from taskveil.solvers.block_gradient import mean_gradients
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.synthetic import get_synthetic

PLAIN = Budget(epsilon=None, delta=1e-5, unit="task", neighbours="replace-one")
PRIVATE = Budget(epsilon=2.0, delta=1e-5, unit="task", neighbours="replace-one")
RECORD = Budget(epsilon=2.0, delta=1e-6, unit="record", neighbours="replace-one")


def closed_form(block: TaskBlock, strength: float) -> np.ndarray:
    """The joint optimum: (H_k + lambda) w_k - (lambda/m) sum_j w_j = c_k, rows centred by the intercepts."""
    m, d = block.n_tasks, block.n_features
    A, c = np.kron(np.full((m, m), -strength / m), np.eye(d)), np.zeros((m, d))
    for k in range(m):
        X, y = block.X[block.rows(k)], block.y[block.rows(k), 0]
        X, y, own = X - X.mean(0), y - y.mean(), slice(k * d, (k + 1) * d)
        A[own, own] += X.T @ X / len(y) + strength * np.eye(d)
        c[k] = X.T @ y / len(y)
    return np.linalg.solve(A, c.ravel()).reshape(m, d)


def fit(method: Mean, tasks=None, **options) -> TaskRegressor:
    return TaskRegressor(method, **{"epsilon": None, **options}).fit(related_tasks() if tasks is None else tasks)


# ------------------------------------------------------------------- optimum


@pytest.mark.parametrize("strength", [0.01, 0.3, 10.0, 1000.0])
def test_without_noise_it_reaches_the_closed_form_optimum(strength):
    est = fit(Mean(strength=strength))
    exact = closed_form(est._training, strength)
    np.testing.assert_allclose(est.models_.coef[:, 0], exact, rtol=1e-6, atol=1e-7)


def test_strength_zero_equals_learning_alone():
    np.testing.assert_array_equal(fit(Mean(strength=0.0)).coef_, fit("local").coef_)


def test_a_large_strength_gives_every_task_the_model_that_minimises_the_mean_loss():
    """The fixed point of federated averaging: all tasks weigh the same, whatever they hold."""
    est = fit(Mean(strength=1e6))
    W = est.models_.coef[:, 0]
    assert np.ptp(W, axis=0).max() < 1e-4
    block = est._training
    G, c = 0.0, 0.0
    for k in range(block.n_tasks):
        X, y = block.X[block.rows(k)], block.y[block.rows(k), 0]
        X, y = X - X.mean(0), y - y.mean()
        G, c = G + X.T @ X / len(y), c + X.T @ y / len(y)
    np.testing.assert_allclose(W.mean(axis=0), np.linalg.solve(G, c), atol=1e-4)


def test_the_logistic_optimum_is_stationary():
    tasks = related_tasks(kind="classification", rows=(15, 25))
    strength = 0.1
    est = TaskClassifier(Mean(strength=strength), epsilon=None).fit(tasks)
    W, b = est.models_.coef, est.models_.intercept
    gradient, slope, _ = mean_gradients(est._training, W, b, LOSSES.get("logistic"))
    np.testing.assert_allclose(gradient + strength * (W - W.mean(axis=0)), 0.0, atol=1e-6)
    np.testing.assert_allclose(slope, 0.0, atol=1e-6)


def test_extrapolation_solves_a_linear_fixed_point_in_as_many_rounds_as_unknowns():
    rng = np.random.default_rng(0)
    B = rng.standard_normal((5, 5))
    A, target = B @ B.T / 20, rng.standard_normal(5)
    points, moves, x = [], [], np.zeros(5)
    for _ in range(7):
        points.append(x)
        moves.append(A @ (target - x))
        x = extrapolated(np.array(points), np.array(moves))
    np.testing.assert_allclose(x, target, atol=1e-6)


# ------------------------------------------------------------------- cohorts


def test_sums_are_divided_by_the_expected_cohort():
    """The realised cohort never enters. The check rejects a server that divides by it."""
    public = PublicInfo(n_tasks=100, n_features=3, n_outputs=1, kind="regression")
    method = Mean(strength=1.0, rate=0.2)
    plan = make_plan(method.requests(public, PRIVATE), PRIVATE)
    server = method.server_side(public, plan)
    state, _ = server.start()
    total = np.full((1, 3), 5.0)

    def depends_on_cohort(step) -> bool:
        few, many = np.arange(100) < 10, np.arange(100) < 40
        return not np.array_equal(step(few), step(many))

    assert not depends_on_cohort(lambda accepted: server.step(state, {RELEASE: total}, accepted)[1].values["mean"])
    np.testing.assert_allclose(server.step(state, {RELEASE: total}, np.ones(100, bool))[1].values["mean"], 5.0 / 20.0)
    assert depends_on_cohort(lambda accepted: total / accepted.sum())


@pytest.mark.parametrize("options", [{}, {"strength": 0.5}])
def test_poisson_cohorts_are_charged_as_such(options):
    events = [r.event.to_dict() for r in fit(Mean(rounds=3, rate=0.5, **options), epsilon=2.0).record_.plan.releases]
    assert len(events) == 3 and all(e["rate"] == 0.5 for e in events)


def test_an_empty_cohort_releases_noise_like_any_other():
    est = fit(Mean(rounds=2, rate=0.02, strength=0.5), epsilon=2.0, insecure_noise_seed=0)
    assert all(cohort.size == 0 for cohort in est.record_.schedule), "choose a seed that draws nobody"
    assert np.abs(est.record_.billboards[-1].values["mean"]).max() > 0.0


@pytest.mark.parametrize("strength", [1.0, 10.0])
def test_a_task_leaves_a_mean_that_the_noise_has_drowned_whatever_pulls_toward_it(strength):
    """With a strength every task kept the shared model, several times worse on its own held-out rows than learning alone."""
    tasks = related_tasks()
    est, alone = fit(Mean(strength=strength), tasks, epsilon=0.05, insecure_noise_seed=0), fit("local", tasks)
    assert not est.models_.kept.any() and est.gain_.error_shared.min() > est.gain_.error_alone.max()
    np.testing.assert_array_equal(est.coef_, alone.coef_)
    assert fit(Mean(strength=strength), tasks).models_.kept.all(), "without noise the optimum is handed out as it is"


def test_messages_of_the_default_have_norm_at_most_one():
    tasks = related_tasks()
    est = fit(Mean(rounds=2), tasks)
    side = Mean().task_side(est._training, est.record_.public, est.record_.plan)
    for board in est.record_.billboards:
        raw = side.step({}, board.view(None))[1][RELEASE]
        assert (np.linalg.norm(raw, axis=1) <= 1 + 1e-9).all()


# ------------------------------------------------------------------- records


def record_setting(block: TaskBlock, rate: float | None = None):
    sizes = tuple(int(n) for n in np.diff(block.offsets))
    public = PublicInfo(n_tasks=block.n_tasks, n_features=block.n_features, n_outputs=1, kind="regression", task_rows=sizes)
    method = Mean(rate=rate)
    plan = make_plan(method.requests(public, RECORD), RECORD)
    return method, public, plan


def record_sum(block: TaskBlock, point: np.ndarray, own_intercepts: bool = False) -> np.ndarray:
    """The clipped sum of all rows of all tasks at a public point. `own_intercepts` is the planted fault."""
    method, public, plan = record_setting(block)
    side = method.task_side(block, public, plan)
    _, board = method.server_side(public, plan).start()
    view = type(board)(3, {**board.values, "point": point}).view(None)
    rows = side.step({}, view)[1][RELEASE]
    if own_intercepts:
        shift = block.means_by_task(rows.slopes)
        rows = type(rows)(rows.X, rows.slopes - shift[block.task_of_row], rows.offsets)
    bounded = bounded_rows(plan.releases[0], rows, insecure_seeded_noise(0), range(block.n_tasks))
    return plan.releases[0].contribution.total(bounded)


def test_one_row_moves_the_record_sum_by_at_most_two_clips():
    """The check rejects own intercepts, through which one row moves every other row of its task."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (80, 3)), rng.uniform(-1, 1, 80)
    one = TaskBlock(X, y, np.array([0, 60, 80]))
    y_other = y.copy()
    y_other[7] = 1e4
    two = TaskBlock(X, y_other, np.array([0, 60, 80]))
    point = rng.standard_normal((1, 4)) * 0.1
    clip = record_setting(one)[2].releases[0].contribution.bound
    assert np.linalg.norm(record_sum(one, point) - record_sum(two, point)) <= 2 * clip * (1 + 1e-9)
    assert np.linalg.norm(record_sum(one, point, True) - record_sum(two, point, True)) > 4 * clip


def test_records_are_summed_row_by_row_and_rows_are_sampled():
    _, _, plan = record_setting(TaskBlock(np.zeros((6, 2)), np.zeros(6), np.array([0, 2, 6])), rate=0.3)
    assert all(isinstance(r.contribution, RowSum) and r.rate == 0.3 for r in plan.releases)


@pytest.mark.parametrize("rate", [None, 0.5])
def test_the_record_level_mean_approaches_the_pooled_model(rate):
    rng = np.random.default_rng(0)
    w, sizes = np.array([0.4, -0.3, 0.2]), np.full(20, 400)
    X = rng.uniform(-1, 1, (8000, 3))
    y = X @ w + 0.1 + 0.05 * rng.standard_normal(8000)
    block = TaskBlock(X, y, np.concatenate([[0], np.cumsum(sizes)]))
    from taskveil.runtime.in_process import run
    from taskveil.runtime.run import Run

    method, public, plan = record_setting(block, rate)
    record = run(Run(method, public, plan, source=insecure_seeded_noise(1)), block)
    board = record.billboards[-1].values
    np.testing.assert_allclose(board["mean"][0], w, atol=0.05)
    np.testing.assert_allclose(board["intercept"], 0.1, atol=0.05)


def test_a_strength_is_refused_where_records_are_protected():
    public = PublicInfo(n_tasks=2, n_features=2, n_outputs=1, kind="regression", task_rows=(3, 3))
    with pytest.raises(OptionError, match="strength"):
        Mean(strength=1.0).requests(public, RECORD)
    with pytest.raises(OptionError, match="public number of rows"):
        Mean().requests(PublicInfo(n_tasks=2, n_features=2, n_outputs=1, kind="regression"), RECORD)


@pytest.mark.parametrize("options", [{"rounds": 0}, {"strength": -1.0}, {"rate": 0.0}, {"clip": 0.0}])
def test_options_that_make_no_sense_are_refused_before_any_release(options):
    public = PublicInfo(n_tasks=9, n_features=2, n_outputs=1, kind="regression")
    with pytest.raises(OptionError):
        Mean(**options).requests(public, PRIVATE)


# ------------------------------------------------------------------- utility


def test_tasks_around_a_mean_gain_and_much_noise_means_learning_alone():
    data = get_synthetic("hospitals", 0)

    def error(method, epsilon):
        est = TaskRegressor(method, epsilon=epsilon, delta=1e-3, insecure_noise_seed=0).fit(data.train)
        return float(np.mean((est.predict(data.test) - data.test.y) ** 2))

    alone = error("local", None)
    assert error("mean", 1.0) < 0.95 * alone
    assert error("mean", 0.02) <= 1.02 * alone
