"""Clipping keeps every row within its bound, exactly, whatever comes in."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from tests.support.privacy_reference import exact_square_norm

from taskveil.privacy.bounds import clip_factored_rows, clip_rows
from taskveil.privacy.contributions import DiagonalSum, OuterSum, RowSum, TaskGram, VectorSum
from taskveil.privacy.units import Neighbours

anything = st.floats(allow_nan=True, allow_infinity=True, width=64)
finite = st.floats(min_value=-1e3, max_value=1e3, allow_subnormal=False)
norms = st.floats(min_value=1e-6, max_value=1e6)


def rows(elements):
    shapes = st.tuples(st.integers(0, 5), st.integers(1, 7))
    return shapes.flatmap(lambda shape: hnp.arrays(np.float64, shape, elements=elements))


def within_bound(clipped: np.ndarray, norm: float) -> bool:
    """The check of this file: no rounding, so it also sees a bound missed by one unit in the last place."""
    from fractions import Fraction

    return bool(np.isfinite(clipped).all()) and all(exact_square_norm(row) <= Fraction(norm) ** 2 for row in clipped)


@settings(max_examples=120, deadline=None)
@given(rows(anything), norms)
def test_every_clipped_row_is_finite_and_within_its_bound_exactly(values, norm):
    assert within_bound(clip_rows(values, norm), norm)


@settings(max_examples=50, deadline=None)
@given(rows(finite), norms)
def test_rows_clearly_inside_the_bound_are_returned_bit_for_bit(values, norm):
    inside = np.linalg.norm(values, axis=1) < norm * (1 - 1e-9)
    assert np.array_equal(clip_rows(values, norm)[inside], values[inside])


@settings(max_examples=50, deadline=None)
@given(rows(finite), norms)
def test_a_clipped_row_keeps_its_direction_and_reaches_the_bound(values, norm):
    length = np.linalg.norm(values, axis=1)
    outside = length > norm
    expected = values[outside] * (norm / length[outside])[:, None]
    np.testing.assert_allclose(clip_rows(values, norm)[outside], expected, rtol=1e-9, atol=1e-9 * norm)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_row_with_a_value_that_is_not_finite_becomes_zero_and_others_stay(bad):
    values = np.array([[0.3, bad], [0.3, 0.4]])
    assert np.array_equal(clip_rows(values, 1.0), [[0.0, 0.0], [0.3, 0.4]])


def test_huge_and_tiny_rows_are_clipped_without_overflow_or_loss():
    values = np.array([[1e308, 1e308], [5e-324, 0.0], [0.0, 0.0]])
    clipped = clip_rows(values, 2.0)
    np.testing.assert_allclose(clipped[0], [np.sqrt(2), np.sqrt(2)], rtol=1e-11)
    assert np.array_equal(clipped[1:], values[1:])


@pytest.mark.parametrize("columns", [3, 100, 2000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_bound_holds_exactly_for_long_rows_in_both_precisions(columns, dtype):
    rng = np.random.default_rng(columns)
    values = (rng.standard_normal((10, columns)) * 10).astype(dtype)
    assert within_bound(clip_rows(values, 1.0), 1.0)


def test_the_check_rejects_clipping_without_the_safety_margin():
    """Twin: the textbook formula misses the bound by a rounding error in some rows."""
    values = np.random.default_rng(0).standard_normal((2000, 5)) * 10
    naive = values / np.maximum(1, np.linalg.norm(values, axis=1, keepdims=True))
    assert not within_bound(naive, 1.0)


def test_the_check_rejects_a_clip_that_lets_nan_pass():
    values = np.array([[np.nan, 1.0]])
    naive = values / np.maximum(1, np.linalg.norm(values, axis=1, keepdims=True))
    assert not within_bound(naive, 1.0)


@settings(max_examples=120, deadline=None)
@given(st.data(), norms)
def test_factored_rows_are_within_the_bound_without_being_formed(data, norm):
    n = data.draw(st.integers(1, 4))
    X = data.draw(hnp.arrays(np.float64, (n, 3), elements=anything))
    residuals = data.draw(hnp.arrays(np.float64, (n, 2), elements=anything))
    clipped = clip_factored_rows(X, residuals, norm)
    safe = np.where(np.isfinite(X).all(axis=1, keepdims=True), X, 0.0)
    assert np.isfinite(clipped).all()
    for x, r in zip(safe, clipped, strict=True):
        assert exact_square_norm(x) * exact_square_norm(r) <= exact_square_norm(np.array([norm]))


def test_factored_clipping_equals_clipping_the_formed_gradients():
    rng = np.random.default_rng(1)
    X, residuals = rng.standard_normal((50, 4)), rng.standard_normal((50, 2))
    formed = np.einsum("nr,nd->nrd", residuals, X).reshape(50, -1)
    product = np.einsum("nr,nd->nrd", clip_factored_rows(X, residuals, 1.3), X).reshape(50, -1)
    np.testing.assert_allclose(product, clip_rows(formed, 1.3), rtol=1e-10, atol=1e-12)


def moves(contribution, neighbours, rng, trials=200):
    """Largest observed change of the total (Frobenius, nuclear or l1) over random and extreme neighbours."""
    k = getattr(contribution, "n_tasks", 4)
    largest = {"l2": 0.0, "l1": 0.0, "nuclear": 0.0}
    for trial in range(trials):
        raw = rng.standard_normal((k, *contribution.message_shape)) * rng.choice([0.1, 1.0, 100.0])
        if trial % 3 == 0:  # all messages alike at full length: the worst case of a Gram matrix
            raw[:] = raw[0] * 100
        other = raw.copy()
        other[0] = (
            0.0
            if neighbours is Neighbours.ADD_REMOVE
            else -raw[0]
            if trial % 2
            else rng.standard_normal(contribution.message_shape) * 100
        )
        change = contribution.total(contribution.clip(raw)) - contribution.total(contribution.clip(other))
        largest["l2"] = max(largest["l2"], float(np.linalg.norm(change)))
        largest["l1"] = max(largest["l1"], float(np.abs(change).sum()))
        if change.ndim == 2:
            largest["nuclear"] = max(largest["nuclear"], float(np.linalg.norm(change, "nuc")))
    return largest


CASES = [VectorSum((5,), 1.7), OuterSum(4, 1.7, 2), DiagonalSum(4, 1.7, 2), TaskGram(4, 3, 1.7), OuterSum(1, 0.3)]


def respects(contribution, neighbours, sensitivity, rng) -> bool:
    seen = moves(contribution, neighbours, rng)
    return all(
        getattr(sensitivity, norm) is None or seen[norm] <= getattr(sensitivity, norm) * (1 + 1e-12)
        for norm in ("l2", "l1", "nuclear")
    )


@pytest.mark.parametrize("neighbours", list(Neighbours))
@pytest.mark.parametrize("contribution", CASES, ids=lambda c: f"{c.kind}")
def test_no_neighbour_moves_the_total_further_than_the_sensitivity(contribution, neighbours):
    rng = np.random.default_rng(3)
    assert respects(contribution, neighbours, contribution.sensitivity(neighbours), rng)


@pytest.mark.parametrize("contribution", CASES, ids=lambda c: f"{c.kind}")
def test_the_check_rejects_a_sensitivity_that_is_a_third_too_small(contribution):
    import dataclasses

    right = contribution.sensitivity(Neighbours.REPLACE_ONE)
    small = dataclasses.replace(right, l2=right.l2 * 0.66)
    assert not respects(contribution, Neighbours.REPLACE_ONE, small, np.random.default_rng(3))


def test_a_task_gram_without_the_growth_in_tasks_is_rejected():
    """docs/theory/model-protected.md#gram: the papers use K^2 for W'W."""
    gram = TaskGram(20, 3, 1.0)
    from taskveil.privacy.contributions import Sensitivity

    assert not respects(gram, Neighbours.ADD_REMOVE, Sensitivity(l2=1.0, nuclear=1.0), np.random.default_rng(0))


def test_row_sums_are_clipped_row_by_row_and_refuse_raw_sums():
    rows_in = np.array([[3.0, 4.0], [0.3, 0.4], [np.nan, 1.0]])
    contribution = RowSum((2,), 1.0)
    bounded = contribution.sum_rows(rows_in, [0, 2, 3])
    np.testing.assert_allclose(bounded.value, [[0.9, 1.2], [0.0, 0.0]], rtol=1e-11)
    with pytest.raises(ValueError, match="after the fact"):
        contribution.clip(np.ones((1, 2)))


ODD = (0.0, -0.0, 5e-324, 1e-310, 1e-45, 1e-30, 1.0, 1e30, 1e38, 1e300, np.inf, np.nan)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.filterwarnings("error")
def test_nothing_that_comes_in_makes_clipping_warn(dtype):
    """Zero rows, tiny rows, rows that are not finite: a warning in the log would tell that a task sent one."""
    with np.errstate(all="ignore"):
        X = np.array([[a, b, 0.0] for a in ODD for b in ODD], dtype=dtype)
        residuals = np.array([[b] for _ in ODD for b in ODD], dtype=dtype)
    for norm in (1e-100, 1.0, 1e100):
        assert np.isfinite(clip_rows(X, norm)).all()
        assert np.isfinite(clip_factored_rows(X, residuals, norm)).all()
