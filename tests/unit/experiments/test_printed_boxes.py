"""Algorithms as printed equal loops written from the papers' boxes, row by row, to 1e-12."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from experiments.xie_2017.algorithm1 import Algorithm1, Runs, alone
from experiments.xie_2017.data import SETTINGS, make_data

from taskveil.methods.async_mtl import AsyncMTL
from taskveil.methods.base import PublicInfo
from taskveil.privacy.plan import Budget, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime import virtual_clock
from taskveil.runtime.run import Run

CONSTANTS = {"ridge": 1e-3, "step": 0.1, "threshold": 1.5e-3}


def xie_2017_algorithm_1(block, order, noise, ridge, step, threshold, inverse=(0.0, 0.0), explicit=True):
    """Lines 1-24 of Algorithm 1, one row at a time; `noise` has unit scale, `inverse` is 1/epsilon_1 and 1/epsilon_2."""
    T, d = block.n_tasks, block.n_features
    squares = block.kind == "regression"
    P, S, Q = np.zeros((d, T)), np.zeros((d, T)), alone(block, ridge).T.copy()
    received = np.zeros((d, T))

    def gradient(t, w):
        total = np.zeros(d)
        for x, y in zip(block.X[block.rows(t)], block.y[block.rows(t), 0]):
            total += (2 * (x @ w - y) if squares else -y / (1 + np.exp(y * (x @ w)))) * x
        return total / block.sizes[t]

    for t, (z1, z2) in zip(order, noise):
        p, q, n = received[:, t], Q[:, t], block.sizes[t]
        slope = gradient(t, p + q)
        q = q - step * (slope + ridge * q) if explicit else (q - step * slope) / (1 + step * ridge)
        sensitivity = 8.0 / n if squares else 2.0 / n  # C1 = C2 = C3 = C4 = 1
        z1, z2 = step * sensitivity * inverse[0] * z1, sensitivity * inverse[1] * z2
        S[:, t] = gradient(t, p + q + z1) + z2
        U, values, V = np.linalg.svd(P - step * S, full_matrices=False)
        P = (U * np.maximum(values - threshold, 0.0)) @ V
        Q[:, t], received[:, t] = q, P[:, t]
    return P.T, Q.T


def small(name):
    train, _ = make_data(SETTINGS[name], 3)
    return train.take([0, 1, 2, 3])


@pytest.mark.parametrize("name", list(SETTINGS))
def test_algorithm_1_of_xie_2017_takes_the_steps_of_its_box(name):
    block, rng = small(name), np.random.default_rng(0)
    order = [int(t) for t in rng.integers(0, 4, 40)]
    noise = [(rng.standard_normal(block.n_features), rng.standard_normal(block.n_features)) for _ in order]
    inverse = (2.0, 0.5)
    batch = Algorithm1(block, CONSTANTS["ridge"], Runs.of([0.1, 0.1], [1.5e-3] * 2, [0.5, None], [2.0, None]), rng)
    for t, (z1, z2) in zip(order, noise):
        batch.arrive(t, (np.stack([z1, z1]), np.stack([z2, z2])))
    for run, scale in ((0, inverse), (1, (0.0, 0.0))):
        P, Q = xie_2017_algorithm_1(block, order, noise, inverse=scale, **CONSTANTS)
        np.testing.assert_allclose(batch.state.P[run], P, rtol=0, atol=1e-12)
        np.testing.assert_allclose(batch.state.Q[run], Q, rtol=0, atol=1e-12)


def test_the_paper_variant_of_async_takes_the_steps_of_the_same_box():
    """Threshold mu = a lambda, q by the printed gradient step: a proximal step ends elsewhere."""
    block = small("synthetic, classification")
    order = [int(t) for t in np.random.default_rng(1).integers(0, 4, 30)]
    nothing = [(np.zeros(block.n_features), np.zeros(block.n_features))] * len(order)
    method = AsyncMTL("aso", shared_penalty=1.5e-2, own_penalty=0.5e-3, step=0.1, rounds=len(order), refine=False, tol=0.0)
    method = method.under("record", "paper")
    sizes = tuple(map(int, block.sizes))
    public = PublicInfo(4, block.n_features, 1, block.kind, fit_intercept=False, unit_rows=True, seed=0, task_rows=sizes)
    budget = method.adjust(Budget(None, 1e-6, "record", variant="paper"))
    run = Run(method, public, make_plan(method.requests(public, budget), budget), source=insecure_seeded_noise(0))
    record = virtual_clock.run(run, block, schedule=[t for t in order for _ in range(2)])  # two noises, two arrivals
    found = record.billboards[-1].values["shared"][:, 0]
    P, Q = xie_2017_algorithm_1(block, order, nothing, **CONSTANTS)
    np.testing.assert_allclose(found, P, rtol=0, atol=1e-12)
    np.testing.assert_allclose(record.models.coef[:, 0] - found, Q, rtol=0, atol=1e-12)
    _, by_prox = xie_2017_algorithm_1(block, order, nothing, explicit=False, **CONSTANTS)
    assert np.abs(by_prox - Q).max() > 1e-10  # a hundred times the agreement above


def test_the_printed_constants_keep_the_rank_of_the_paper():
    """Section 4.1: mu = 0.0015 as the threshold gives rank 3; a tenth of it, as a step times mu would be, does not."""
    setting = SETTINGS["synthetic, classification"]
    train, _ = make_data(setting, 0)
    runs = Runs.of([0.1, 0.1], [setting.threshold, 0.1 * setting.threshold], [None] * 2, [None] * 2)
    batch = Algorithm1(train, setting.ridge, runs, np.random.default_rng(0))
    state = batch.run(10, lambda *_: None, [])
    assert np.linalg.matrix_rank(state.P, tol=1e-9).tolist()[0] == 3
    assert np.linalg.matrix_rank(state.P, tol=1e-9).tolist()[1] > 10
    assert replace(setting, step=0.05).penalty == pytest.approx(0.03)


# ------------------------------------------------------------------- federated MTL-SVM


def svm_algorithm_1(X, y, offsets, C2, rounds):
    """Lines 1-17 of Algorithm 1 with eq. 32, one row at a time; classification, no masks."""
    K, d = len(offsets) - 1, X.shape[1]
    w, V = np.zeros(d), np.zeros((K, d))
    for _ in range(rounds):
        total = np.zeros(d)
        for k in range(K):
            dw = np.zeros(d)
            for i in range(offsets[k], offsets[k + 1]):
                dw += y[i] * (1 - y[i] * (w + V[k]) @ X[i]) / (X[i] @ X[i]) * X[i]
            V[k] = V[k] + dw / C2
            total += dw
        w = total
    return w, V


def test_the_paper_variant_of_svm_is_algorithm_1_as_boxed():
    from taskveil.methods.svm.method import Svm
    from taskveil.tasks.block import TaskBlock

    rng = np.random.default_rng(2)
    X, y, offsets = rng.standard_normal((7, 6)), np.where(rng.random(7) < 0.5, -1.0, 1.0), np.array([0, 3, 4, 7])
    block = TaskBlock(X, y, offsets, kind="classification")
    method = Svm(C1=1.0, C2=5.0, rounds=3).under("task", "paper")
    public = PublicInfo(3, 6, 1, "classification", fit_intercept=False)
    budget = replace(Budget(None, 1e-5), variant="paper")
    plan = make_plan(method.requests(public, budget), budget)
    tasks, server = method.task_side(block, public, plan), method.server_side(public, plan)
    state, (at, board) = tasks.start(), server.start()
    for _ in range(3):
        state, message = tasks.step(state, board.view(None))
        at, board = server.step(at, {k: v.sum(axis=0) for k, v in message.items()}, np.ones(3, dtype=bool))
    w, V = svm_algorithm_1(X, y, offsets, 5.0, 3)
    np.testing.assert_allclose(board.values["shared"][0][:6], w, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(state["own"][:, 0, :6], V, rtol=1e-12, atol=1e-12)


def test_the_readings_of_the_svm_start_from_the_same_box():
    from experiments.ponomarenko_2023.readings import epoch

    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((5, 4)), np.array([1.0, -1.0, 1.0, 1.0, -1.0])
    w, v = np.zeros(4), np.zeros((1, 4))
    sent = epoch(X, y, w, v[0], 1 / 5.0, "boxed", rng)
    boxed, V = svm_algorithm_1(X, y, np.array([0, 5]), 5.0, 1)
    np.testing.assert_allclose(sent, boxed, atol=1e-12)
    np.testing.assert_allclose(v, V, atol=1e-12)
    one = epoch(X[:1], y[:1], w, np.zeros(4), 1 / 5.0, "sequential", rng)  # a single row: eq. 13 divides by 1 + 1/C2
    np.testing.assert_allclose(one, y[0] * X[0] / (X[0] @ X[0]) / 1.2, atol=1e-12)


def test_rows_are_solved_for_where_the_updates_hold_enough_numbers_and_not_beyond():
    """Section 6.1. d + 1 updates fix A and b; a single row follows from them, eight rows in three dimensions do not."""
    from experiments.ponomarenko_2023 import reconstruction as r

    rng = np.random.default_rng(4)
    for n, share in ((1, 1.0), (8, 0.0)):
        X, y = rng.standard_normal((n, 3)), np.where(rng.random(n) < 0.5, -1.0, 1.0)
        points = rng.standard_normal((4, 3))
        A, b = r.moments(points, r.updates(X, y, points))
        squares = np.einsum("nd,nd->n", X, X)
        np.testing.assert_allclose(A, (X / squares[:, None]).T @ X, atol=1e-9)
        np.testing.assert_allclose(b, (y / squares) @ X, atol=1e-9)
        guess, left = r.solve_rows(A, b, n, rng, 8)
        assert left < 1e-6 and r.recovered(guess, y[:, None] * X) <= share + 1e-9
        if share:
            assert r.recovered(guess, y[:, None] * X) == share


def test_the_operation_counts_are_those_of_equations_15_and_29():
    """By hand for two rows of three features."""
    from experiments.ponomarenko_2023 import complexity

    assert complexity.classification(2, 3) == {"alpha": 2 * (9 + 6 + 3 + 1), "w": 2 * (3 + 3 + 2), "v": 2 * (3 + 3 + 4), "end": 9}
    assert complexity.regression(2, 3) == {"alpha": 4 * (6 + 3 + 3 + 4), "w": 2 * (6 + 6 + 2), "v": 2 * (6 + 6 + 4), "end": 43}
