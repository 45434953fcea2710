"""Lemmas 1 and 2 of MP-MTL over random draws: the noisy prox step is never worse than the printed bound."""

import numpy as np
import pytest
from experiments.liang_2020 import prox_bounds as p

from taskveil.errors import OptionError


def wishart(rng, d, scale):
    G = rng.standard_normal((d, d + 1))
    return scale * G @ G.T


def symmetric(rng, d, scale):
    G = rng.standard_normal((d, d))
    return scale * (G + G.T)


def models(rng, d, m, values):
    U = np.linalg.qr(rng.standard_normal((d, d)))[0][:, : len(values)]
    V = np.linalg.qr(rng.standard_normal((m, m)))[0][:, : len(values)]
    return (U * values) @ V.T


def test_without_noise_the_step_is_the_exact_prox():
    rng = np.random.default_rng(0)
    C = rng.standard_normal((6, 9))
    none = np.zeros((6, 6))
    assert p.low_rank_excess(C, none, 0.5, 2.0) == pytest.approx(0, abs=1e-10)
    assert p.group_sparse_excess(C, none, 0.5, 2.0) == pytest.approx(0, abs=1e-10)


@pytest.mark.parametrize("noise", [wishart, symmetric])
def test_lemma_1_holds_where_its_assumption_does(noise):
    rng = np.random.default_rng(1)
    seen = 0
    for _ in range(400):
        d, m = int(rng.integers(3, 9)), int(rng.integers(9, 15))
        values = np.sort(rng.uniform(0.1, 30, int(rng.integers(2, d + 1))))[::-1]
        C, E = models(rng, d, m, values), noise(rng, d, 10 ** rng.uniform(-4, -0.5))
        step, penalty = 10 ** rng.uniform(-1, 0.5), 10 ** rng.uniform(-0.5, 1)
        if not p.low_rank_applies(C, E, step, penalty):
            continue
        seen += 1
        excess = p.low_rank_excess(C, E, step, penalty)
        assert -1e-8 <= excess <= p.low_rank_bound(C, E, step, penalty) * (1 + 1e-9) + 1e-8
    assert seen > 100, "the assumption must hold often enough for the test to mean something"


@pytest.mark.parametrize("noise", [wishart, symmetric])
def test_lemma_2_holds_for_any_noise(noise):
    rng = np.random.default_rng(2)
    for _ in range(600):
        d, m = int(rng.integers(2, 9)), int(rng.integers(2, 15))
        C = rng.standard_normal((d, m)) * 10 ** rng.uniform(-1, 1, (d, 1))
        C[rng.random(d) < 0.3] = 0
        if not C.any():
            continue
        E = noise(rng, d, 10 ** rng.uniform(-4, 1))
        step, penalty = 10 ** rng.uniform(-1, 0.5), 10 ** rng.uniform(-0.5, 1)
        excess = p.group_sparse_excess(C, E, step, penalty)
        assert -1e-8 <= excess <= p.group_sparse_bound(C, E, step, penalty) * (1 + 1e-9) + 1e-8


def test_the_bounds_are_not_empty_a_thousandth_of_them_fails():
    """Twin: a bound a thousand times smaller is broken by some draw.

    So the checks above can see a violation.
    """
    rng = np.random.default_rng(3)
    broken = 0
    for _ in range(300):
        C = rng.standard_normal((4, 6))
        E = symmetric(rng, 4, 10 ** rng.uniform(-3, 1))
        broken += p.group_sparse_excess(C, E, 1.0, 1.0) > 1e-3 * p.group_sparse_bound(C, E, 1.0, 1.0)
    assert broken > 0


def test_the_bound_of_lemma_1_by_hand():
    """C = diag(4, 1), threshold 2, E = 0.01 I: k = 1, rank 2, so (16/2 + 4)[(1/2 + 2) 0.01 + 0.1]."""
    C = np.diag([4.0, 1.0])
    assert p.low_rank_bound(C, 0.01 * np.eye(2), 1.0, 2.0) == pytest.approx(12 * (0.025 + 0.1))


def test_the_bound_of_lemma_2_by_hand():
    """Rows of norm 4 and 1, threshold 2: r = 2, k = 1, c = 4: (2*16/2 + 4)[1/4 * 0.01 + 0.1]."""
    C = np.diag([4.0, 1.0])
    assert p.group_sparse_bound(C, 0.01 * np.eye(2), 1.0, 2.0) == pytest.approx(20 * (0.0025 + 0.1))


def test_a_step_of_zero_is_refused():
    with pytest.raises(OptionError, match="above 0"):
        p.low_rank_bound(np.eye(2), np.eye(2), 0.0, 1.0)
