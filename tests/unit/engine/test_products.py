"""Products of parts against float64, and what too few parts would lose."""

from __future__ import annotations

import numpy as np
import pytest

jax = pytest.importorskip("jax")
import jax.numpy as jnp  # noqa: E402

from taskveil.engine.products import dot, matrix_sized, parts  # noqa: E402


def error(dtype, exact: bool, left=jnp.float32) -> float:
    rng = np.random.default_rng(0)
    a, b = jnp.asarray(rng.standard_normal((32, 64)), left), jnp.asarray(rng.standard_normal((64, 16)), jnp.float32)
    expected = np.asarray(a, np.float64) @ np.asarray(b, np.float64)
    found = dot(parts(a, dtype, exact), parts(b, dtype, exact))
    return float(np.linalg.norm(found - expected) / np.linalg.norm(expected))


def test_float32_is_multiplied_to_17_bits_and_to_its_last_one_where_asked():
    assert 1e-6 < error(jnp.float32, exact=False) < 1e-5  # the twin of the next line: two parts are seen to be fewer than three
    assert error(jnp.float32, exact=True) < 3e-7


def test_weights_beside_float16_keep_their_bits_where_asked():
    assert 1e-4 < error(jnp.float16, exact=False, left=jnp.float16) < 1e-3
    assert error(jnp.float16, exact=True, left=jnp.float16) < 1e-6


def test_transposed_sides_are_those_of_the_plain_product():
    a, b = np.arange(6.0, dtype=np.float32).reshape(3, 2), np.arange(12.0, dtype=np.float32).reshape(4, 3)
    found = dot(parts(jnp.asarray(a), jnp.float32), parts(jnp.asarray(b), jnp.float32), turn_a=True, turn_b=True)
    np.testing.assert_array_equal(found, a.T @ b.T)


def test_sides_of_matrix_units_are_powers_of_two_from_16():
    assert [size for size in range(1, 130) if matrix_sized(size)] == [16, 32, 64, 128]
