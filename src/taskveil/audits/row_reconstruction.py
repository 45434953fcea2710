"""Rows of a task, reconstructed by a curious server: from un-noised gradients, and from masked SVM updates.

Gradients   the mean gradient of a linear model is g(w) = (1/n) X'(Xw - y). A server that chooses what it broadcasts reads
            X'X/n and X'y/n from d + 1 answers (g(0) and g(e_j) - g(0)); of a task with a single row that is the row itself,
            up to its sign: the leading eigenvector of x x' times its length. Clipped to C and with the noise of one release
            per answer at epsilon 1, the same computation returns noise.
Masks       The server of a federated SVM holds dw_k = sum_i p_i h_i x_i, a combination of participant k's own rows, round after
            round; Ponomarenko-Timofeev et al., section 6, propose random masks p as protection. Who knows all rows of k but one
            (the adversary of differential privacy) removes their span from an update: what is left is a multiple of the
            unknown row's own part. Masks change its length, not its direction. Against the private method the same attack
            reads clipped v_k plus Gaussian noise (aggregation 'local', which is what a server sees there).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.audits.gallery import Attack, bars
from taskveil.methods.base import Method, PublicInfo
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.plan import Budget, Plan, PlannedRelease, Request, make_plan
from taskveil.privacy.randomness import NoiseSource, insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount, release
from taskveil.runtime.run import assemble
from taskveil.tasks.block import TaskBlock

FEATURES = 12
RELATIVE_RANK = 1e-8


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
        updates = watched_updates(method, block, 0, budget, rounds, seed)
        cosines[name] = [row_recovery(updates, X[:n], i) for i in range(n)]
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


# ------------------------------------------- what a server holds of one participant, and what it says of an unknown row


def watched_updates(method: Method, block: TaskBlock, participant: int, budget: Budget, rounds: int, seed: int = 0) -> np.ndarray:
    """What the server reads from one participant, (rounds, size), in a simulated run with seeded noise."""
    public = PublicInfo(block.n_tasks, block.n_features, block.n_outputs, block.kind)
    plan = assemble(method, public, budget).plan
    source, account, watcher = insecure_seeded_noise(seed), MemoryAccount(), MemoryAccount()
    tasks, server = method.task_side(block, public, plan), method.server_side(public, plan)
    state = tasks.start()
    server_state, billboard = server.start()
    account.reserve(plan)
    watcher.reserve(plan)  # the one message that is watched is noised as it would be when it leaves its task
    seen = []
    for number, (_, planned) in enumerate(plan.rounds()):
        if number == rounds:
            break
        state, message = tasks.step(state, billboard.view(None))
        noisy = {p.name: _released(p, message[p.name], account, source, plan) for p in planned}
        first = planned[0]
        own = message[first.name][participant : participant + 1]
        seen.append(_released(first, own, watcher, source, plan, [participant]))
        server_state, billboard = server.step(server_state, noisy, np.ones(block.n_tasks, dtype=bool))
        if billboard.done:
            break
    return np.stack(seen).reshape(len(seen), -1)


def recovered_direction(updates: np.ndarray, known_rows: np.ndarray) -> np.ndarray:
    """What the updates say about one unknown row, beyond the span of the known ones: a unit vector, or zero."""
    basis = span(fitted(known_rows, updates.shape[1]))
    rest = updates - (updates @ basis.T) @ basis
    _, lengths, directions = np.linalg.svd(rest, full_matrices=False)
    scale = np.linalg.norm(updates, axis=1).max(initial=0.0)
    return directions[0] if lengths.size and lengths[0] > 1e-7 * scale else np.zeros(updates.shape[1])


def row_recovery(updates: np.ndarray, rows: np.ndarray, unknown: int) -> float:
    """|cosine| between the recovered direction and the unknown row's part outside the span of the others; 1 is exact."""
    wide = fitted(rows, updates.shape[1])
    known_rows = np.delete(wide, unknown, axis=0)
    basis = span(known_rows)
    truth = wide[unknown] - basis.T @ (basis @ wide[unknown])
    guess = recovered_direction(updates, known_rows)
    size = float(np.linalg.norm(truth))
    return abs(float(guess @ truth)) / size if size > 0 else 0.0


def span(vectors: np.ndarray) -> np.ndarray:
    """Orthonormal basis (rank, size) of the rows of a matrix."""
    _, lengths, directions = np.linalg.svd(vectors, full_matrices=False)
    return directions[lengths > RELATIVE_RANK * lengths.max(initial=0.0)]


def fitted(rows: np.ndarray, size: int) -> np.ndarray:
    """Rows with the constant feature where the updates have an intercept."""
    rows = np.asarray(rows, dtype=np.float64)
    return rows if rows.shape[1] == size else np.column_stack([rows, np.ones(len(rows))])


def _released(
    planned: PlannedRelease,
    raw: np.ndarray,
    account: MemoryAccount,
    source: NoiseSource,
    plan: Plan,
    names: list[int] | None = None,
) -> np.ndarray:
    return release(planned, planned.contribution.clip(raw), account, source, plan.budget.aggregation, names).value
