"""The proximal maps that follow one changing column agree with maps computed from scratch."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.solvers.incremental_trace_prox import IncrementalGroupProx, IncrementalTraceProx
from taskveil.structures import STRUCTURES

PAIRS = [(IncrementalTraceProx, "trace_norm"), (IncrementalGroupProx, "group_sparse")]


def by_svd(Z: np.ndarray, mu: float) -> np.ndarray:
    U, s, V = np.linalg.svd(Z, full_matrices=False)
    return (U * np.maximum(s - mu, 0.0)) @ V


@pytest.mark.parametrize("shape", [(30, 6), (5, 12), (8, 8)])
def test_the_trace_prox_is_soft_thresholding_of_singular_values_after_any_changes(shape):
    rng = np.random.default_rng(0)
    prox = IncrementalTraceProx(rng.standard_normal(shape), mu=1.5, refresh_every=40)
    for _ in range(100):
        row = rng.integers(shape[0])
        prox.replace([row], rng.standard_normal((1, shape[1])))
        np.testing.assert_allclose(prox.rows([row])[0], by_svd(prox.Z, 1.5)[row], atol=1e-10)
    np.testing.assert_allclose(prox.all(), by_svd(prox.Z, 1.5), atol=1e-10)


@pytest.mark.parametrize(("kind", "name"), PAIRS)
def test_values_and_rows_agree_with_the_table_of_structures(kind, name):
    rng = np.random.default_rng(1)
    structure = STRUCTURES.get(name)
    prox = kind(np.zeros((9, 5)), mu=0.7)
    for row in rng.integers(0, 9, 50):
        prox.replace([row], rng.standard_normal((1, 5)))
    expected = structure.prox(prox.Z.T, 0.7).T
    np.testing.assert_allclose(prox.all(), expected, atol=1e-10)


def test_several_rows_can_change_at_once():
    rng = np.random.default_rng(2)
    prox = IncrementalTraceProx(rng.standard_normal((10, 4)), mu=0.5)
    prox.replace([2, 5, 7], rng.standard_normal((3, 4)))
    np.testing.assert_allclose(prox.all(), by_svd(prox.Z, 0.5), atol=1e-10)


def test_rounding_does_not_pile_up_over_many_changes():
    """20,000 rank-two updates of columns of very different size, refreshed every 2000."""
    rng = np.random.default_rng(3)
    prox = IncrementalTraceProx(rng.standard_normal((20, 8)), mu=0.1)
    for _ in range(20_000):
        prox.replace([rng.integers(20)], 10.0 ** rng.integers(-3, 3) * rng.standard_normal((1, 8)))
    np.testing.assert_allclose(prox.all(), by_svd(prox.Z, 0.1), atol=1e-6)


def test_without_refreshing_the_check_above_would_notice():
    prox = IncrementalTraceProx(np.eye(4), mu=0.1)
    prox._gram += 1e-3  # a drift of that size
    prox._basis = None
    assert np.abs(prox.all() - by_svd(prox.Z, 0.1)).max() > 1e-6


def test_a_threshold_above_everything_gives_zero():
    prox = IncrementalTraceProx(np.ones((3, 2)), mu=100.0)
    assert not prox.all().any()
