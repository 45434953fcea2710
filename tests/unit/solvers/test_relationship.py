import numpy as np
import pytest
from scipy.optimize import minimize
from tests.support.blocks import make_block
from tests.support.certificates import relationship_bounds
from tests.support.relationship_solver import alternate, relationship_optimum

from taskveil.losses import LOSSES
from taskveil.structures import STRUCTURES

KIND = {"squared": "regression", "logistic": "classification"}


def joint_objective(block, loss, penalty, W, b, omega):
    """Zhang & Yeung's objective, from its definition."""
    V = W[:, 0].T
    fit = block.means_by_task(loss.value(block.scores(W, b), block.y)).sum()
    return fit + 0.5 * penalty * np.trace(V @ np.linalg.solve(omega, V.T))


def independent_optimum(block, loss, penalty):
    """L-BFGS over (W, b, factor of Omega): the joint problem without closed forms or proximal maps."""
    m, d = block.n_tasks, block.n_features
    rng = np.random.default_rng(0)

    def unpack(v):
        W, b = v[: m * d].reshape(m, 1, d), v[m * d : m * d + m].reshape(m, 1)
        root = v[m * d + m :].reshape(m, m)
        return W, b, root

    def objective(v):
        W, b, root = unpack(v)
        omega = root @ root.T + 1e-9 * np.eye(m)
        size = np.trace(omega)
        inverse = np.linalg.inv(omega)
        V = W[:, 0].T
        quadratic = np.sum((V @ inverse) * V)
        scores = block.scores(W, b)
        share = block.row_weights[:, None]
        u = loss.derivative(scores, block.y) * share
        grad_W = block.sums_by_task(u * block.X)[:, None] + penalty * size * (V @ inverse).T[:, None]
        inner = inverse @ V.T @ V @ inverse
        grad_root = penalty * (quadratic * np.eye(m) - size * inner) @ root
        value = np.sum(share * loss.value(scores, block.y)) + 0.5 * penalty * size * quadratic
        return value, np.concatenate([grad_W.ravel(), block.sums_by_task(u).ravel(), grad_root.ravel()])

    start = np.concatenate([0.1 * rng.standard_normal(m * d), np.zeros(m), np.eye(m).ravel()])
    options = {"maxiter": 20_000, "maxfun": 40_000, "ftol": 1e-15, "gtol": 1e-10}
    return minimize(objective, start, jac=True, method="L-BFGS-B", options=options).fun


@pytest.mark.parametrize("tasks", [5, 20])
@pytest.mark.parametrize("loss", KIND)
def test_the_joint_optimum_is_certified_to_1e_6(loss, tasks):
    """A dual point built row by row bounds the optimum from below; fewer and more tasks than features."""
    block = make_block(KIND[loss], n_tasks=tasks, n_features=8, rows=(10, 25), shift=2.0, noise=3.0, seed=7)
    sol = relationship_optimum(block, LOSSES.get(loss), 0.02, tol=1e-8)
    objective, below = relationship_bounds(block, loss, sol.W[:, 0].T, sol.intercepts[:, 0], 0.02)
    assert objective == pytest.approx(sol.objective, rel=1e-10)
    assert objective - below <= 1e-6 * objective
    worse, below = relationship_bounds(block, loss, 1.02 * sol.W[:, 0].T, sol.intercepts[:, 0], 0.02)
    assert worse - below > 1e-6 * worse


@pytest.mark.parametrize("loss", KIND)
def test_the_joint_optimum_agrees_with_an_independent_optimiser(loss):
    block = make_block(KIND[loss], n_tasks=4, n_features=6, rows=(15, 25), noise=3.0, seed=1)
    l = LOSSES.get(loss)
    ours = relationship_optimum(block, l, 0.1, tol=1e-9)
    theirs = independent_optimum(block, l, 0.1)
    assert 0.0 <= ours.gap <= 1e-6 * ours.objective
    assert ours.objective <= theirs * (1.0 + 1e-9)
    assert theirs <= ours.objective * (1.0 + 3e-3)  # L-BFGS stalls where Omega loses rank


def test_the_returned_covariance_attains_the_objective():
    block = make_block(n_tasks=4, rows=(15, 25), noise=3.0)
    sol = relationship_optimum(block, LOSSES.get("squared"), 0.05, tol=1e-8)
    omega = sol.omega + 1e-9 * np.eye(4)
    value = joint_objective(block, LOSSES.get("squared"), 0.05, sol.W, sol.intercepts, omega)
    assert value == pytest.approx(sol.objective, rel=1e-4)
    assert np.trace(sol.omega) == pytest.approx(1.0)


@pytest.mark.parametrize("loss", KIND)
def test_the_published_alternation_descends_to_the_same_optimum(loss):
    """With fewer tasks than features; with more it is slow, and the module says so."""
    block = make_block(KIND[loss], n_tasks=4, n_features=6, rows=(15, 25), noise=3.0, seed=1)
    l = LOSSES.get(loss)
    best = relationship_optimum(block, l, 0.1, tol=1e-9)
    few, many = alternate(block, l, 0.1, rounds=5, tol=0.0), alternate(block, l, 0.1, rounds=80, tol=0.0)
    assert best.objective <= many.objective * (1.0 + 1e-9)
    assert many.objective < few.objective
    assert many.objective <= best.objective * (1.0 + 1e-3)
    assert many.rounds == 80


def test_several_outputs_share_one_task_covariance():
    block = make_block(n_tasks=4, n_outputs=2, rows=(15, 25))
    sol = relationship_optimum(block, LOSSES.get("squared"), 0.05)
    assert sol.omega.shape == (4, 4) and sol.W.shape == (4, 2, block.n_features)
    structure = STRUCTURES.get("relationship")
    assert structure.matrix(sol.W).shape == (2 * block.n_features, 4)
