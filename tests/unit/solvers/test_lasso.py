import numpy as np
import pytest
from sklearn.linear_model import Lasso
from tests.support.blocks import make_block
from tests.support.certificates import bounds

from taskveil.losses import LOSSES
from taskveil.solvers.lasso import cross_validated_l1, largest_useful_strength, minimise_l1

KIND = {"squared": "regression", "logistic": "classification"}


@pytest.mark.parametrize("loss", KIND)
@pytest.mark.parametrize("strength", [0.3, 0.02])
def test_every_task_reaches_its_own_optimum(loss, strength):
    block = make_block(KIND[loss], n_tasks=12, n_features=8, rows=(6, 25), shift=3.0, noise=2.0, seed=5)
    W, b = minimise_l1(block, LOSSES.get(loss), strength)
    for i in range(12):
        if loss == "logistic" and abs(block.y[block.rows(i)].mean()) == 1.0:
            assert not W[i].any()
            continue
        objective, below = bounds(block.take([i]), loss, [W[i].T], b[i], [("l1", strength)])
        assert objective - below <= 1e-6 * objective


def test_squared_agrees_with_the_lasso_of_scikit_learn():
    block = make_block(n_tasks=4, rows=(15, 30), seed=2)
    W, b = minimise_l1(block, LOSSES.get("squared"), np.array([0.05, 0.1, 0.3, 1.0]))
    for i, alpha in enumerate([0.05, 0.1, 0.3, 1.0]):
        reference = Lasso(alpha=alpha, tol=1e-12, max_iter=100_000).fit(block.X[block.rows(i)], block.y[block.rows(i), 0])
        np.testing.assert_allclose(W[i, 0], reference.coef_, atol=1e-5)
        assert b[i, 0] == pytest.approx(reference.intercept_, abs=1e-5)


@pytest.mark.parametrize("loss", KIND)
def test_above_the_largest_useful_strength_every_weight_is_zero_and_below_not(loss):
    block = make_block(KIND[loss], n_tasks=8, rows=(15, 25))
    top = largest_useful_strength(block, LOSSES.get(loss))
    assert not minimise_l1(block, LOSSES.get(loss), 1.001 * top)[0].any()
    live = top > 1e-12
    assert np.all(minimise_l1(block, LOSSES.get(loss), 0.99 * top)[0][live].any(axis=(1, 2)))


def test_held_out_rows_outputs_and_missing_intercepts_are_respected():
    block = make_block(n_tasks=4, n_outputs=2, rows=(20, 25), held_out=0.3)
    W, b = minimise_l1(block, LOSSES.get("squared"), 0.1, fit_intercept=False)
    assert not b.any()
    for i in range(4):
        kept = block.weights[block.rows(i)] > 0
        X, Y = block.X[block.rows(i)][kept], block.y[block.rows(i)][kept]
        for o in range(2):
            reference = Lasso(alpha=0.1, fit_intercept=False, tol=1e-12, max_iter=100_000).fit(X, Y[:, o])
            np.testing.assert_allclose(W[i, o], reference.coef_, atol=1e-5)


def test_cross_validation_equals_refitting_by_hand():
    block = make_block("classification", n_tasks=4, rows=(15, 20), noise=3.0)
    loss, folds = LOSSES.get("logistic"), block.folds(3)
    got = cross_validated_l1(block, loss, np.array([0.2, 0.02]), folds, tol=1e-9)
    for k, strength in enumerate([0.2, 0.02]):
        held = np.zeros(block.n_rows)
        for fold in range(3):
            W, b = minimise_l1(block.with_mask(folds != fold), loss, strength)
            held[folds == fold] = loss.value(block.scores(W, b), block.y)[folds == fold, 0]
        np.testing.assert_allclose(got[k], block.means_by_task(held), rtol=1e-4)
