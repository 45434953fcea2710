"""What every registered structure must do: proximal map and conjugate agree with its convex penalty."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from tests.support.conjugates import SEPARABLE, conjugate
from tests.support.fixed_relationship import FixedRelationship

from taskveil.structures import STRUCTURES

NAMES = STRUCTURES.names()


def make(name: str):
    return STRUCTURES.get(name)


def prox_objective(structure, V, W, step):
    return 0.5 * np.square(V - W).sum() + step * structure.value(V)


def matrices(seed: int = 0):
    """Wide, tall, rank-deficient, zero and badly scaled."""
    rng = np.random.default_rng(seed)
    yield rng.standard_normal((4, 9))
    yield rng.standard_normal((9, 4))
    yield rng.standard_normal((6, 2)) @ rng.standard_normal((2, 7))
    yield np.zeros((3, 5))
    yield rng.standard_normal((5, 6)) * np.logspace(-6, 3, 6)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("step", [0.0, 0.03, 0.7, 20.0])
def test_the_prox_beats_nearby_points(name, step):
    structure, rng = make(name), np.random.default_rng(1)
    for W in matrices():
        V = structure.prox(W, step)
        best = prox_objective(structure, V, W, step)
        size = 1.0 + np.abs(W).max()
        for radius in (1e-4, 1e-2, 1.0):
            for _ in range(20):
                trial = V + radius * size * rng.standard_normal(W.shape) * (rng.random(W.shape) < 0.5)
                assert best <= prox_objective(structure, trial, W, step) + 1e-9 * (1.0 + best)
        assert best <= prox_objective(structure, W, W, step) + 1e-9 * (1.0 + best)


@pytest.mark.parametrize("name", NAMES)
def test_the_prox_agrees_with_a_generic_optimiser(name):
    """L-BFGS from several starts, with numerical gradients, can only come close from above."""
    structure, rng = make(name), np.random.default_rng(2)
    W = rng.standard_normal((3, 4))
    V = structure.prox(W, 0.4)
    best = prox_objective(structure, V, W, 0.4)
    reached = min(
        minimize(lambda v: prox_objective(structure, v.reshape(W.shape), W, 0.4), start.ravel(), method="L-BFGS-B").fun
        for start in (W, 0.5 * W, V + 0.1 * rng.standard_normal(W.shape))
    )
    assert best <= reached + 1e-10
    assert reached <= best + 1e-3


@pytest.mark.parametrize("name", NAMES)
def test_the_prox_is_firmly_non_expansive(name):
    """The proximal map of a convex function satisfies |PA - PB|^2 <= <PA - PB, A - B>."""
    structure, rng = make(name), np.random.default_rng(3)
    for _ in range(50):
        A, B = rng.standard_normal((2, 4, 6)) * rng.choice([0.1, 1.0, 10.0])
        difference = structure.prox(A, 0.6) - structure.prox(B, 0.6)
        assert np.square(difference).sum() <= np.sum(difference * (A - B)) + 1e-10


@pytest.mark.parametrize("name", NAMES)
def test_the_penalty_is_convex_zero_at_zero_and_never_negative(name):
    structure, rng = make(name), np.random.default_rng(4)
    assert structure.value(np.zeros((4, 6))) == 0.0
    for _ in range(50):
        A, B = rng.standard_normal((2, 4, 6))
        assert structure.value((A + B) / 2) <= (structure.value(A) + structure.value(B)) / 2 + 1e-12
        assert structure.value(A) >= 0.0


@pytest.mark.parametrize("name", NAMES)
def test_the_conjugate_satisfies_fenchel_young_with_equality_at_the_prox(name):
    """(W - prox)/step is a subgradient at the prox: g(V) + g*(G) = <V, G>."""
    structure, rng = make(name), np.random.default_rng(5)
    W = rng.standard_normal((4, 6))
    V = structure.prox(W, 0.3)
    G = (W - V) / 0.3
    shrunk = G * (1.0 - 1e-12)  # rounding must not put a norm's subgradient outside the dual ball
    assert structure.value(V) + conjugate(structure, shrunk) == pytest.approx(np.sum(V * G), rel=1e-8, abs=1e-8)
    for _ in range(30):
        other = rng.standard_normal(W.shape)
        assert structure.value(other) + conjugate(structure, shrunk) >= np.sum(other * shrunk) - 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_models_and_matrices_convert_back_and_forth(name):
    structure = make(name)
    models = np.random.default_rng(6).standard_normal((5, 3, 4))
    W = structure.matrix(models)
    assert W.shape == ((4, 15) if structure.column == "output" else (12, 5))
    np.testing.assert_array_equal(structure.models(W, models.shape), models)


@pytest.mark.parametrize("name", SEPARABLE)
def test_separable_structures_take_one_step_per_column(name):
    structure = make(name)
    W = np.random.default_rng(7).standard_normal((4, 5))
    steps = np.array([0.0, 0.1, 0.5, 1.0, 3.0])
    together = structure.prox(W, steps)
    alone = np.hstack([structure.prox(W[:, [k]], float(steps[k])) for k in range(5)])
    np.testing.assert_allclose(together, alone, atol=1e-14)


@pytest.mark.parametrize("name", ["trace_norm", "group_sparse"])
@pytest.mark.parametrize("threshold", [0.05, 0.8, 3.0])
def test_the_map_from_the_covariance_is_the_prox(name, threshold):
    structure = make(name)
    for W in matrices():
        M = structure.map_from_covariance(W @ W.T, threshold)
        np.testing.assert_allclose(M @ W, structure.prox(W, threshold), atol=1e-9 * (1.0 + np.abs(W).max()))


@pytest.mark.parametrize("name", ["trace_norm", "group_sparse"])
def test_a_large_lift_turns_the_map_into_the_identity(name):
    """MP-MTL Prop. 1: with much noise the tasks learn alone, whatever the sign of the noise."""
    rng = np.random.default_rng(8)
    noise = 1e3 * rng.standard_normal((5, 5))
    noise = (noise + noise.T) / 2
    M = make(name).map_from_covariance(noise, 0.1, lift=1e6)
    np.testing.assert_allclose(M, np.eye(5), atol=1e-3)


def test_a_fixed_relationship_has_the_prox_of_its_quadratic():
    rng = np.random.default_rng(9)
    root = rng.standard_normal((4, 4))
    omega = root @ root.T + 0.1 * np.eye(4)
    structure, W = FixedRelationship(omega), rng.standard_normal((3, 4))
    V = structure.prox(W, 0.7)
    np.testing.assert_allclose(V - W + 0.7 * V @ np.linalg.inv(omega), 0.0, atol=1e-10)
    assert structure.value(W) == pytest.approx(0.5 * np.trace(W @ np.linalg.inv(omega) @ W.T))
