import numpy as np
import pytest

from taskveil.structures import STRUCTURES
from taskveil.structures.base import shrinkage
from taskveil.threads import SMALL


def test_the_prox_soft_thresholds_singular_values():
    rng = np.random.default_rng(0)
    W = rng.standard_normal((5, 8))
    U, s, V = np.linalg.svd(W, full_matrices=False)
    expected = (U * np.maximum(s - 1.3, 0.0)) @ V
    np.testing.assert_allclose(STRUCTURES.get("trace_norm").prox(W, 1.3), expected, atol=1e-12)


def test_a_step_far_below_the_largest_singular_value_still_gives_the_prox():
    """The Gram matrix would lose singular values below 1e-8 of the largest; the SVD takes over."""
    rng = np.random.default_rng(1)
    U, V = np.linalg.qr(rng.standard_normal((6, 3)))[0], np.linalg.qr(rng.standard_normal((9, 3)))[0]
    s = np.array([1e6, 1.0, 1e-4])
    W = (U * s) @ V.T
    expected = (U * (s - 2e-5)) @ V.T
    error = np.abs(U.T @ (STRUCTURES.get("trace_norm").prox(W, 2e-5) - expected) @ V)
    assert error[2, 2] < 1e-9


def test_without_threshold_nothing_shrinks_even_where_the_covariance_is_zero():
    np.testing.assert_array_equal(shrinkage(np.array([0.0, -3.0, 2.0]), 0.0), np.ones(3))


@pytest.mark.parametrize("square", [0.0, -5.0, 1e-30])
def test_what_is_not_positive_after_the_lift_is_removed(square):
    assert shrinkage(np.array([square]), 0.1)[0] == 0.0


@pytest.mark.parametrize("kept", [3, 35])
def test_many_tasks_are_shrunk_in_parts_as_by_the_svd_whatever_the_threads(kept, monkeypatch):
    rng, m = np.random.default_rng(kept), SMALL // 40 + 7
    W = rng.standard_normal((40, kept)) @ rng.standard_normal((kept, m)) + rng.standard_normal((40, m))
    U, s, V = np.linalg.svd(W, full_matrices=False)
    step = float(s[kept] * 1.01)
    found = STRUCTURES.get("trace_norm").prox(W, step)
    np.testing.assert_allclose(found, (U * np.maximum(s - step, 0)) @ V, atol=1e-9 * s[0])
    monkeypatch.setenv("TASKVEIL_THREADS", "1")
    np.testing.assert_array_equal(found, STRUCTURES.get("trace_norm").prox(W, step))
