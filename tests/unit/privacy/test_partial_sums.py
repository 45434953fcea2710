"""Totals on the integer grid: the same bits however tasks are grouped and ordered; a float sum would not be."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from taskveil.privacy.bounds import clip_rows
from taskveil.privacy.contribution import Contribution, seal_partials
from taskveil.privacy.contributions import DiagonalSum, OuterSum, TaskStack, VectorSum
from taskveil.privacy.moments import MomentSum
from taskveil.privacy.partial_sums import add_up, add_up_squares, added_up, added_up_squares, in_digits

TASKS = 1000
SUMS = [
    VectorSum((2, 5), 0.7), VectorSum((5,), 1e12), OuterSum(5, 1.0, 2), OuterSum(5, 1e12), DiagonalSum(5, 3.0),
    MomentSum(5, 0.3, 0.2, 0.6), VectorSum((5,), Contribution.unbounded), OuterSum(5, Contribution.unbounded),
]  # fmt: skip


def clipped(contribution, seed=0):
    raw = np.random.default_rng(seed).standard_normal((TASKS, *contribution.message_shape))
    return contribution.clip(raw / np.sqrt(raw[0].size)).value


def total(contribution, messages, cuts):
    partials = [contribution.partial(contribution.clip(part)) for part in np.split(messages, cuts)]
    return contribution.total(seal_partials(contribution, partials))


@pytest.mark.parametrize("contribution", SUMS, ids=lambda c: f"{c.kind}-{c.bound:g}")
def test_a_total_is_the_same_bits_in_any_order_and_any_blocks(contribution):
    messages, rng = clipped(contribution), np.random.default_rng(1)
    whole = contribution.total(contribution.clip(messages))
    for cuts in ([1], [10, 11, 500], sorted(rng.integers(0, TASKS, 20))):
        assert np.array_equal(total(contribution, messages, cuts), whole)
        assert np.array_equal(total(contribution, rng.permutation(messages), cuts), whole)
    np.testing.assert_allclose(whole, contribution.each(contribution.clip(messages)).sum(axis=0), rtol=0, atol=1e-10)


def test_a_float_sum_depends_on_the_order():
    """The twin: what the grid is there for."""
    messages, rng = clipped(SUMS[0]), np.random.default_rng(1)
    assert any(not np.array_equal(rng.permutation(messages).sum(axis=0), messages.sum(axis=0)) for _ in range(20))


def test_a_total_is_the_exact_sum_of_its_messages_to_the_last_digit():
    """Fractions are the reference; 2^-56 of a message is what cutting may take."""
    messages = clip_rows(np.random.default_rng(2).standard_normal((200, 3)), 1.0)
    exact = [sum(Fraction(float(v)) for v in column) for column in messages.T]
    found = added_up(add_up(messages, 1.0), 1.0)
    cut, rounded = 200 * Fraction(1, 2**56), Fraction(1, 2**53)
    assert all(abs(Fraction(float(f)) - e) <= cut + abs(e) * rounded for f, e in zip(found, exact))


def test_no_message_becomes_longer_on_the_grid():
    rows = clip_rows(np.random.default_rng(3).standard_normal((500, 4)) * 10, 1.0)
    on_grid = np.stack([added_up(add_up(row[None], 1.0), 1.0) for row in rows])
    assert (np.abs(on_grid) <= np.abs(rows)).all()


def test_stacks_are_joined_in_order():
    stack, raw = TaskStack(TASKS, (2,), 1.0), np.random.default_rng(4).standard_normal((TASKS, 2))
    messages = stack.clip(raw).value
    assert np.array_equal(total(stack, raw, [3, 400]), messages)
    assert not np.array_equal(total(stack, raw[::-1], [3, 400]), messages)


@pytest.mark.parametrize("bound", [0.7, 1.0, 3.0, 1e12])
def test_whole_numbers_of_a_coarser_step_have_the_digits_of_their_value(bound):
    step = 2.0 ** (np.ceil(np.log2(bound)) - 20)
    whole = np.random.default_rng(4).integers(-(2**31), 2**31, 50)
    np.testing.assert_array_equal(in_digits(whole.astype(np.int32), step, bound), add_up(whole[None] * step, bound))


def test_messages_are_added_onto_earlier_ones_as_if_they_came_at_once(monkeypatch):
    monkeypatch.setattr("taskveil.privacy.partial_sums.NUMBERS", 7)  # columns in pieces
    messages = np.random.default_rng(0).standard_normal((9, 2, 10))
    whole = add_up(messages, 1e12)
    total = add_up(messages[:4], 1e12)
    add_up(messages[4:], 1e12, onto=total)
    np.testing.assert_array_equal(total, whole)
    np.testing.assert_allclose(added_up(total, 1e12), messages.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("size", [1e-9, 0.99, 1.01, 1e6])
def test_without_a_bound_ordinary_numbers_are_written_in_few_digits_and_lose_nothing(size):
    """Each digit more costs a matrix product with all others: models below one need three of twenty bits."""
    rows = np.random.default_rng(4).uniform(-size, size, (50, 3))
    squares = add_up_squares(rows, Contribution.unbounded)
    assert (squares != 0).any(axis=(1, 2)).sum() <= (5 if size < 1 else 7)  # places of products: two for each digit, less one
    exact = [[float(sum(Fraction(a) * Fraction(b) for a, b in zip(x, z))) for z in rows.T.tolist()] for x in rows.T.tolist()]
    np.testing.assert_allclose(added_up_squares(squares, Contribution.unbounded), exact, rtol=1e-15, atol=1e-14 * size)
