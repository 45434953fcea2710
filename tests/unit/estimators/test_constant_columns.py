"""The note on constant columns counts what a look at every task would, and reads all rows only where it must."""

import numpy as np
import pytest

from taskveil.estimators.reading import _constant_columns
from taskveil.tasks.block import TaskBlock


@pytest.mark.parametrize("values", [2, 50])
def test_the_count_is_that_of_a_look_at_every_task(values):
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 7, 3000)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    X = rng.integers(0, values, (offsets[-1], 5)).astype(float)
    X[rng.random(X.shape) < 0.01] = np.nan
    block = TaskBlock(X, np.zeros((len(X), 1)), offsets, None, "regression")
    tasks = [X[a:b] for a, b in zip(offsets, offsets[1:]) if b - a > 1]
    for columns in ([0, 1, 2, 3, 4], [1, 3], []):
        assert _constant_columns(block, columns) == sum(int((rows == rows[0]).all(axis=0)[columns].sum()) for rows in tasks)


def test_a_table_without_rows_has_none():
    assert _constant_columns(TaskBlock(np.zeros((0, 2)), np.zeros((0, 1)), np.zeros(4, int), None, "regression"), [0, 1]) == 0
