"""Slow, obvious references for asynchronous multi-task learning."""

from __future__ import annotations

import numpy as np

from taskveil.losses import LOSSES
from taskveil.methods.async_mtl import AsyncMTL
from taskveil.methods.async_mtl.tasks import OwnProblem
from taskveil.methods.base import PublicInfo
from taskveil.privacy.plan import Budget, Plan, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount
from taskveil.runtime import virtual_clock
from taskveil.runtime.run import Run, RunRecord
from taskveil.solvers.block_gradient import mean_gradients_numpy
from taskveil.structures import STRUCTURES
from taskveil.tasks.block import TaskBlock


def make_block(n_tasks=6, n_features=4, rows=30, seed=0, kind="regression", rank=2) -> TaskBlock:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((n_tasks, rank)) @ rng.standard_normal((rank, n_features)) / np.sqrt(n_features)
    X = rng.uniform(-1, 1, (n_tasks * rows, n_features))
    y = np.einsum("nd,nd->n", X, np.repeat(W, rows, axis=0)) + 0.3 * rng.standard_normal(n_tasks * rows)
    y = y if kind == "regression" else np.where(y > 0, 1.0, -1.0)
    return TaskBlock(X, y, np.arange(n_tasks + 1) * rows, kind=kind)


def public_of(block: TaskBlock, **more) -> PublicInfo:
    sizes = tuple(int(n) for n in block.sizes)
    given = {"declared_bounds": True, "task_rows": sizes, **more}
    return PublicInfo(block.n_tasks, block.n_features, block.n_outputs, block.kind, **given)


def plan_of(method: AsyncMTL, public: PublicInfo, epsilon=None, delta=1e-5, unit="record", **more) -> Plan:
    method = method.under(unit, more.get("variant", "sound"))
    budget = method.adjust(Budget(epsilon, delta, unit, **{"neighbours": "add-remove", **more}))
    method.check(public, budget)
    return make_plan(method.requests(public, budget), budget)


def run(method: AsyncMTL, block: TaskBlock, plan: Plan, seed=1, public=None, account=None, **more) -> RunRecord:
    public = public or public_of(block)
    account, method = account or MemoryAccount(), method.under(str(plan.budget.unit), plan.budget.variant)
    return virtual_clock.run(Run(method, public, plan, account, insecure_seeded_noise(seed)), block, **more)


def objective(method: AsyncMTL, block: TaskBlock, P, Q, b) -> float:
    loss = LOSSES.get("squared" if block.kind == "regression" else "logistic")
    _, _, values = mean_gradients_numpy(block, P + Q, b, loss)
    r, g = (STRUCTURES.get(name) for name in (method.penalties().shared, method.penalties().own))
    return float(values.sum()) + method.shared_penalty * r.value(r.matrix(P)) + method.own_penalty * g.value(g.matrix(Q))


def synchronous_optimum(method: AsyncMTL, block: TaskBlock, iterations: int = 20_000) -> float:
    """Accelerated proximal gradient on (P, Q, b) at step 1/(2L), every map computed from scratch (full decomposition)."""
    loss = LOSSES.get("squared" if block.kind == "regression" else "logistic")
    pen = method.penalties()
    r, g = STRUCTURES.get(pen.shared), STRUCTURES.get(pen.own)
    step = 0.49 / OwnProblem(block, loss, pen, method.own_penalty, True).curvature().max()
    P = np.zeros((block.n_tasks, block.n_outputs, block.n_features))
    x = [P, P.copy(), np.zeros(P.shape[:2])]
    v, t = list(x), 1.0
    for _ in range(iterations):
        G, gb, _ = mean_gradients_numpy(block, v[0] + v[1], v[2], loss)
        new = [
            r.models(r.prox(r.matrix(v[0] - step * G), step * method.shared_penalty), P.shape),
            g.models(g.prox(g.matrix(v[1] - step * G), step * method.own_penalty), P.shape),
            v[2] - step * gb,
        ]
        uphill = sum(((a - b) * (b - c)).sum() for a, b, c in zip(v, new, x)) > 0
        t = 1.0 if uphill else t
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        v = [b + (t - 1) / following * (b - c) for b, c in zip(new, x)]
        moved = max(float(np.abs(b - c).max()) for b, c in zip(new, x))
        x, t = new, following
        if moved < 1e-10:
            break
    return objective(method, block, *x)
