"""The clipping function inside jit gives what it gives outside, and keeps its promise there."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.privacy_reference import exact_square_norm

from taskveil.errors import DataError
from taskveil.privacy.bounds import clip_factored_rows, clip_rows

ROWS = np.array([[3.0, 4.0], [0.3, 0.4], [np.nan, 1.0], [0.0, 0.0], [1e30, 1e30], [np.inf, 0.0]])


def test_clipping_under_jit_equals_clipping_in_numpy():
    jax = pytest.importorskip("jax")
    jitted = jax.jit(lambda v: clip_rows(v, 1.0, xp=jax.numpy))
    ours = clip_rows(ROWS.astype(np.float32), 1.0)
    np.testing.assert_allclose(np.asarray(jitted(ROWS.astype(np.float32))), ours, rtol=1e-6)


@pytest.mark.parametrize("columns", [5, 3000])
def test_the_bound_holds_exactly_under_jit_in_single_precision(columns):
    jax = pytest.importorskip("jax")
    values = (np.random.default_rng(0).standard_normal((30, columns)) * 7).astype(np.float32)
    clipped = np.asarray(jax.jit(lambda v: clip_rows(v, 1.0, xp=jax.numpy))(values))
    assert all(exact_square_norm(row) <= 1 for row in clipped)


def test_factored_clipping_works_under_jit():
    jax = pytest.importorskip("jax")
    rng = np.random.default_rng(0)
    X, r = rng.standard_normal((20, 4)).astype(np.float32), rng.standard_normal((20, 1)).astype(np.float32)
    jitted = jax.jit(lambda X, r: clip_factored_rows(X, r, 0.5, xp=jax.numpy))
    np.testing.assert_allclose(np.asarray(jitted(X, r)), clip_factored_rows(X, r, 0.5), rtol=1e-5)


def test_lists_and_integers_are_taken_and_other_shapes_refused():
    assert np.array_equal(clip_rows([[3, 4]], 10.0), [[3.0, 4.0]])
    with pytest.raises(DataError, match="2-d"):
        clip_rows(np.ones(3), 1.0)


def test_only_rows_that_are_clearly_inside_take_the_short_way(monkeypatch):
    """One row too long, NaN or overflowing sends all of them the long way; the twin believes every row and lets it through."""
    from taskveil.privacy import bounds

    inside = np.full((3, 4), 0.4)
    np.testing.assert_array_equal(bounds.clip_rows(inside, 1.0), inside)
    for bad in (0.6, 0.583524, np.nan, np.inf, 1e200):  # 0.583524: a row of length 1.0005
        rows = inside.copy()
        rows[1, 2:] = bad
        assert np.linalg.norm(bounds.clip_rows(rows, 1.0), axis=1).max() <= 1.0
        with monkeypatch.context() as broken:
            broken.setattr(bounds, "_clearly_inside", lambda rows, target: True)
            assert not np.linalg.norm(bounds.clip_rows(rows, 1.0), axis=1).max() <= 1.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_pieces_of_many_rows_are_clipped_as_the_whole(dtype, monkeypatch):
    """Rows of all lengths, one of them not finite: which others stand in a piece changes no bit of a row."""
    rows = np.random.default_rng(0).standard_normal((50, 3)).astype(dtype) * np.geomspace(1e-3, 1e3, 50)[:, None].astype(dtype)
    rows[20, 1], rows[33, 2] = np.nan, np.inf
    whole = clip_rows(rows, 1.0)
    monkeypatch.setattr("taskveil.privacy.bounds.PIECE", 10)
    np.testing.assert_array_equal(clip_rows(rows, 1.0), whole)
    assert clip_rows(rows, 1.0).dtype == whole.dtype
    assert np.array_equal(whole[:15], rows[:15])
    assert not np.array_equal(whole[40:], rows[40:])
