"""Closed forms that docs/theory states and no code uses yet, against a search over pairs of neighbours."""

from __future__ import annotations

import numpy as np
import pytest

RNG = np.random.default_rng(0)
GOLDEN = (11 + 5 * np.sqrt(5)) / 8


def joint(a: float, b: float) -> float:
    """docs/theory/spending.md#joint-release, the squared sensitivity."""
    return 4 * a**2 if b**2 <= a**2 / 2 else 2 * a**2 + 2 * b**2 + a**4 / (2 * b**2)


def moved(a: float, b: float, M: np.ndarray, N: np.ndarray) -> float:
    return a**2 * ((M - N) ** 2).sum() + b**2 * ((M.T @ M - N.T @ N) ** 2).sum()


def pairs(outputs: int):
    """Random pairs in the ball; each also with both on the sphere and turned to every angle, where the worst case lies."""
    for _ in range(40):
        M, N = (m / np.linalg.norm(m) for m in RNG.normal(size=(2, outputs, 3)))
        yield M * RNG.uniform(), N * RNG.uniform()
        across = N - (M * N).sum() * M
        across /= np.linalg.norm(across)
        for cosine in np.linspace(-1, 1, 41):
            yield M, cosine * M + np.sqrt(1 - cosine**2) * across


@pytest.mark.parametrize("outputs", [1, 2, 4])
@pytest.mark.parametrize("b", [0.3, 0.7, 1.0, 2.0])
def test_no_pair_moves_mean_and_second_moment_further_than_the_formula(b, outputs):
    found = max(moved(1.0, b, M, N) for M, N in pairs(outputs))
    assert found <= joint(1.0, b) * (1 + 1e-9)
    if outputs == 1:  # the bound is reached
        assert found >= joint(1.0, b) * (1 - 2e-3)


def test_a_second_moment_that_were_always_free_is_rejected():
    """Twin: 4 a^2 beyond b^2 = a^2 / 2 is too little."""
    assert max(moved(1.0, 1.0, M, N) for M, N in pairs(1)) > 4 * 1.05


@pytest.mark.parametrize(("b2", "within"), [(GOLDEN, True), (1.05 * GOLDEN, False)])
def test_moments_of_a_row_move_by_2a_up_to_the_stated_weight_and_no_further(b2, within):
    """docs/theory/preparation.md#common-scale-records with a = 1, one column."""
    x, y = np.meshgrid(*(np.linspace(-1, 1, 801),) * 2)
    assert bool(((x - y) ** 2 + b2 * (x**2 - y**2) ** 2).max() <= 4 * (1 + 1e-9)) is within
