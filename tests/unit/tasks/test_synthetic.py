"""Generators: exactly the sizes and laws their documentation states."""

import numpy as np
import pytest

from taskveil.tasks import get_synthetic
from taskveil.tasks.synthetic import names, parse_name


def test_every_generator_is_listed():
    kinds = ["group-sparse", "hospitals", "hospitals-readmission", "low-rank", "tiny"]
    assert names() == [f"synthetic:{k}" for k in kinds]


@pytest.mark.parametrize("name", ["synthetic:low-rank", "synthetic:group-sparse"])
def test_the_papers_simulation_has_its_sizes(name):
    data = get_synthetic(name, seed=0)
    assert data.train.n_tasks == 320 and data.train.n_features == 30
    assert set(data.train.sizes) == {30} and set(data.test.sizes) == {270}
    np.testing.assert_allclose(np.linalg.norm(data.train.X, axis=1), 1)
    assert data.weights.shape == (320, 30)


@pytest.mark.parametrize("name", ["synthetic:low-rank", "synthetic:group-sparse"])
def test_the_noise_has_variance_one(name):
    """86,400 residuals: the variance of N(0, 1) noise lies within 1 +- 0.0235 with false alarm 1e-6."""
    data = get_synthetic(name, seed=1)
    fit = np.einsum("nd,nd->n", data.test.X, data.weights[data.test.task_of_row()])
    assert abs((data.test.y - fit).var() - 1) < 4.9 * np.sqrt(2 / 86_400)


def test_low_rank_weights_have_the_stated_covariance():
    """Blocks of equal size, variance 70, correlation 0.99 inside and 0 across; 400 draws of 30 features."""
    draws = np.concatenate([get_synthetic("low-rank", seed=s, n_tasks=8, n_train=1, n_test=1).weights.T for s in range(400)])
    covariance = draws.T @ draws / len(draws)
    expected = 70 * np.kron(np.eye(4), np.full((2, 2), 0.99) + 0.01 * np.eye(2))
    np.testing.assert_allclose(covariance, expected, atol=70 * 5.5 * np.sqrt(2 / len(draws)))
    W = get_synthetic("low-rank", seed=0).weights
    assert np.corrcoef(W[0], W[79])[0, 1] > 0.9 > abs(np.corrcoef(W[0], W[80])[0, 1])


def test_group_sparse_weights_live_in_four_features():
    W = get_synthetic("synthetic:group-sparse", seed=0).weights
    assert (W[:, 4:] == 0).all()
    used = np.abs(W[:, :4])
    assert used.min() >= 1 and used.max() <= 50
    assert 0.4 < (W[:, :4] > 0).mean() < 0.6


def test_every_seed_is_a_fresh_draw_and_the_same_seed_the_same():
    a, b, c = (get_synthetic("synthetic:low-rank", seed=s) for s in (5, 5, 6))
    np.testing.assert_array_equal(a.train.X, b.train.X)
    assert (a.train.X != c.train.X).all() and (a.weights != c.weights).all()


def test_options_follow_the_name_or_are_given():
    assert parse_name("synthetic:low-rank?n_tasks=40,noise=0.5") == ("low-rank", {"n_tasks": 40, "noise": 0.5})
    assert get_synthetic("synthetic:low-rank?n_tasks=40", seed=0).train.n_tasks == 40
    assert get_synthetic("group-sparse", seed=0, n_features=12, n_active=2).weights[:, 2:].any() == 0


def ridge_errors(data):
    """Test error of each hospital alone, and of all pooled, both scaled by training statistics."""

    def fit(X, y):
        mean, std = X.mean(axis=0), X.std(axis=0) + 1e-9
        Z = (X - mean) / std
        w = np.linalg.solve(Z.T @ Z + 5 * np.eye(Z.shape[1]), Z.T @ (y - y.mean()))
        return lambda T: (T - mean) / std @ w + y.mean()

    whole = fit(data.train.X, data.train.y)
    alone, pooled = [], []
    for a, b in zip(data.train, data.test, strict=True):
        alone.append(((fit(a.X, a.y)(b.X) - b.y) ** 2).mean())
        shift = (a.y - whole(a.X)).mean()
        pooled.append(((whole(b.X) + shift - b.y) ** 2).mean())
    return np.mean(alone), np.mean(pooled)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_hospitals_do_better_together_than_alone(seed):
    data = get_synthetic("synthetic:hospitals", seed=seed)
    alone, pooled = ridge_errors(data)
    assert pooled < 0.92 * alone
    assert data.train.bounds.covers(data.train.feature_names)
    low, high = data.train.bounds.arrays(data.train.feature_names)
    assert (data.train.X >= low).all() and (data.train.X <= high).all()
    assert data.train.target_name == "days" and data.train.y.min() >= 0


def test_readmission_is_the_classification_twin():
    data = get_synthetic("synthetic:hospitals-readmission", seed=0)
    assert data.train.classes.tolist() == ["no", "yes"]
    assert 0.2 < (data.train.y == "yes").mean() < 0.8


@pytest.mark.parametrize("relation", ["related", "unrelated", "noise"])
def test_tiny_tasks_have_fewer_rows_than_features(relation):
    data = get_synthetic("synthetic:tiny", seed=0, relation=relation)
    assert data.train.n_tasks == 180 and set(data.train.sizes) == {6} and data.train.n_features == 14
    rank = np.linalg.matrix_rank(data.weights)
    assert rank == {"related": 3, "unrelated": 14, "noise": 0}[relation]
