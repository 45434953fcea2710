import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from taskveil.privacy.integer_sampler import KeyStream
from taskveil.privacy.quantise import Grid, best_grid, error_bound, norm_bound, ring_bits, walsh_hadamard

vectors = st.integers(1, 40).flatmap(lambda n: st.lists(st.floats(-1, 1, allow_nan=False, width=32), min_size=n, max_size=n))


def within(vector: np.ndarray, norm: float = 1.0) -> np.ndarray:
    return vector / max(1.0, np.linalg.norm(vector) / norm)


@settings(max_examples=80, deadline=None)
@given(vectors, st.sampled_from(["norm", "error"]), st.booleans(), st.integers(0, 12), st.binary(min_size=32, max_size=32))
def test_the_rounding_condition_holds_for_every_vector_and_every_draw(values, condition, rotate, bits, key):
    vector = within(np.array(values))
    grid = Grid(vector.size, 1.0, 2.0**-bits, condition, rotate)
    integers = grid.to_integers(vector, KeyStream(key))
    assert integers.shape == (grid.size,)
    if condition == "norm":
        assert np.linalg.norm(integers) <= norm_bound(grid.reach, grid.size)
    else:
        assert np.linalg.norm(grid.to_vector(integers) - vector) <= grid.step * error_bound(grid.size) * (1 + 1e-9)


class Adversary(KeyStream):
    """A key stream that always rounds away from zero, to provoke the fallback."""

    def words(self, count):
        return np.zeros(count, dtype=np.uint64)


@pytest.mark.parametrize("condition", ["norm", "error"])
def test_the_worst_draw_falls_back_and_still_meets_the_condition(condition):
    grid = Grid(400, 1.0, 2.0**-3, condition)
    vector = np.full(400, 1 / 40)  # 0.2 grid steps each: rounding all of them up moves the norm from 4 to 20
    up = np.ceil(vector / grid.step)
    assert not grid._fine(up, vector / grid.step)
    assert grid._fine(grid.to_integers(vector, Adversary(bytes(32))).astype(float), vector / grid.step)


@pytest.mark.statistical
def test_rounding_is_unbiased():
    """Mean of 20,000 roundings per coordinate: all within 6.2 standard errors (1e-6 over 64 coordinates is
    5.6)."""
    rng = np.random.default_rng(3)
    vector = within(rng.normal(size=64))
    grid, stream = Grid(64, 1.0, 2.0**-4, "error"), KeyStream(bytes(32))
    mean = np.mean([grid.to_integers(vector, stream) for _ in range(20_000)], axis=0)
    assert np.max(np.abs(mean - vector / grid.step)) < 6.2 * 0.5 / math.sqrt(20_000)
    down = np.floor(vector / grid.step)  # the twin: plain truncation is biased, and the same check sees it
    assert np.max(np.abs(down - vector / grid.step)) > 6.2 * 0.5 / math.sqrt(20_000)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 12), st.integers(2, 10), st.booleans(), st.binary(min_size=32, max_size=32), st.integers(0, 10**6))
def test_neighbouring_outer_products_never_move_the_integers_further_than_the_sensitivity(side, bits, rotate, key, seed):
    rng, stream = np.random.default_rng(seed), KeyStream(key)
    a, b = (within(rng.normal(size=side) * 10.0 ** rng.integers(-3, 3)) for _ in range(2))
    rows, columns = np.triu_indices(side)
    factor = np.where(rows == columns, 1.0, math.sqrt(2))
    first, second = (np.outer(w, w)[rows, columns] * factor for w in (a, b))
    chosen = best_grid(rows.size, 1.0, 2.0**-bits, math.sqrt(2), replace=True)
    grid = Grid(chosen.length, 1.0, chosen.step, chosen.condition, rotate)
    moved = np.linalg.norm(grid.to_integers(first, stream) - grid.to_integers(second, stream))
    assert moved <= grid.sensitivity(math.sqrt(2), replace=True)
    alone = np.linalg.norm(grid.to_integers(first, stream) - grid.to_integers(0 * first, stream))
    assert alone <= grid.sensitivity(1.0, replace=False)


def test_the_norm_bound_is_the_one_of_kairouz_liu_steinke():
    """Theorem 1 with gamma = 1, c = 100, d = 400, beta = 1e-9, computed by hand."""
    expected = math.sqrt(100**2 + 100 + math.sqrt(2 * math.log(1e9)) * (100 + 10))
    assert norm_bound(100.0, 400) == pytest.approx(expected, rel=1e-12)
    assert norm_bound(0.1, 4) == pytest.approx(2.1)  # the deterministic bound c + sqrt(d) where it is smaller


def test_fine_grids_cost_less_than_one_percent():
    for length in (28, 465, 10_000):
        step = 2.0 ** -math.ceil(math.log2(max(2**12, 64 * math.sqrt(length))))
        for real, replace in ((1.0, False), (2.0, True), (math.sqrt(2), True)):
            grid = best_grid(length, 1.0, step, real, replace)
            assert grid.sensitivity(real, replace) * grid.step / real < 1.013


def test_rotation_is_an_isometry_and_its_own_inverse():
    x = np.random.default_rng(0).normal(size=256)
    y = walsh_hadamard(x)
    assert np.linalg.norm(y) == pytest.approx(np.linalg.norm(x), rel=1e-12)
    assert np.allclose(walsh_hadamard(y), x, atol=1e-12)


def test_rotated_messages_come_back():
    grid = Grid(100, 1.0, 2.0**-12, "error", rotate=True)
    x = within(np.random.default_rng(1).normal(size=100))
    assert np.linalg.norm(grid.to_vector(grid.to_integers(x, KeyStream(bytes(32)))) - x) < 2.0**-12 * 8


def test_the_ring_holds_the_largest_sum_and_rotation_saves_bits():
    plain = Grid(4096, 1.0, 2.0**-12, "error")
    flat = Grid(4096, 1.0, 2.0**-12, "error", rotate=True)
    bits = ring_bits(plain, 500, 1e4)
    assert 2 ** (bits - 1) > 500 * (2**12 + 1) + 7 * 1e4
    assert ring_bits(flat, 500, 1e4) <= bits - 2
    worst = np.zeros(4096)
    worst[0] = 1.0  # all tasks send the same unit vector; rotated, no coordinate of the sum is large
    total = 500 * flat.to_integers(worst, KeyStream(bytes(32)))
    assert np.abs(total).max() < 2 ** (ring_bits(flat, 500, 1e4) - 1)


def test_the_fallback_is_as_rare_as_promised():
    """Worst case for rounding, all fractions one half: no fallback in 2000 draws (each has probability
    below 1e-9)."""
    grid, stream = Grid(100, 1.0, 2.0**-6, "error"), KeyStream(bytes(32))
    vector = np.full(100, 0.5 * 2.0**-6)
    draws = np.array([grid.to_integers(vector, stream) for _ in range(2000)])
    assert stats.binomtest(int(draws.sum()), draws.size).pvalue > 1e-6
