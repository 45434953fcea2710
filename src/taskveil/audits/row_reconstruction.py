"""Rows of a task, reconstructed by a curious server: from un-noised gradients, and from masked SVM updates.

Gradients   the mean gradient of a linear model is g(w) = (1/n) X'(Xw - y). A server that chooses what it broadcasts reads
            X'X/n and X'y/n from d + 1 answers (g(0) and g(e_j) - g(0)); of a task with a single row that is the row itself,
            up to its sign: the leading eigenvector of x x' times its length. Clipped to C and with the noise of one release
            per answer at epsilon 1, the same computation returns noise.
Masks       Ponomarenko-Timofeev et al., section 6, multiply SVM updates by random masks; svm_updates.py removes the span of
            known rows and finds the direction of the unknown one, whatever the masks were.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.audits import svm_updates
from taskveil.audits.gallery import Attack, bars
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.plan import Budget, Request, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount, release

FEATURES = 12


def gradient_reconstruction(epsilon: float = 1.0, seed: int = 0) -> Attack:
    """|cosine| between a task's only row and what its gradients say, without noise and with it."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=FEATURES), rng.normal()
    points = np.vstack([np.zeros(FEATURES), np.eye(FEATURES)])  # what the server broadcasts
    answers = (points @ x - y)[:, None] * x
    plain, private = "un-noised gradients", f"private, epsilon {epsilon:g}"
    guesses = {plain: _row_from(answers), private: _row_from(_noised(answers, epsilon, seed))}
    if guesses[plain] @ x < 0:  # the sign of one row alone is not identified
        guesses[plain] *= -1
    cosines = {name: abs(float(g @ x)) / float(np.linalg.norm(g) * np.linalg.norm(x)) for name, g in guesses.items()}
    sentence = (
        f"A server reads a task's only row from {FEATURES + 1} un-noised gradients (|cosine| {cosines[plain]:.3f}); "
        f"from clipped, noised ones it reads noise ({cosines[private]:.3f})."
    )
    data = {"cosine": cosines, "row": x.tolist(), "guesses": {k: g.tolist() for k, g in guesses.items()}}
    title = "A row, and what gradients say of it"
    return Attack("row-from-gradients", sentence, data, lambda: _bars({"the row": x, **guesses}, title))


def _row_from(answers: np.ndarray) -> np.ndarray:
    second_moment = answers[1:] - answers[0]
    values, vectors = np.linalg.eigh((second_moment + second_moment.T) / 2)
    return vectors[:, -1] * np.sqrt(max(float(values[-1]), 0.0))


def _noised(answers: np.ndarray, epsilon: float, seed: int) -> np.ndarray:
    """Every answer clipped and released, all of them within one budget."""
    what = VectorSum((FEATURES,), 1.0)
    requests = [Request("gradient", t + 1, what) for t in range(len(answers))]
    plan = make_plan(requests, Budget(epsilon, 1e-5, aggregation="local"))
    account, source = MemoryAccount(), insecure_seeded_noise(seed)
    account.reserve(plan)
    pairs = zip(plan.releases, answers, strict=True)
    return np.stack([release(p, what.clip(g[None]), account, source, "local").value for p, g in pairs])


def masked_update_reconstruction(rounds: int = 40, seed: int = 0) -> Attack:
    """|cosine| between an unknown row and what masked and private SVM updates say about it."""
    from taskveil.methods.svm.masks import Masks
    from taskveil.methods.svm.method import Svm
    from taskveil.tasks.block import TaskBlock

    rng = np.random.default_rng(seed)
    m, n = 3, 6
    X = rng.normal(size=(m * n, 2 * n))
    y = np.where(X[:, 0] + 0.3 * rng.normal(size=m * n) > 0, 1.0, -1.0)[:, None]
    block = TaskBlock(X, y, np.arange(m + 1, dtype=np.int64) * n, None, "classification")
    views = {
        "masked updates": (
            Svm(rounds=rounds, coordinator="safe", local_passes=1, masks=Masks(("bernoulli", 0.5), seed=seed), tol=0.0),
            Budget(None, 1e-5),
        ),
        "private updates, epsilon 1": (Svm(rounds=5), Budget(1.0, 1e-5, aggregation="local")),
    }
    cosines = {}
    for name, (method, budget) in views.items():
        updates = svm_updates.watched_updates(method, block, 0, budget, rounds, seed)
        cosines[name] = [svm_updates.row_recovery(updates, X[:n], i) for i in range(n)]
    means = {name: float(np.mean(v)) for name, v in cosines.items()}
    sentence = (
        f"Who knows all rows of a participant but one finds the direction of the last from masked SVM updates (mean |cosine| "
        f"{means['masked updates']:.3f}); from private ones |cosine| {means['private updates, epsilon 1']:.3f}."
    )
    return Attack("row-from-masked-updates", sentence, {"cosine": cosines}, lambda: _points(cosines))


def _bars(rows: dict[str, np.ndarray], title: str) -> dict[str, Any]:
    return bars({name: values.tolist() for name, values in rows.items()}, [f"feature {j + 1}" for j in range(FEATURES)], title)


def _points(cosines: dict[str, list[float]]) -> dict[str, Any]:
    data = [{"type": "box", "name": name, "y": values, "boxpoints": "all"} for name, values in cosines.items()]
    return {"data": data, "layout": {"title": {"text": "How well the direction of an unknown row is found (1 is exact)"}}}
