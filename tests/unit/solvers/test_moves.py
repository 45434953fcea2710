"""Element-wise moves in parts are the same moves, to the last bit, whatever the threads."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.solvers.moves import extrapolated, stepped, subtract_products
from taskveil.threads import SMALL


def models(m):
    rng = np.random.default_rng(m)
    return rng.standard_normal((m, 2, 7)), rng.standard_normal((m, 2, 7)), rng.standard_normal(m), rng.standard_normal((m, 7))


@pytest.mark.parametrize("m", [0, 1, 5, SMALL // 14 + 3])
@pytest.mark.parametrize("threads", ["1", "3"])
def test_each_is_its_formula(m, threads, monkeypatch):
    monkeypatch.setenv("TASKVEIL_THREADS", threads)
    A, B, steps, means = models(m)
    np.testing.assert_array_equal(extrapolated(A, B, 0.3), (A - B) * 0.3 + A)
    G, slopes = B.copy(), A[:, :, 0].copy()
    subtract_products(G, slopes, means)
    np.testing.assert_array_equal(G, B - slopes[:, :, None] * means[:, None, :])
    moved = stepped(A, G, steps)
    np.testing.assert_array_equal(moved, A - (B - slopes[:, :, None] * means[:, None, :]) * steps[:, None, None])
    assert moved is G, "in the memory of the gradient"
