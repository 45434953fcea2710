import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskveil.errors import SecureSumRefused
from taskveil.runtime.secure import field, shamir

P = field.PRIME
elements = st.one_of(st.integers(0, P - 1), st.sampled_from([0, 1, 2, P - 1, P - 2, 1 << 60, (1 << 32) - 1, 1 << 32]))


@given(st.lists(st.tuples(elements, elements), min_size=1, max_size=20))
def test_field_arithmetic_equals_python_integers(pairs):
    a, b = (np.array(column, dtype=np.uint64) for column in zip(*pairs))
    assert field.multiply(a, b).tolist() == [x * y % P for x, y in pairs]
    assert field.add(a, b).tolist() == [(x + y) % P for x, y in pairs]
    assert field.dot(a, b[:, None]).tolist() == [sum(x * y for x, y in pairs) % P]


@given(st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=20))
def test_reduction_covers_all_64_bit_words(values):
    assert field.reduce(np.array(values, dtype=np.uint64)).tolist() == [v % P for v in values]


def test_random_elements_are_below_the_prime_and_differ():
    drawn = field.random_elements((1000, 3))
    assert drawn.shape == (1000, 3) and int(drawn.max()) < P
    assert np.unique(drawn).size == drawn.size


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.integers(0, 4), st.randoms(use_true_random=False))
def test_any_threshold_shares_open_the_secret(threshold, spare, random):
    secrets = [os.urandom(32), bytes(32), b"\xff" * 32]
    points = random.sample(range(1, 2000), threshold + spare)
    shares = shamir.split(secrets, points, threshold).shares
    chosen = random.sample(points, threshold)
    for number, secret in enumerate(secrets):
        assert shamir.combine({p: shares[p][number] for p in chosen}, threshold) == secret


def test_fewer_shares_are_refused_and_fit_every_secret():
    """With threshold - 1 shares every value of the secret stays possible: some polynomial fits all of
    them."""
    shares = shamir.split([os.urandom(32)], [1, 2, 3], 3).shares
    with pytest.raises(SecureSumRefused):
        shamir.combine({p: shares[p][0] for p in (1, 2)}, 3)
    held = np.stack([np.frombuffer(shares[p][0], dtype="<u8") for p in (1, 2)])
    for guess in (0, 1, P - 1):
        points = (1, 2, P - 1)  # choose a third share so that the constant term becomes the guess
        weights = shamir.lagrange_at_zero(points)
        rest = field.dot(weights[:2], held)
        third = [(guess - int(r)) * pow(int(weights[2]), -1, P) % P for r in rest]
        again = field.dot(weights, np.vstack([held, np.array(third, dtype=np.uint64)]))
        assert again.tolist() == [guess] * shamir.LIMBS


def test_a_single_share_looks_uniform():
    """Means of 2000 shares of the all-zero secret: within 6 standard errors of (p - 1)/2 (1e-6 over 5 limbs
    is 5.1)."""
    drawn = [shamir.split([bytes(32)], [1, 2], 2).shares[1][0] for _ in range(2000)]
    first = np.stack([np.frombuffer(share, dtype="<u8") for share in drawn]).astype(float)
    deviation = (P - 1) / np.sqrt(12 * 2000)
    assert np.all(np.abs(first.mean(axis=0) - (P - 1) / 2) < 6 * deviation)


def test_bad_shares_are_refused_not_believed():
    shares = shamir.split([os.urandom(32)], [1, 2, 3], 2).shares
    with pytest.raises(SecureSumRefused):
        shamir.combine({1: shares[1][0], 2: shares[2][0][:-1]}, 2)
    for points in ([1, 1], [0, 1], [1]):
        with pytest.raises(ValueError):
            shamir.split([bytes(32)], points, 2)
    with pytest.raises(ValueError):
        shamir.split([b"short"], [1, 2], 2)
