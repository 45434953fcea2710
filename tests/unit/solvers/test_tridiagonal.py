"""Reduced matrices against plain dense algebra: decomposition, posterior and evidence."""

from __future__ import annotations

import numpy as np
import pytest

from taskveil.solvers.padding import CentredRows
from taskveil.solvers.posterior import Prior, Reduced, posterior, posterior_mean, reduced

SHAPES = [(1, 1), (3, 5), (7, 3), (20, 30), (30, 20), (8, 8), (45, 61), (75, 66)]
STRENGTHS = np.geomspace(1e-4, 1e6, 11)


def make_rows(n: int, d: int, tasks: int = 4) -> CentredRows:
    rng = np.random.default_rng(n + 100 * d)
    X, y = rng.standard_normal((tasks, n, d)), rng.standard_normal((tasks, n))
    X[0] = 0.0  # nothing to decompose
    X[-1, :, 0] = 1.0
    return CentredRows(X, y, np.full(tasks, float(n)))


def dense(rows: CentredRows, i: int, prior: Prior, centre: np.ndarray | None, ratio: float):
    """Mean, half log determinant and residual of task i from the n x n covariance of its targets."""
    X, y = rows.X[i], rows.y[i] - (0.0 if centre is None else rows.X[i] @ centre)
    C = prior.floor * np.eye(X.shape[1]) + (0.0 if prior.directions is None else prior.directions @ prior.directions.T)
    spread = np.trace(X @ C @ X.T) / rows.free[i]
    t = ratio / (spread if spread > 0.0 else 1.0)
    K = np.eye(len(y)) + t * X @ C @ X.T
    solved = np.linalg.solve(K, y)
    mean = t * C @ X.T @ solved + (0.0 if centre is None else centre)
    return mean, 0.5 * np.linalg.slogdet(K)[1], y @ solved


def priors(d: int) -> list[tuple[Prior, np.ndarray | None]]:
    rng = np.random.default_rng(d)
    thin, wide = rng.standard_normal((d, 1)), rng.standard_normal((d, min(d, 8)))
    plain = [(Prior(), None), (Prior(), np.ones(d))]
    return [*plain, (Prior(0.1, thin), None), (Prior(0.01, wide), np.ones(d)), (Prior(0.0, thin), None)]


def worst(n: int, d: int) -> float:
    """Largest relative error over tasks, priors and strengths."""
    rows, errors = make_rows(n, d), []
    found = reduced(rows)
    for prior, centre in priors(d):
        middle = None if centre is None else np.repeat(centre[None], len(rows.y), axis=0)
        seen = posterior(found, prior, middle, STRENGTHS)
        scores = seen.scores()
        for g, ratio in enumerate(STRENGTHS):
            means = seen.mean(np.tile(np.eye(len(STRENGTHS))[g], (len(rows.y), 1)))
            for i in range(len(rows.y)):
                mean, determinant, residual = dense(rows, i, prior, centre, ratio)
                scale = max(1.0, float(np.abs(mean).max()))
                errors.append(np.abs(means[i] - mean).max() / scale)
                errors.append(np.abs(scores[i, :, g] - rows.X[i] @ mean).max() / max(1.0, float(np.abs(rows.X[i] @ mean).max())))
                errors.append(abs(seen.determinant[i, g] - determinant) / max(1.0, determinant))
                errors.append(abs(seen.residual[i, g] - residual) / seen.total[i])
    return float(max(errors))


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_posteriors_are_those_of_dense_algebra(n, d):
    assert worst(n, d) < 1e-7  # conditions go up to 1e8


def test_a_forgotten_turn_would_be_noticed(monkeypatch):
    """The twin: the basis left out on the way back."""
    monkeypatch.setattr(Reduced, "turned", lambda self, columns, back=False: columns)
    assert worst(7, 3) > 1e-2


@pytest.mark.parametrize(("n", "d"), SHAPES)
def test_one_strength_is_solved_directly(n, d):
    rows = make_rows(n, d)
    for prior, centre in priors(d)[:2]:
        middle = None if centre is None else np.repeat(centre[None], len(rows.y), axis=0)
        found = posterior_mean(rows, middle, 10.0)
        wanted = [dense(rows, i, prior, centre, 10.0)[0] for i in range(len(rows.y))]
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-11)


def test_rows_of_any_size_give_numbers():
    rows = make_rows(12, 9)
    for size in (1e-140, 1e140):
        scaled = CentredRows(rows.X * size, rows.y, rows.free)
        one, other = (posterior(reduced(r), Prior(), None, STRENGTHS) for r in (rows, scaled))
        np.testing.assert_allclose(other.residual, one.residual, rtol=1e-9)
        weights = np.full((len(rows.y), len(STRENGTHS)), 1.0)
        np.testing.assert_allclose(other.mean(weights) * size, one.mean(weights), rtol=1e-7, atol=1e-9)
