import numpy as np
import pytest
from tests.support.relationship_solver import FixedRelationship

from taskveil.structures import STRUCTURES


def test_the_best_covariance_gives_half_the_squared_trace_norm():
    """Zhang & Yeung 2010: Omega = (W'W)^(1/2) / tr is the minimiser over trace-one covariances."""
    structure, rng = STRUCTURES.get("relationship"), np.random.default_rng(0)
    W = rng.standard_normal((7, 4))
    omega = structure.covariance(W.T @ W)
    assert np.trace(omega) == pytest.approx(1.0)
    assert FixedRelationship(omega).value(W) == pytest.approx(structure.value(W))
    for _ in range(50):
        root = rng.standard_normal((4, 4))
        other = root @ root.T
        assert FixedRelationship(other / np.trace(other)).value(W) >= structure.value(W) - 1e-9


def test_a_gram_matrix_without_positive_part_means_unrelated_tasks():
    structure = STRUCTURES.get("relationship")
    np.testing.assert_allclose(structure.covariance(-np.eye(3)), np.eye(3) / 3)


def test_a_ridge_keeps_the_covariance_invertible():
    structure = STRUCTURES.get("relationship")
    w = np.ones((1, 3))
    assert np.linalg.eigvalsh(structure.covariance(w.T @ w, ridge=0.03)).min() == pytest.approx(0.01)
