"""Which rows a client uses: every row in turn, weights that sum to one, nothing depends on other clients."""

from __future__ import annotations

import numpy as np

from taskveil.engine.batches import all_rows, every_so_many, row_batches, usable_rows

OFFSETS = np.array([0, 3, 3, 40, 41])  # three rows, none, thirty-seven, one


def test_weights_sum_to_one_in_every_step_of_a_client_with_rows():
    rows = usable_rows(OFFSETS, None)
    index, weights = row_batches(rows, np.arange(4), steps=5, batch_size=8, seed=1, round_number=2)
    assert index.shape == weights.shape == (4, 5, 8)
    np.testing.assert_allclose(weights.sum(axis=2)[[0, 2, 3]], 1.0, rtol=1e-6)
    assert (weights[1] == 0).all(), "a client without rows has nothing to weigh"


def test_a_client_uses_its_own_rows_only_and_each_once_before_any_twice():
    rows = usable_rows(OFFSETS, None)
    index, weights = row_batches(rows, np.arange(4), steps=5, batch_size=8, seed=1, round_number=2)
    for k in (0, 2, 3):
        used = index[k][weights[k] > 0]
        assert ((used >= OFFSETS[k]) & (used < OFFSETS[k + 1])).all()
    first = index[2].ravel()[:37]
    assert np.unique(first).size == 37


def test_a_clients_order_does_not_depend_on_the_others():
    rows = usable_rows(OFFSETS, None)
    together, _ = row_batches(rows, np.arange(4), 3, 4, seed=5, round_number=1)
    alone, _ = row_batches(usable_rows(np.array([0, 37]), None), np.array([0]), 3, 4, seed=5, round_number=1)
    np.testing.assert_array_equal(together[2] - 3, alone[0])


def test_rounds_use_different_orders():
    rows = usable_rows(np.array([0, 50]), None)
    one, two = (row_batches(rows, np.array([0]), 2, 8, seed=0, round_number=t)[0] for t in (1, 2))
    assert (one != two).any()


def test_rows_of_weight_zero_are_left_out():
    weights = np.array([1.0, 0.0, 2.0, 0.0, 1.0])
    rows = usable_rows(np.array([0, 2, 5]), weights)
    index, mass = all_rows(rows, np.array([0, 1]), width=3)
    assert [list(index[k][mass[k] > 0]) for k in range(2)] == [[0], [2, 4]]
    np.testing.assert_allclose(mass.sum(axis=1), 1.0)


def test_clients_that_take_turns_use_every_row_once_before_any_twice():
    """37 rows fill 64 places: eight at a time they come round in eight steps."""
    index, weights = every_so_many(usable_rows(OFFSETS, None), np.arange(4), steps=8, width=8)
    assert index.shape == weights.shape == (4, 8, 8)
    np.testing.assert_array_equal(np.sort(index[2][weights[2] > 0]), np.arange(3, 40))
    np.testing.assert_allclose(weights.sum(axis=2)[[0, 2, 3]], 1.0, rtol=1e-6)
    assert (weights[1] == 0).all() and (np.count_nonzero(weights[2], axis=1) >= 4).all()
    for step in range(8):
        assert list(index[0, step][weights[0, step] > 0]) == [0, 1, 2], "a small client brings all it has to every step"
