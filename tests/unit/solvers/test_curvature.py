"""Steps from packed curvature against steps from the rows, which test_proximal_gradient.py checks against NumPy."""

import numpy as np
import pytest
from tests.support import proximal_gradient as pg
from tests.support.blocks import make_block

from taskveil.losses import LOSSES
from taskveil.solvers import centred as module
from taskveil.solvers import kernels_step
from taskveil.solvers.centred import SmoothPart
from taskveil.solvers.evidence import averaged_models
from taskveil.solvers.padding import padded_width
from taskveil.solvers.posterior import Prior
from taskveil.structures import STRUCTURES
from taskveil.tasks.block import TaskBlock

SQUARED = LOSSES.get("squared")
STEPS = 2 * module.EVERY + 3


def ragged(n_features=7, scale=1.0, dtype=float):
    """Some tasks are too small for it to pay; features have large means."""
    block = make_block(n_tasks=12, n_features=n_features, rows=(3, 60), shift=3.0, noise=2.0, seed=3)
    return TaskBlock((scale * block.X).astype(dtype), block.y, block.offsets)


def walked(block, steps=STEPS, **options):
    """(models, intercepts) after so many accelerated steps, and the smooth part that took them."""
    smooth = SmoothPart(block, SQUARED, **options)
    problem = pg.Problem(smooth, [(STRUCTURES.get("l1"), 0.0)])
    state = problem.start()
    for _ in range(steps):
        state = pg.step(problem, state, pg.momentum("accelerated", state.since_restart + 1))
    return state.parts[0], state.intercepts, smooth


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("d", [1, 4, 7, 30])
def test_the_way_is_the_same_as_from_the_rows(d, intercept):
    block = ragged(d).with_mask(np.arange(ragged(d).n_rows) % 5 > 0)
    options = {"ridge": 0.1, "fit_intercept": intercept}
    W, c, smooth = walked(block, **options)
    exact_W, exact_c, exact = walked(block, from_rows=True, **options)
    assert (smooth.curvature.where >= 0).any() and (exact.curvature.where < 0).all()
    np.testing.assert_allclose(W, exact_W, rtol=0, atol=2e-6 * np.abs(exact_W).max())
    np.testing.assert_allclose(c, exact_c, rtol=1e-12)


@pytest.mark.parametrize(("scale", "dtype"), [(1e-25, float), (1e25, float), (1.0, np.float32)])
def test_neither_the_unit_of_the_features_nor_their_type_matters(scale, dtype):
    block = ragged(scale=scale, dtype=dtype)
    W, _, smooth = walked(block)
    exact = walked(block, from_rows=True)[0]
    assert (smooth.curvature.where >= 0).any()
    np.testing.assert_allclose(W, exact, rtol=0, atol=1e-6 * np.abs(exact).max())


def test_constant_and_empty_tasks_are_left_in_peace():
    block = ragged()
    block.X[block.rows(int(block.sizes.argmax()))] = 2.0
    kept = np.ones(block.n_rows, dtype=bool)
    kept[block.rows(int(np.argsort(block.sizes)[-2]))] = False
    block = block.with_mask(kept)
    np.testing.assert_allclose(walked(block)[0], walked(block, from_rows=True)[0], atol=1e-6)


def test_a_task_walks_alone_as_among_others_to_the_last_bit():
    block = ragged()
    lipschitz = SmoothPart(block, SQUARED).lipschitz()
    parts, options = [(STRUCTURES.get("l1"), 0.1)], {"rounds": STEPS, "tol": 0.0, "restart": False}
    together = pg.minimise(block, SQUARED, parts, lipschitz=lipschitz, **options)
    for i in range(block.n_tasks):
        alone = pg.minimise(block.take([i]), SQUARED, parts, lipschitz=lipschitz[i], **options)
        np.testing.assert_array_equal(alone.W[0], together.W[i])


def far_from_the_anchor():
    """A problem whose solution lies far from the first anchor, in units of what single precision resolves."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 6)) * np.array([1.0, 1.0, 1.0, 0.05, 0.05, 0.05])
    y = X @ np.full((6, 1), 1e4) + rng.standard_normal((400, 1))
    return TaskBlock(X, y, np.array([0, 200, 400]))


def distance_to_least_squares(block):
    W = walked(block, steps=4000)[0]
    rows = [np.column_stack([block.X, np.ones(block.n_rows)])[block.rows(i)] for i in range(block.n_tasks)]
    exact = [np.linalg.lstsq(X, block.y[block.rows(i), 0], rcond=None)[0][:-1] for i, X in enumerate(rows)]
    return float(np.abs(W[:, 0] - exact).max())


def test_the_solution_is_that_of_double_precision():
    assert distance_to_least_squares(far_from_the_anchor()) < 1e-6


def test_an_anchor_that_stays_behind_is_noticed(monkeypatch):
    """The twin: with the first anchor for ever, single precision shows in the solution."""
    monkeypatch.setattr(module, "EVERY", 10**9)
    assert distance_to_least_squares(far_from_the_anchor()) > 1e-6


def test_only_what_pays_is_packed_and_not_before_the_first_step():
    block = ragged(20)
    curvature = SmoothPart(block, SQUARED).curvature
    assert curvature.missing.any()
    packed = walked(block)[2].curvature
    assert not packed.missing.any() and np.array_equal(packed.where >= 0, curvature.missing)
    pays = packed.where >= 0
    assert not pays.all() and block.sizes[pays].min() > block.sizes[~pays].max()
    assert packed.numbers.nbytes <= module.MOST * block.X.nbytes
    logistic = SmoothPart(block.with_targets(np.sign(block.y)), LOSSES.get("logistic"))
    assert not logistic.curvature.missing.any()


@pytest.mark.parametrize("intercept", [True, False])
def test_what_learning_alone_hands_on_is_what_is_computed_without_it(intercept):
    """To the last bit, some rows of weight zero; tasks with fewer rows than features are left to be packed."""
    block = make_block(n_tasks=12, n_features=100, rows=(85, 130), shift=3.0, noise=2.0, seed=3)
    block = block.with_mask(np.arange(block.n_rows) % 5 > 0)
    handed, computed = (SmoothPart(block, SQUARED, fit_intercept=intercept).curvature for _ in range(2))
    averaged_models(block, [Prior()], "squared", intercept, moments=handed.take)
    left = computed.missing & (padded_width(block.sizes) < block.n_features)
    assert left.any() and not left.all()
    np.testing.assert_array_equal(handed.missing, left)
    handed.pack_missing()
    computed.pack_missing()
    assert handed.numbers.tobytes() == computed.numbers.tobytes()
    np.testing.assert_array_equal(handed.lengths, computed.lengths)


def test_a_packed_matrix_is_the_curvature():
    block = ragged(7)
    curvature = SmoothPart(block, SQUARED).curvature
    curvature.pack_missing()
    for i in np.flatnonzero(curvature.where >= 0):
        v, out = np.zeros(10, np.float32), np.empty(10, np.float32)
        v[:7] = np.random.default_rng(i).standard_normal(7)
        kernels_step.curvature_times(curvature.numbers, curvature.where[i], 7, v, out)
        wanted = np.cov(block.X[block.rows(i)].T, bias=True) @ v[:7]
        np.testing.assert_allclose(curvature.lengths[i] ** 2 * out[:7], wanted, rtol=1e-4, atol=1e-5 * np.abs(wanted).max())
