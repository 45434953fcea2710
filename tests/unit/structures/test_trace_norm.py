import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from taskveil.structures import STRUCTURES
from taskveil.structures.base import shrinkage
from taskveil.structures.trace_norm import TraceNorm, _count_above
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


def by_svd(W, step):
    U, s, V = np.linalg.svd(W, full_matrices=False)
    return (U * np.maximum(s - step, 0.0)) @ V


def with_singular_values(s, columns=200):
    rng = np.random.default_rng(4)
    U = np.linalg.qr(rng.standard_normal((len(s), len(s))))[0]
    V = np.linalg.qr(rng.standard_normal((columns, len(s))))[0]
    return (U * s) @ V.T


@pytest.mark.parametrize("survive", [0, 1, 2, 4, 5, 39, 40])
def test_few_or_many_directions_survive_and_the_prox_is_that_of_the_svd(survive):
    s = np.concatenate([np.linspace(9.0, 3.0, survive), np.linspace(0.9, 0.0, 40 - survive)])
    W = with_singular_values(s)
    np.testing.assert_allclose(TraceNorm().prox(W, 1.0), by_svd(W, 1.0), atol=1e-10)
    np.testing.assert_allclose(TraceNorm().prox(W.T, 1.0), by_svd(W, 1.0).T, atol=1e-10)


def test_equal_singular_values_and_one_exactly_at_the_step_are_no_special_case():
    W = with_singular_values(np.array([5.0, 5.0, 1.0, *[0.5] * 37]))
    np.testing.assert_allclose(TraceNorm().prox(W, 1.0), by_svd(W, 1.0), atol=1e-10)
    assert not TraceNorm().prox(np.zeros((40, 200)), 1.0).any()


def test_only_the_directions_that_survive_are_looked_for(monkeypatch):
    def not_all(G):
        raise AssertionError("all directions were computed")

    monkeypatch.setattr(np.linalg, "eigh", not_all)
    TraceNorm().prox(with_singular_values(np.array([7.0, 6.0, *[0.5] * 38])), 1.0)
    with pytest.raises(AssertionError, match="all directions"):
        TraceNorm().prox(with_singular_values(np.linspace(7.0, 0.5, 40)), 1.0)


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 30.0))
@settings(max_examples=60, deadline=None)
def test_counting_by_inertia_counts_eigenvalues(seed, bound):
    G = np.random.default_rng(seed).standard_normal((12, 30))
    G = G @ G.T
    values = np.linalg.eigvalsh(G)
    assume(np.abs(values - bound).min() > 1e-9)
    assert _count_above(G, bound) == (values > bound).sum()
