"""Contributions: sums, isometries, serialisation, and that nothing but clipping makes a Bounded value."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.errors import DataError, OptionError
from taskveil.privacy.bounds import Bounded
from taskveil.privacy.contribution import seal_clipped_sum
from taskveil.privacy.contributions import DiagonalSum, OuterSum, RowSum, TaskGram, VectorSum, contribution_from_dict

CASES = [VectorSum((2, 3), 1.0), OuterSum(4, 2.0, 3), DiagonalSum(4, 2.0, 3), TaskGram(5, 3, 1.0, 2)]
EVERY = [*CASES, RowSum((1, 3), 0.5)]


def messages(contribution, k=5, seed=0):
    return np.random.default_rng(seed).standard_normal((k, *contribution.message_shape))


@pytest.mark.parametrize("contribution", EVERY, ids=lambda c: c.kind)
def test_every_contribution_survives_a_round_trip_through_plain_data(contribution):
    assert contribution_from_dict(contribution.to_dict()) == contribution


@pytest.mark.parametrize("contribution", CASES, ids=lambda c: c.kind)
def test_flattening_is_an_isometry_and_invertible(contribution):
    total = contribution.total(contribution.clip(messages(contribution)))
    vector = contribution.to_vector(total)
    assert vector.shape == (contribution.vector_size,)
    assert np.linalg.norm(vector) == pytest.approx(np.linalg.norm(total), rel=1e-12)
    np.testing.assert_allclose(contribution.from_vector(vector), total, rtol=1e-12)


@pytest.mark.parametrize("contribution", CASES[:3], ids=lambda c: c.kind)
def test_single_contributions_add_up_to_the_total(contribution):
    bounded = contribution.clip(messages(contribution))
    np.testing.assert_allclose(contribution.each(bounded).sum(axis=0), contribution.total(bounded), rtol=1e-12)


@pytest.mark.parametrize("contribution", CASES[:3], ids=lambda c: c.kind)
def test_an_empty_cohort_sums_to_zero(contribution):
    empty = contribution.clip(np.zeros((0, *contribution.message_shape)))
    assert np.array_equal(contribution.total(empty), np.zeros(contribution.total_shape))


def test_outer_sum_is_the_sum_of_outer_products_over_outputs_and_tasks():
    contribution = OuterSum(3, 100.0, 2)
    raw = messages(contribution)
    expected = sum(np.outer(w, w) for task in raw for w in task)
    np.testing.assert_allclose(contribution.total(contribution.clip(raw)), expected, rtol=1e-12)


def test_the_diagonal_sum_is_the_diagonal_of_the_outer_sum():
    outer, diagonal = OuterSum(3, 1.0, 2), DiagonalSum(3, 1.0, 2)
    raw = messages(outer)
    np.testing.assert_allclose(diagonal.total(diagonal.clip(raw)), np.diag(outer.total(outer.clip(raw))), rtol=1e-12)


def test_a_task_gram_needs_all_tasks_and_cannot_be_split():
    gram = TaskGram(5, 3, 1.0)
    with pytest.raises(DataError, match="all 5 tasks"):
        gram.total(gram.clip(messages(gram, k=4)))
    with pytest.raises(OptionError, match="curator"):
        gram.each(gram.clip(messages(gram)))


@pytest.mark.parametrize(
    ("contribution", "neighbours", "expected"),
    [
        (VectorSum((4,), 3.0), "add-remove", (3.0, 6.0, None)),
        (VectorSum((4,), 3.0), "replace-one", (6.0, 12.0, None)),
        (OuterSum(5, 2.0), "add-remove", (4.0, None, 4.0)),
        (OuterSum(5, 2.0), "replace-one", (4 * 2**0.5, None, 8.0)),
        (DiagonalSum(5, 2.0), "add-remove", (4.0, 4.0, None)),
        (DiagonalSum(5, 2.0), "replace-one", (4 * 2**0.5, 8.0, None)),
        (TaskGram(10, 5, 2.0), "add-remove", (4 * 19**0.5, None, 4 * 37**0.5)),
        (TaskGram(10, 5, 2.0), "replace-one", (4 * 73**0.5, None, 4 * 4 * 3.0)),
        (TaskGram(1, 5, 2.0), "replace-one", (4.0, None, 4.0)),
        (RowSum((3,), 0.5), "replace-one", (1.0, 3**0.5, None)),
    ],
)
def test_sensitivities_are_those_of_theory_section_1(contribution, neighbours, expected):
    s = contribution.sensitivity(neighbours)
    assert (s.l2, s.l1, s.nuclear) == tuple(None if e is None else pytest.approx(e) for e in expected)


def test_a_bounded_value_cannot_be_constructed_by_hand():
    with pytest.raises(TypeError, match="made only by clipping"):
        Bounded(np.zeros((1, 2)), VectorSum((2,), 1.0), False, object())


def test_a_bounded_value_cannot_be_changed_afterwards():
    bounded = VectorSum((2,), 1.0).clip([[0.1, 0.2]])
    with pytest.raises(ValueError, match="read-only"):
        bounded.value[0, 0] = 7.0


def test_a_bounded_value_does_not_follow_later_changes_of_the_input():
    raw = np.array([[0.1, 0.2]])
    bounded = VectorSum((2,), 1.0).clip(raw)
    raw[0, 0] = 7.0
    assert bounded.value[0, 0] == 0.1


def test_printing_a_bounded_value_shows_no_private_number():
    assert "0.123" not in repr(VectorSum((1,), 1.0).clip([[0.123]]))


def test_a_value_clipped_for_another_bound_is_refused():
    bounded = VectorSum((2,), 5.0).clip(np.ones((1, 2)))
    with pytest.raises(OptionError, match="clipped for"):
        VectorSum((2,), 1.0).total(bounded)


@pytest.mark.parametrize("bound", [0.0, -1.0, np.nan, np.inf])
def test_a_bound_must_be_positive_and_finite(bound):
    with pytest.raises(OptionError, match="positive and finite"):
        VectorSum((2,), bound)


def test_messages_of_the_wrong_shape_are_refused_without_showing_them():
    with pytest.raises(DataError, match=r"expects messages of shape \(tasks, 1, 4\)"):
        OuterSum(4, 1.0).clip(np.ones((3, 4)))


def test_a_sealed_sum_must_be_one_that_clipped_units_can_add_up_to():
    contribution = VectorSum((2,), 1.0)
    assert seal_clipped_sum(contribution, np.array([1.5, 0.0]), 2).summed
    with pytest.raises(DataError, match="exceeds"):
        seal_clipped_sum(contribution, np.array([2.5, 0.0]), 2)
    with pytest.raises(DataError, match="not finite"):
        seal_clipped_sum(contribution, np.array([np.nan, 0.0]), 2)
