import numpy as np
import pytest
from tests.support.blocks import make_block

from taskveil.losses import LOSSES
from taskveil.solvers import lipschitz
from taskveil.solvers.evidence import Prior, averaged_models
from taskveil.solvers.lipschitz import largest_eigenvalues, task_lipschitz
from taskveil.solvers.solved_once import solved_once


@pytest.mark.parametrize("slack", [0.3, 0.05, 0.01])
def test_bounds_are_never_below_the_largest_eigenvalue_and_within_the_slack(slack):
    rng = np.random.default_rng(0)
    for p in (1, 2, 7, 30):
        roots = rng.standard_normal((20, p, p + 3)) * 10.0 ** rng.uniform(-3, 3, (20, 1, 1))
        roots[3] = rng.standard_normal((p, 1)) * np.ones((1, p + 3))  # rank one
        A = roots @ roots.transpose(0, 2, 1)
        A[4] = np.eye(p)  # all eigenvalues equal: the hardest for a norm of powers
        exact = np.linalg.eigvalsh(A)[:, -1]
        bound = largest_eigenvalues(A, slack)
        assert np.all(bound >= exact)
        assert np.all(bound <= exact * (1.0 + slack) * (1.0 + 1e-4))


def test_zero_matrices_have_bound_zero():
    np.testing.assert_array_equal(largest_eigenvalues(np.zeros((2, 3, 3))), [0.0, 0.0])


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("held_out", [0.0, 0.4])
def test_task_constants_bound_the_curvature_of_the_mean_loss(centred, held_out):
    block = make_block("classification", n_tasks=15, rows=(2, 14), held_out=held_out, seed=3)
    got = task_lipschitz(block, LOSSES.get("logistic"), centred)
    for i in range(block.n_tasks):
        X = block.X[block.rows(i)]
        if block.weights is not None:
            X = X[block.weights[block.rows(i)] > 0]
        if len(X) == 0:
            assert got[i] == 0.0
            continue
        X = X - X.mean(axis=0) if centred else X
        exact = 0.25 * np.linalg.norm(X, 2) ** 2 / len(X)
        assert exact <= got[i] + 1e-15 and got[i] <= 1.11 * exact + 1e-15


def test_equal_rows_have_no_curvature_once_centred():
    """Their mean is off by a rounding, and 1 / the square of that is not a step."""
    block = make_block(n_tasks=3, rows=(40, 60))
    block.X[block.rows(1)] = 1.0 / 3.0
    got = task_lipschitz(block, LOSSES.get("squared"), centred=True)
    assert got[1] == 0.0 and (got[[0, 2]] > 0.1).all()


def test_a_task_gets_the_same_bound_alone_and_among_others():
    block = make_block(n_tasks=40, n_features=9, rows=(2, 20), held_out=0.2)
    together = task_lipschitz(block, LOSSES.get("squared"), centred=True)
    alone = [task_lipschitz(block.take([i]), LOSSES.get("squared"), centred=True)[0] for i in range(40)]
    np.testing.assert_array_equal(together, alone)


@pytest.mark.parametrize("rows", [(1, 8), (9, 40), (60, 90)])
def test_curvature_of_squared_loss_is_certain_and_close(rows):
    block = make_block(n_tasks=20, n_features=36, rows=rows, held_out=0.2, seed=1)
    got = task_lipschitz(block, LOSSES.get("squared"), centred=True)
    for i in range(block.n_tasks):
        X = block.X[block.rows(i)][block.weights[block.rows(i)] > 0]
        exact = np.linalg.norm(X - X.mean(axis=0), 2) ** 2 / len(X) if len(X) > 1 else 0.0
        assert exact * (1 - 1e-12) <= got[i] <= 1.0011 * exact


@pytest.mark.parametrize("outputs", [1, 2])
def test_learning_alone_puts_aside_the_very_curvature_that_is_found_without_it(outputs, monkeypatch):
    """A run that is resumed has not learnt alone, and must take the same steps."""
    block = make_block(n_tasks=20, n_features=36, n_outputs=outputs, rows=(1, 90), held_out=0.2, seed=1)
    apart = task_lipschitz(block, LOSSES.get("squared"), centred=True)
    with solved_once():
        averaged_models(block, [Prior()], "squared")
        monkeypatch.setattr(lipschitz, "_steepest", lambda *_: pytest.fail("found again"))
        np.testing.assert_array_equal(task_lipschitz(block, LOSSES.get("squared"), centred=True), apart)
