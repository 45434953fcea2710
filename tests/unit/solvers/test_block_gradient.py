from dataclasses import replace

import numpy as np
import pytest
from tests.support.blocks import make_block

from taskveil import threads
from taskveil.losses import LOSSES
from taskveil.losses.squared import Squared
from taskveil.solvers.block_gradient import mean_gradients, mean_gradients_numpy, row_scores, task_means

LOSS_OF = {"squared": "regression", "logistic": "classification"}


def point(block, seed=0):
    rng = np.random.default_rng(seed)
    shape = (block.n_tasks, block.n_outputs, block.n_features)
    return rng.standard_normal(shape), rng.standard_normal(shape[:2])


def slow(block, W, b, loss):
    """One task after another, straight from the definition."""
    grad_W, grad_b, values = np.zeros(W.shape), np.zeros(b.shape), np.zeros(len(W))
    for i in range(block.n_tasks):
        rows = block.rows(i)
        keep = np.ones(rows.stop - rows.start, bool) if block.weights is None else block.weights[rows] > 0
        if not keep.any():
            continue
        X, y = block.X[rows][keep].astype(float), block.y[rows][keep]
        for o in range(W.shape[1]):
            s = X @ W[i, o] + b[i, o]
            grad_W[i, o] = X.T @ loss.derivative(s, y[:, o]) / len(s)
            grad_b[i, o] = loss.derivative(s, y[:, o]).mean()
            values[i] += loss.value(s, y[:, o]).mean()
    return grad_W, grad_b, values


@pytest.mark.parametrize("held_out", [0.0, 0.4])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", LOSS_OF)
def test_compiled_and_numpy_gradients_equal_the_definition(name, dtype, outputs, held_out):
    block = make_block(LOSS_OF[name], n_outputs=outputs, held_out=held_out, dtype=dtype)
    W, b = point(block)
    loss = LOSSES.get(name)
    expected = slow(block, W, b, loss)
    for way in (mean_gradients, mean_gradients_numpy):
        for got, want in zip(way(block, W, b, loss), expected):
            np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_many_extreme_logistic_rows_do_not_overflow():
    block = make_block("classification", n_tasks=2, rows=(900, 900))
    W, b = point(block)
    loss = LOSSES.get("logistic")
    for size in (1e-9, 1.0, 1e6):  # at 1e-9 every row multiplies the pending product by two
        for got, want in zip(mean_gradients(block, size * W, b, loss), slow(block, size * W, b, loss)):
            np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-12)


def test_tasks_without_rows_have_zero_value_and_gradient():
    block = make_block()
    block = replace(block, weights=np.where(block.task_of_row == 3, 0.0, 1.0))
    for part in mean_gradients(block, *point(block), LOSSES.get("squared")):
        assert np.all(part[3] == 0.0)


def test_a_task_gets_the_same_bits_alone_and_in_a_block():
    block = make_block("classification", n_tasks=9)
    W, b = point(block)
    together = mean_gradients(block, W, b, LOSSES.get("logistic"))
    for i in range(9):
        alone = mean_gradients(block.take([i]), W[[i]], b[[i]], LOSSES.get("logistic"))
        for a, t in zip(alone, together):
            np.testing.assert_array_equal(a[0], t[i])


def test_threads_do_not_change_the_result(monkeypatch):
    block = make_block(n_tasks=40)
    W, b = point(block)
    one = mean_gradients(block, W, b, LOSSES.get("squared"))
    monkeypatch.setattr(threads, "SMALL", 0)
    monkeypatch.setenv("TASKVEIL_THREADS", "3")
    for got, want in zip(mean_gradients(block, W, b, LOSSES.get("squared")), one):
        np.testing.assert_array_equal(got, want)


def test_a_loss_without_a_kernel_uses_numpy():
    class Plain(Squared):
        kernel = None

    block = make_block()
    W, b = point(block)
    for got, want in zip(mean_gradients(block, W, b, Plain()), mean_gradients(block, W, b, Squared())):
        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_scores_and_means_agree_with_the_block():
    block = make_block(n_outputs=2, held_out=0.3)
    W, b = point(block)
    np.testing.assert_allclose(row_scores(block, W, b), block.scores(W, b), rtol=1e-12, atol=1e-12)
    mean_x, mean_y, counts = task_means(block)
    np.testing.assert_allclose(mean_x, block.means_by_task(block.X), atol=1e-12)
    np.testing.assert_allclose(mean_y, block.means_by_task(block.y), atol=1e-12)
    np.testing.assert_allclose(counts, block.counts)
