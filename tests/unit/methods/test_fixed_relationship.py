"""A fixed public relationship: the optimum of its objective, its special cases, what one task can move."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.errors import OptionError
from taskveil.losses import LOSSES
from taskveil.methods.base import PublicInfo
from taskveil.privacy.plan import Budget
from taskveil.solvers.block_gradient import mean_gradients

PRIVATE = Budget(1.0, 1e-5)
KINDS = {"regression": tv.TaskRegressor, "classification": tv.TaskClassifier}


def fitted(kind="regression", tasks=None, method="fixed-relationship", **options):
    tasks = related_tasks(kind=kind, rows=(15, 25)) if tasks is None else tasks
    return KINDS[kind](tv.methods.get(method, **options), epsilon=None).fit(tasks)


def any_omega(m=12, seed=0):
    Z = np.random.default_rng(seed).standard_normal((m, 4))
    return Z @ Z.T / 4 + 0.1 * np.eye(m)


def off_optimum(est, omega, strength) -> float:
    """Largest entry of the gradient of sum l_k + (strength/2) tr(W Omega W'), from the rows themselves."""
    W, b = est.models_.coef, est.models_.intercept
    gradient = mean_gradients(est._training, W, b, LOSSES.get(est.record_.public.loss))[0]
    return float(np.abs(gradient + strength * np.einsum("ij,jrd->ird", omega, W)).max())


@pytest.mark.parametrize("kind", KINDS)
def test_any_omega_reaches_the_optimum_of_equation_1(kind):
    omega = any_omega()
    assert off_optimum(fitted(kind, omega=omega, strength=0.5, tol=1e-13), omega, 0.5) < 1e-6


def test_the_check_rejects_a_run_that_stops_early():
    omega = any_omega()
    assert off_optimum(fitted(omega=omega, strength=0.5, rounds=3, tol=0), omega, 0.5) > 1e-6


def test_all_tasks_alike_is_the_method_mean():
    one, other = fitted(strength=0.7), fitted(method="mean", strength=0.7)
    np.testing.assert_allclose(one.models_.coef, other.models_.coef, atol=1e-9)


def test_disjoint_clusters_are_the_method_mean_in_each_of_them():
    tasks = related_tasks(rows=(15, 25))
    clusters = [np.arange(4), np.arange(4, 12)]
    alike = np.zeros((12, 12))
    for members in clusters:
        alike[np.ix_(members, members)] = 1 / len(members)
    whole = fitted(tasks=tasks, omega=np.eye(12) - alike, strength=0.7).models_.coef
    for members in clusters:
        part = fitted(tasks=tasks.take_tasks(members), method="mean", strength=0.7).models_.coef
        np.testing.assert_allclose(whole[members], part, atol=1e-8)


def test_what_is_shared_has_the_noise_and_the_sensitivity_that_the_factor_promises():
    """Centres are B'Y: their noise has covariance s^2 A, and a task moves Y by at most the clip times sqrt(A_kk)."""
    omega, public = any_omega(), PublicInfo(12, 5, 1, "regression")
    method = tv.methods.get("fixed-relationship", omega=omega, clip=0.3)
    A = np.eye(12) - omega / np.linalg.eigvalsh(omega)[-1]
    weights, _, _ = method.factor(public)
    np.testing.assert_allclose(weights @ weights.T, A, atol=1e-8)
    (first, *_) = method.requests(public, PRIVATE)
    assert first.contribution.sensitivity("replace-one").l2 == pytest.approx(2 * 0.3 * np.sqrt(np.diag(A).max()))


def test_a_group_hides_its_members_behind_each_other():
    """One mean over m tasks: the noise of a centre falls like 1/m, where noising every model would leave 1/sqrt(m)."""
    for m in (4, 100):
        weights, _, _ = tv.methods.get("fixed-relationship").factor(PublicInfo(m, 5, 1, "regression"))
        sensitivity = np.linalg.norm(weights, axis=1).max()
        deviation = np.linalg.norm(weights, axis=1) * sensitivity
        np.testing.assert_allclose(deviation, 1 / m)


@pytest.mark.parametrize(
    ("omega", "words"),
    [
        (np.eye(3), "a row and a column for each of the 12 tasks"),
        (np.triu(np.ones((12, 12))), "symmetric"),
        (np.eye(12) - 0.5, "positive semidefinite"),
        (np.zeros((12, 12)), "not zero"),
        (np.full((12, 12), np.nan), "numbers"),
        ([["a"]], "a matrix of numbers, got list"),
        (2 * np.eye(12), "relates no tasks"),
    ],
)
def test_what_is_no_relationship_is_refused_before_rows_are_read(omega, words):
    with pytest.raises(OptionError, match=words):
        tv.methods.get("fixed-relationship", omega=omega).check(PublicInfo(12, 5, 1, "regression"), PRIVATE)
