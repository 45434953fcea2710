"""Averages over priors by evidence: against the marginal likelihood written out, and at its limits."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from taskveil.solvers import evidence
from taskveil.solvers.evidence import LOG_PRIOR, SIGNAL_TO_NOISE, averaged_models, log_evidence, residual_models, target_scales
from taskveil.solvers.posterior import Prior
from taskveil.tasks.block import TaskBlock


def rows(sizes, d, seed=0, W=None, noise=1.0) -> TaskBlock:
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    W = rng.standard_normal((len(sizes), d)) if W is None else W
    X = rng.standard_normal((offsets[-1], d))
    y = np.einsum("nd,nd->n", X, np.repeat(W, sizes, axis=0)) + noise * rng.standard_normal(offsets[-1])
    return TaskBlock(X, y + 1.0, offsets)


def written_out(X, y, priors):
    """Posterior mean and weights by n x n matrices: y ~ N(Xc, s^2 (I + t X C X')), centred, prior 1/s^2."""
    n = len(y)
    X, y = X - X.mean(0), y - y.mean()
    scale = np.sqrt(y @ y / (n - 1))
    logs, means = [], []
    for prior in priors:
        C = prior.floor * np.eye(X.shape[1])
        if prior.directions is not None:
            C = C + prior.directions @ prior.directions.T
        c = np.zeros(X.shape[1]) if prior.centre is None else scale * prior.centre[0]
        K, r = X @ C @ X.T, y - X @ c
        for k, snr in enumerate(SIGNAL_TO_NOISE):
            t = snr * (n - 1) / np.trace(K)
            V = np.eye(n) + t * K
            value = -0.5 * np.linalg.slogdet(V)[1] - 0.5 * (n - 1) * np.log(r @ np.linalg.solve(V, r))
            logs.append(value + LOG_PRIOR["squared"][k] + prior.log_weight)
            means.append(c + t * C @ X.T @ np.linalg.solve(V, r))
    p = np.exp(np.array(logs) - max(logs))
    p /= p.sum()
    return p @ np.array(means), p.reshape(len(priors), -1).sum(axis=1)


@pytest.mark.parametrize("n", [5, 12])
def test_weights_and_models_equal_the_marginal_likelihood_written_out(n):
    block = rows([n, n, n + 2], d=8)
    rng = np.random.default_rng(3)
    options = [
        Prior(),
        Prior(0.1, rng.standard_normal((8, 3))),
        Prior(0.0, rng.standard_normal((8, 2)), rng.standard_normal((1, 8))),
        Prior(centre=rng.standard_normal((1, 8)), log_weight=-1.0),
    ]
    W, weights = averaged_models(block, options, "squared")
    for i in range(3):
        w, p = written_out(block.X[block.rows(i)], block.y[block.rows(i), 0], options)
        np.testing.assert_allclose(weights[i], p, atol=1e-8)
        np.testing.assert_allclose(W[i, 0], w, atol=1e-7)


def test_the_true_subspace_gets_the_weight_and_the_smaller_error():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((10, 2)))[0]
    W = rng.standard_normal((40, 2)) @ basis.T * 3.0
    block = rows([12] * 40, 10, W=W)
    other = np.linalg.qr(rng.standard_normal((10, 2)))[0]
    found, weights = averaged_models(block, [Prior(), Prior(0.0, basis), Prior(0.0, other)], "squared")
    alone, _ = averaged_models(block, [Prior()], "squared")
    assert np.median(weights[:, 1]) > 0.9
    assert np.square(found[:, 0] - W).sum() < 0.5 * np.square(alone[:, 0] - W).sum()


def test_many_rows_of_a_logistic_model_give_the_maximum_likelihood_direction():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 4))
    y = np.where(rng.random(4000) < 1 / (1 + np.exp(-(X @ [1.0, -1.0, 0.5, 0.0] - 0.3))), 1.0, -1.0)
    block = TaskBlock(X, y, np.array([0, 4000]), kind="classification")
    W, _ = averaged_models(block, [Prior()], "logistic")
    exact = LogisticRegression(C=np.inf).fit(X, y).coef_[0]
    np.testing.assert_allclose(W[0, 0], exact, atol=0.02)


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_tasks_that_say_nothing_stay_at_zero_alone_and_at_the_centre_around_it(loss):
    """One row, equal targets (one class), no rows: nothing to learn from."""
    block = TaskBlock(np.random.default_rng(0).standard_normal((6, 3)), np.ones(6), np.array([0, 1, 6, 6]))
    centre = np.array([[1.0, 2.0, 3.0]])
    alone, _ = averaged_models(block, [Prior()], loss)
    np.testing.assert_array_equal(alone, 0.0)
    around, _ = averaged_models(block, [Prior(centre=centre)], loss)
    np.testing.assert_allclose(around[[0, 2], 0], np.repeat(centre, 2, axis=0), atol=1e-12)
    assert np.isfinite(around).all()
    left = residual_models(block, np.zeros((1, 3)), 3.0, loss)
    np.testing.assert_allclose(left, 0.0, atol=1e-12)


def evidence_gap(rows, hits):
    """Nats between our evidence of a level around a rare class and its integral by quadrature, over strengths 1e-2 to 1e1."""
    y = np.where(np.arange(rows) < hits, 1.0, -1.0)
    block = TaskBlock(np.ones((rows, 1)), y, np.array([0, rows]), kind="classification")
    around = Prior(0.0, np.ones((1, 1)), np.array([[-2.0]]))
    found = log_evidence(block, [around], "logistic", False)[0, 0]
    p = 1.0 / (1.0 + np.exp(-averaged_models(block, [around], "logistic", False)[0][0, 0, 0]))
    level = np.linspace(-40.0, 40.0, 8001)
    likely = -(hits * np.logaddexp(0.0, -level + 2.0) + (rows - hits) * np.logaddexp(0.0, level - 2.0))
    variances = SIGNAL_TO_NOISE[:, None] / (p * (1.0 - p))
    exact = np.log(np.trapezoid(np.exp(likely - 0.5 * level**2 / variances) / np.sqrt(2 * np.pi * variances), level, axis=1))
    gap = (found - exact)[(SIGNAL_TO_NOISE >= 1e-2) & (SIGNAL_TO_NOISE <= 1e1)]
    return gap.max() - gap.min()


@pytest.mark.parametrize(("rows", "hits", "nats"), [(2, 1, 0.1), (20, 2, 0.15), (10, 9, 0.8), (3, 0, 1.3)])
def test_evidence_of_labels_is_close_to_the_integral_written_out(rows, hits, nats):
    """Laplace's formula; with one class it speaks against strong priors, by a nat."""
    assert evidence_gap(rows, hits) < nats


def test_evidence_of_working_responses_is_not(monkeypatch):
    """The twin: surprising labels taken for normal numbers, their variance estimated with a prior worth 30 rows at one."""

    def of_working_responses(seen, rows, loss, likely):
        return -seen.determinant - 0.5 * (rows.free[:, None] + 30.0) * np.log(30.0 + seen.residual)

    monkeypatch.setattr(evidence, "_log_evidence", of_working_responses)
    assert evidence_gap(10, 9) > 3.0


def test_separable_labels_give_finite_models():
    X = np.vstack([np.full((5, 2), 1.0), np.full((5, 2), -1.0)])
    block = TaskBlock(X, np.repeat([1.0, -1.0], 5), np.array([0, 10]), kind="classification")
    W, _ = averaged_models(block, [Prior()], "logistic")
    assert np.isfinite(W).all() and (W > 0).all()


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_a_block_of_tasks_equals_its_tasks_one_by_one(loss):
    block = rows([4, 30, 9, 9], d=7)
    if loss == "logistic":
        block = block.with_targets(np.where(block.y > 1.0, 1.0, -1.0))
    options = [Prior(), Prior(centre=np.ones((1, 7)))]
    whole, weights = averaged_models(block, options, loss)
    for i in range(block.n_tasks):
        one, weight = averaged_models(block.take([i]), options, loss)
        np.testing.assert_allclose(one[0], whole[i], rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(weight[0], weights[i], rtol=1e-6, atol=1e-9)


def test_units_of_the_target_do_not_matter():
    block = rows([9, 12], d=6)
    options = [Prior(), Prior(centre=np.ones((1, 6)))]
    W, weights = averaged_models(block, options, "squared")
    W_large, weights_large = averaged_models(block.with_targets(1e4 * block.y), options, "squared")
    np.testing.assert_allclose(W_large, 1e4 * W, rtol=1e-7)
    np.testing.assert_allclose(weights_large, weights, rtol=1e-7)
    np.testing.assert_allclose(target_scales(block.with_targets(1e4 * block.y), "squared"), 1e4 * target_scales(block, "squared"))


@pytest.mark.parametrize("loss", ["squared", "logistic"])
def test_threads_change_nothing(loss, monkeypatch):
    """Stacks are fitted side by side; every number is the same, to the last bit."""
    rng = np.random.default_rng(0)
    sizes = rng.integers(3, 40, 25)
    X = rng.standard_normal((sizes.sum(), 6))
    y = X[:, :2] + rng.standard_normal((len(X), 2))
    y = np.sign(y) if loss == "logistic" else y
    block = TaskBlock(X, y, np.concatenate([[0], np.cumsum(sizes)]))
    monkeypatch.setattr(evidence, "CACHED", 600)  # many stacks
    centre = rng.standard_normal((2, 6))
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("TASKVEIL_THREADS", threads)
        averaged = averaged_models(block, [Prior(), Prior(centre=centre)], loss)
        found.append((*averaged, residual_models(block, centre, 1.0, loss)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
