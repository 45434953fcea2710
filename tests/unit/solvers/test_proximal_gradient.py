"""Optima are certified by dual points that share no code with the solver (tests/support/certificates.py)."""

import numpy as np
import pytest
from sklearn.linear_model import Lasso, MultiTaskLasso
from tests.support import proximal_gradient as pg
from tests.support.blocks import equal_block, make_block
from tests.support.certificates import bounds

from taskveil.errors import OptionError
from taskveil.losses import LOSSES
from taskveil.solvers.centred import SmoothPart
from taskveil.structures import STRUCTURES

KIND = {"squared": "regression", "logistic": "classification"}
SIZE = {"squared": 1.0, "logistic": 0.1}


def named(pairs, scale=1.0):
    return [(STRUCTURES.get(name), scale * penalty) for name, penalty in pairs]


def blocks(loss):
    """Every task has both classes and some tasks fewer rows than features; the features have large means."""
    return make_block(KIND[loss], n_tasks=15, n_features=8, rows=(7, 24), shift=3.0, noise=3.0, seed=5)


@pytest.mark.parametrize("loss", KIND)
@pytest.mark.parametrize(
    "pairs",
    [
        [("trace_norm", 0.5)],
        [("group_sparse", 0.5)],
        [("l1", 0.1)],
        [("l12", 0.3)],
        [("trace_norm", 0.5), ("l1", 0.15)],
        [("group_sparse", 0.5), ("l1", 0.15)],
        [("group_sparse", 0.5), ("l12", 0.3)],
    ],
    ids=lambda pairs: "+".join(name for name, _ in pairs),
)
def test_the_optimum_is_reached_to_a_relative_gap_of_1e_6(loss, pairs):
    block = blocks(loss)
    sol = pg.minimise(block, LOSSES.get(loss), named(pairs, SIZE[loss]), tol=1e-7, rounds=20_000)
    parts = [part[:, 0].T for part in sol.parts]
    scaled = [(name, SIZE[loss] * penalty) for name, penalty in pairs]
    objective, below = bounds(block, loss, parts, sol.intercepts[:, 0], scaled)
    assert objective == pytest.approx(sol.objective, rel=1e-10)
    assert objective - below <= 1e-6 * objective
    assert 0.0 < np.linalg.norm(sol.W)  # the penalty leaves something to find


def test_the_certificate_rejects_a_point_that_is_slightly_off():
    """The twin of the test above: a relative error of 1e-4 in the objective does not pass as 1e-6."""
    block = blocks("squared")
    sol = pg.minimise(block, LOSSES.get("squared"), named([("trace_norm", 0.5)]), tol=1e-9, rounds=20_000)
    objective, below = bounds(block, "squared", [1.02 * sol.W[:, 0].T], sol.intercepts[:, 0], [("trace_norm", 0.5)])
    assert objective - below > 1e-6 * objective


@pytest.mark.parametrize("loss", KIND)
@pytest.mark.parametrize("name", ["squared_frobenius", "relationship"])
def test_smooth_and_quadratic_structures_reach_a_stationary_point(loss, name):
    """Moving along any direction, numerically, does not lower the objective."""
    block, rng = blocks(loss), np.random.default_rng(0)
    structure, l = STRUCTURES.get(name), LOSSES.get(loss)
    sol = pg.minimise(block, l, [(structure, 0.05)], tol=1e-10, rounds=20_000)

    def objective(W, b):
        scores = block.scores(W, b)
        return block.means_by_task(l.value(scores, block.y)).sum() + 0.05 * structure.value(structure.matrix(W))

    best = objective(sol.W, sol.intercepts)
    assert best == pytest.approx(sol.objective, rel=1e-10)
    for radius in (1e-3, 1e-2):
        for _ in range(20):
            W = sol.W + radius * rng.standard_normal(sol.W.shape)
            assert best <= objective(W, sol.intercepts + radius * rng.standard_normal(sol.intercepts.shape)) + 1e-9


def test_two_parts_with_a_squared_frobenius_reach_the_optimum_of_the_joint_quadratic():
    """P + Q with Remark 4's |Q|_F^2: the solver's own gap, and no better point nearby."""
    block = blocks("squared")
    sol = pg.minimise(
        block, LOSSES.get("squared"), named([("trace_norm", 0.5), ("squared_frobenius", 0.2)]), tol=1e-8, rounds=20_000
    )
    assert 0.0 <= sol.gap <= 1e-8 * sol.objective


def test_group_sparse_with_shared_rows_is_the_multi_task_lasso_of_scikit_learn():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 8)) + 1.0
    Y = X[:, :3] @ rng.standard_normal((3, 5)) + 0.3 * rng.standard_normal((40, 5)) + 2.0
    sol = pg.minimise(equal_block(X, Y), LOSSES.get("squared"), named([("group_sparse", 0.2)]), tol=1e-10)
    reference = MultiTaskLasso(alpha=0.2, tol=1e-10, max_iter=100_000).fit(X, Y)
    np.testing.assert_allclose(sol.W[:, 0], reference.coef_, atol=1e-5)
    np.testing.assert_allclose(sol.intercepts[:, 0], reference.intercept_, atol=1e-5)


def test_l1_is_the_lasso_of_every_task():
    block = make_block(n_tasks=4, rows=(20, 30), seed=2)
    sol = pg.minimise(block, LOSSES.get("squared"), named([("l1", 0.2)]), tol=1e-10, rounds=20_000)
    for i in range(4):
        reference = Lasso(alpha=0.2, tol=1e-12, max_iter=100_000).fit(block.X[block.rows(i)], block.y[block.rows(i), 0])
        np.testing.assert_allclose(sol.W[i, 0], reference.coef_, atol=1e-5)


@pytest.mark.parametrize("loss", KIND)
def test_several_outputs_are_more_columns(loss):
    """Trace norm over 4 tasks with 2 outputs each equals 8 tasks with one."""
    block = make_block(KIND[loss], n_tasks=4, n_outputs=2, rows=(15, 15), noise=3.0)
    split = type(block)(
        np.concatenate([np.tile(block.X[block.rows(i)], (2, 1)) for i in range(4)]),
        np.concatenate([block.y[block.rows(i)].T.reshape(-1, 1) for i in range(4)]),
        np.arange(9) * 15,
    )
    parts = named([("trace_norm", 0.3)], SIZE[loss])
    a = pg.minimise(block, LOSSES.get(loss), parts, tol=1e-10, rounds=20_000)
    b = pg.minimise(split, LOSSES.get(loss), parts, tol=1e-10, rounds=20_000)
    np.testing.assert_allclose(a.W.reshape(8, 1, -1), b.W, atol=1e-4)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("loss", KIND)
def test_the_fused_round_equals_its_parts(loss, intercept):
    """One compiled pass against extrapolation, gradient and step in NumPy; one class, held-out rows."""
    block = blocks(loss).with_mask(np.arange(blocks(loss).n_rows) % 5 > 0)
    if loss == "logistic":
        block.y[block.rows(2)] = 1.0
    smooth = SmoothPart(block, LOSSES.get(loss), ridge=0.1, fit_intercept=intercept)
    rng = np.random.default_rng(0)
    W, before = rng.standard_normal((2, *smooth.shape))
    c, c_before = rng.standard_normal((2, *smooth.shape[:2])) * smooth.free
    steps = rng.uniform(0.1, 1.0, block.n_tasks)
    got = smooth.accelerated_step((W, c), (before, c_before), 0.7, steps)
    z, zc = W + 0.7 * (W - before), c + 0.7 * (c - c_before)
    at = smooth.evaluate(z, zc)
    np.testing.assert_allclose(got[0], z - steps[:, None, None] * at.grad_W, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(got[1], zc - at.grad_c / smooth.loss.smoothness, rtol=1e-10, atol=1e-12)


def test_a_zero_tolerance_runs_exactly_the_given_rounds():
    block = make_block(n_tasks=3)
    for rounds in (1, 7, 30):
        sol = pg.minimise(block, LOSSES.get("squared"), named([("trace_norm", 1e6)]), rounds=rounds, tol=0.0)
        assert sol.rounds == rounds


def test_the_reported_gap_is_an_upper_bound_at_every_stage():
    block = blocks("logistic")
    parts = named([("trace_norm", 0.05)])
    best = pg.minimise(block, LOSSES.get("logistic"), parts, tol=1e-10, rounds=20_000)
    for rounds in (20, 60, 150):
        sol = pg.minimise(block, LOSSES.get("logistic"), parts, tol=0.0, rounds=rounds)
        assert sol.objective - best.objective <= sol.gap + 1e-12


@pytest.mark.parametrize("rule", pg.RULES)
def test_every_momentum_rule_reaches_the_optimum_of_a_strongly_convex_problem(rule):
    block = make_block(n_tasks=6, shift=0.3)
    options = {"ridge": 0.1, "rounds": 30_000, "tol": 1e-9}
    parts, loss = named([("trace_norm", 0.3)]), LOSSES.get("squared")
    a = pg.minimise(block, loss, parts, rule=rule, restart=False, **options)
    b = pg.minimise(block, loss, parts, **options)
    assert a.objective == pytest.approx(b.objective, rel=1e-8)


def test_momentum_follows_the_paper():
    assert [pg.momentum("accelerated", t) for t in (1, 2, 4)] == [0.0, 0.25, 0.5]
    assert pg.momentum("plain", 9) == 0.0
    assert pg.momentum("strongly-convex", 5, 0.25, 1.0) == pytest.approx(1.0 / 3.0)
    with pytest.raises(OptionError, match="accelerated"):
        pg.momentum("fast", 1)


def test_two_parts_start_from_the_model_and_zero_and_use_half_the_step():
    """docs/theory/model-protected.md#algorithm-4: P = Q = W0 would double the model, and 1/L diverges."""
    block = make_block(n_tasks=5)
    smooth = SmoothPart(block, LOSSES.get("squared"))
    one = pg.Problem(smooth, named([("trace_norm", 0.1)]))
    two = pg.Problem(smooth, named([("trace_norm", 0.1), ("l1", 0.1)]))
    np.testing.assert_allclose(2.0 * two.step, one.step)
    W0 = np.ones(smooth.shape)
    start = two.start(W0)
    np.testing.assert_array_equal(start.parts.sum(axis=0), W0)
    assert not start.parts[1].any()


def test_one_class_tasks_stay_finite_and_keep_zero_weights():
    block = make_block("classification", n_tasks=6, rows=(10, 12))
    block.y[block.rows(2)] = 1.0
    sol = pg.minimise(block, LOSSES.get("logistic"), named([("trace_norm", 0.02)]), tol=1e-7)
    assert np.all(np.isfinite(sol.W)) and np.allclose(sol.W[2], 0.0, atol=1e-8)
    n = block.sizes[2]
    assert sol.intercepts[2, 0] == pytest.approx(np.log((n + 0.5) / 0.5), abs=1e-6)
    assert sol.gap <= 1e-7 * sol.objective


def test_constant_columns_one_row_and_empty_tasks_are_normal():
    block = make_block(n_tasks=6, rows=(1, 4))
    block.X[:, 2] = 7.0
    block.X[block.rows(1)] = 3.0
    block = block.with_mask(block.task_of_row != 4)
    sol = pg.minimise(block, LOSSES.get("squared"), named([("group_sparse", 0.1)]), tol=1e-7)
    assert np.all(np.isfinite(sol.W)) and np.all(np.isfinite(sol.intercepts))
    assert not sol.W[4].any()


def test_without_an_intercept_scores_pass_through_the_origin():
    block = make_block(n_tasks=4, rows=(20, 20))
    sol = pg.minimise(block, LOSSES.get("squared"), named([("l1", 1e-9)]), fit_intercept=False, tol=1e-9, rounds=20_000)
    assert not sol.intercepts.any()
    for i in range(4):
        w = np.linalg.lstsq(block.X[block.rows(i)], block.y[block.rows(i), 0], rcond=None)[0]
        np.testing.assert_allclose(sol.W[i, 0], w, atol=1e-3)


def test_a_large_feature_mean_does_not_slow_the_solver_down():
    """Centred intercepts: rounds with mean 100 stay within a quarter of those with mean 0."""
    counts = []
    for mean in (0.0, 100.0):
        block = make_block(n_tasks=8, shift=0.0, rows=(10, 20), seed=4)
        block.X[:] += mean
        counts.append(pg.minimise(block, LOSSES.get("squared"), named([("trace_norm", 0.3)]), tol=1e-7).rounds)
    assert counts[1] <= 1.25 * counts[0]
