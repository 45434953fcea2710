"""Frank-Wolfe steps: the optimum inside the ball without noise, falling losses with noise, models no view can throw away."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.proximal_gradient import minimise
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.losses import LOSSES
from taskveil.methods.base import View
from taskveil.solvers.block_gradient import mean_gradients
from taskveil.structures import STRUCTURES

KINDS = {"regression": tv.TaskRegressor, "classification": tv.TaskClassifier}


def columns(models):
    return models.reshape(-1, models.shape[-1]).T


def losses(est, W, b):
    block = est._training
    return block.means_by_task(LOSSES.get(est.record_.public.loss).value(block.scores(W, b), block.y)).sum(axis=1)


def behind(kind: str, rounds: int) -> float:
    """Share by which the loss exceeds that of the penalised optimum, which is the best of all models of its trace norm."""
    tasks = related_tasks(kind=kind, rows=(15, 25))
    alone = KINDS[kind]("local", epsilon=None).fit(tasks)
    best = minimise(alone._training, LOSSES.get(alone.record_.public.loss), [(STRUCTURES.get("trace_norm"), 0.1)], tol=1e-9)
    radius = float(np.linalg.norm(columns(best.W), "nuc"))
    est = KINDS[kind](tv.methods.get("frank-wolfe", rounds=rounds, radius=radius), epsilon=None).fit(tasks)
    W = est.models_.coef
    assert np.linalg.norm(columns(W), "nuc") <= radius * (1 + 1e-9)
    optimum = best.objective - 0.1 * radius
    return float(losses(est, W, est.models_.intercept).sum() / optimum - 1)


@pytest.mark.parametrize("kind", KINDS)
def test_without_noise_it_reaches_the_optimum_inside_the_ball(kind):
    assert -1e-6 < behind(kind, 500) < 0.01


def test_the_check_rejects_a_run_that_stops_early():
    assert behind("regression", 4) > 0.01


def test_the_first_corner_is_made_of_the_gradients_first_singular_vectors():
    tasks = related_tasks()
    est = tv.TaskRegressor(tv.methods.get("frank-wolfe", rounds=1, radius=2.0), epsilon=None).fit(tasks)
    block, zero = est._training, np.zeros((12, 1, 5))
    slope = mean_gradients(block, zero, np.zeros((12, 1)), LOSSES.get("squared"))[1]
    G = mean_gradients(block, zero, -slope, LOSSES.get("squared"))[0][:, 0].T
    U, _, V = np.linalg.svd(G)
    np.testing.assert_allclose(est.models_.coef[:, 0].T, -2.0 * np.outer(U[:, 0], V[0]), atol=1e-8)


@pytest.mark.parametrize("kind", KINDS)
def test_with_noise_no_round_raises_a_tasks_own_loss(kind):
    tasks = related_tasks(kind=kind)
    est = KINDS[kind](tv.methods.get("frank-wolfe", rounds=6), epsilon=2.0, delta=1e-3, insecure_noise_seed=1).fit(tasks)
    side = est.method_.task_side(est._training, est.record_.public, est.record_.plan)
    state, seen = side.start(), []
    for board in est.record_.billboards[1:]:
        models = side.finish(state, board.view(None))
        seen.append(losses(est, models.coef, models.intercept))
        state, _ = side.step(state, board.view(None))
    assert np.all(np.diff(seen, axis=0) <= 1e-9)
    assert np.linalg.matrix_rank(columns(state["w"]), tol=1e-9) <= 6


def test_a_lying_server_cannot_throw_a_model_out_of_reach():
    est = tv.TaskRegressor(tv.methods.get("frank-wolfe", radius=3.0), epsilon=2.0, delta=1e-3).fit(related_tasks())
    side = est.method_.task_side(est._training, est.record_.public, est.record_.plan)
    state = side.start()
    for round in range(1, 9):
        view = View(round, {"direction": np.ones(5), "size": np.array(1e-12)})
        state, _ = side.step(state, view)
        assert np.linalg.norm(state["w"], axis=(1, 2)).max() <= 3.0 * (1 + 1e-9)
