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
    public = PublicInfo(4, block.n_features, 1, block.kind, fit_intercept=False, unit_rows=True, seed=0, task_rows=tuple(map(int, block.sizes)))
    budget = method.adjust(Budget(None, 1e-6, "record", variant="paper"))
    run = Run(method, public, make_plan(method.requests(public, budget), budget), source=insecure_seeded_noise(0))
    record = virtual_clock.run(run, block, schedule=[t for t in order for _ in range(2)])  # a message's two noises are two arrivals
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
    batch = Algorithm1(train, setting.ridge, Runs.of([0.1, 0.1], [setting.threshold, 0.1 * setting.threshold], [None] * 2, [None] * 2),
                       np.random.default_rng(0))  # fmt: skip
    state = batch.run(10, lambda *_: None, [])
    assert np.linalg.matrix_rank(state.P, tol=1e-9).tolist()[0] == 3
    assert np.linalg.matrix_rank(state.P, tol=1e-9).tolist()[1] > 10
    assert replace(setting, step=0.05).penalty == pytest.approx(0.03)
