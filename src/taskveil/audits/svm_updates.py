"""A curious server against the federated SVM: membership and rows from un-masked, masked and private updates.

What the server holds is dw_k = sum_i p_i h_i x_i, a combination of participant k's own rows, round after round. Two attacks, both
blind to the masks p (Ponomarenko-Timofeev et al., section 6, propose them as protection):

membership   the updates of T rounds span a space inside the span of the rows. A candidate row is scored by the share of its
             squared length inside that space. With d > n_k and T large every row that ever moved lies inside, whatever p was;
             fresh random masks make the updates *more* varied, and the span complete sooner.
a row        an adversary who knows all rows of k but one (the adversary of differential privacy) removes their span from
             an update: what is left is a multiple of the unknown row's own part. Masks change its length, not its direction.

Against the private method the same attacks read clipped v_k plus Gaussian noise (aggregation 'local', which is what a server
sees there). The figures are simulations on known rows; they refute claims and prove none.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from taskveil.methods.base import Method, PublicInfo
from taskveil.privacy.plan import Budget, Plan, PlannedRelease
from taskveil.privacy.randomness import NoiseSource, insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount, release
from taskveil.runtime.run import assemble
from taskveil.tasks.block import TaskBlock

RELATIVE_RANK = 1e-8


@dataclass(frozen=True)
class Membership:
    """Scores of member and other rows, and how well they separate."""

    member_scores: list[float]
    other_scores: list[float]
    auc: float
    tpr_at_1_percent: float
    rounds: int

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


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


def membership(updates: np.ndarray, members: np.ndarray, others: np.ndarray) -> Membership:
    """Span test for candidate rows (c, d); a constant feature is appended where the updates have one."""
    basis = span(updates)
    inside, outside = (share_inside(basis, fitted(rows, updates.shape[1])) for rows in (members, others))
    threshold = np.quantile(outside, 0.99)
    return Membership(
        inside.tolist(), outside.tolist(), area_under_curve(inside, outside),
        float(np.mean(inside > threshold)), len(updates),
    )  # fmt: skip


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


# ---------------------------------------------------------------- pieces


def span(vectors: np.ndarray) -> np.ndarray:
    """Orthonormal basis (rank, size) of the rows of a matrix."""
    _, lengths, directions = np.linalg.svd(vectors, full_matrices=False)
    return directions[lengths > RELATIVE_RANK * lengths.max(initial=0.0)]


def share_inside(basis: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """|projection|^2 / |row|^2."""
    squares = np.einsum("nd,nd->n", rows, rows)
    return np.sum((rows @ basis.T) ** 2, axis=1) / np.maximum(squares, 1e-300)


def fitted(rows: np.ndarray, size: int) -> np.ndarray:
    """Rows with the constant feature where the updates have an intercept."""
    rows = np.asarray(rows, dtype=np.float64)
    return rows if rows.shape[1] == size else np.column_stack([rows, np.ones(len(rows))])


def area_under_curve(positive: np.ndarray, negative: np.ndarray) -> float:
    """Probability that a member scores above another row (ties count half)."""
    order = np.argsort(np.concatenate([positive, negative]), kind="stable")
    values = np.concatenate([positive, negative])[order]
    ranks = np.empty(order.size)
    edges = np.flatnonzero(np.concatenate([[True], np.diff(values) > 0, [True]]))
    for a, b in pairwise(edges):
        ranks[order[a:b]] = (a + b + 1) / 2.0
    n = len(positive)
    return float((ranks[:n].sum() - n * (n + 1) / 2.0) / (n * len(negative)))


def _released(
    planned: PlannedRelease,
    raw: np.ndarray,
    account: MemoryAccount,
    source: NoiseSource,
    plan: Plan,
    names: list[int] | None = None,
) -> np.ndarray:
    return release(planned, planned.contribution.clip(raw), account, source, plan.budget.aggregation, names).value
