"""The multi-task SVM by another library: liblinear on the stacked features (x, 0.., x/sqrt(C2), ..0); and random problems."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import LinearSVC, LinearSVR

INSENSITIVITY = 0.1


@dataclass(frozen=True)
class Problem:
    X: np.ndarray
    y: np.ndarray  # -1/+1 or numbers
    offsets: np.ndarray
    classification: bool

    @property
    def task(self) -> np.ndarray:
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))


def random_problem(seed: int, classification: bool) -> Problem:
    """2 to 6 related tasks of unequal size; nothing separable on purpose."""
    rng = np.random.default_rng(seed)
    m, d = int(rng.integers(2, 7)), int(rng.integers(2, 8))
    sizes = rng.integers(4, 40, m)
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    W = rng.standard_normal(d) + 0.5 * rng.standard_normal((m, d))
    X = rng.standard_normal((offsets[-1], d))
    z = np.einsum("nd,nd->n", X, np.repeat(W, sizes, axis=0)) + rng.standard_normal(offsets[-1])
    return Problem(X, np.where(z > 0, 1.0, -1.0) if classification else z, offsets, classification)


def stacked(X: np.ndarray, offsets: np.ndarray, C2: float) -> sparse.csr_matrix:
    blocks = [X[a:b] / np.sqrt(C2) for a, b in pairwise(offsets)]
    return sparse.hstack([sparse.csr_matrix(X), sparse.block_diag(blocks)], format="csr")


def objective(problem: Problem, w: np.ndarray, V: np.ndarray, C1: float, C2: float) -> float:
    """P(w, v) written out."""
    scores = np.einsum("nd,nd->n", problem.X, (w + V)[problem.task])
    if problem.classification:
        losses = np.maximum(0.0, 1.0 - problem.y * scores)
    else:
        losses = np.maximum(0.0, np.abs(scores - problem.y) - INSENSITIVITY)
    return 0.5 * float(w @ w) + 0.5 * C2 * float(np.sum(V * V)) + C1 * float(losses.sum())


def liblinear(X: np.ndarray | sparse.csr_matrix, y: np.ndarray, classification: bool, C1: float) -> np.ndarray:
    """Coefficients of a plain linear SVM without intercept, as exact as liblinear gets."""
    common = {"C": C1, "fit_intercept": False, "tol": 1e-10, "max_iter": 300_000, "dual": True, "random_state": 0}
    if classification:
        model = LinearSVC(loss="hinge", **common)
    else:
        model = LinearSVR(loss="epsilon_insensitive", epsilon=INSENSITIVITY, **common)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        return model.fit(X, y).coef_.ravel()


def optimum(problem: Problem, C1: float, C2: float) -> float:
    """The optimal objective by liblinear on the stacked features.

    liblinear's shrinking sometimes stalls above the optimum of an SVR for ever (and says so); then SciPy solves the dual.
    """
    d = problem.X.shape[1]
    S = stacked(problem.X, problem.offsets, C2)
    try:
        c = liblinear(S, problem.y, problem.classification, C1)
    except ConvergenceWarning:
        return dual_optimum(S.toarray(), problem, C1)
    return objective(problem, c[:d], c[d:].reshape(-1, d) / np.sqrt(C2), C1, C2)


def dual_optimum(S: np.ndarray, problem: Problem, C1: float) -> float:
    """max of sum(t b - e |b|) - |S'b|^2/2 over the box, b = positive part - negative part, by L-BFGS-B."""
    n, e = len(S), 0.0 if problem.classification else INSENSITIVITY
    signs = problem.y if problem.classification else None

    def negative(z: np.ndarray) -> tuple[float, np.ndarray]:
        b = z * signs if signs is not None else z[:n] - z[n:]
        r = S.T @ b
        slope = S @ r - problem.y
        value = 0.5 * r @ r - problem.y @ b + e * z.sum()
        return value, slope * signs if signs is not None else np.concatenate([slope + e, -slope + e])

    size = n if signs is not None else 2 * n
    options = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-10, "maxcor": 50}
    found = minimize(negative, np.zeros(size), jac=True, method="L-BFGS-B", bounds=[(0.0, C1)] * size, options=options)
    return -float(found.fun)
