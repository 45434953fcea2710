"""Audit of a run that was killed after its noise was drawn, and resumed: the same release is made, and seen, twice.

The rows may have been corrected in between, so the two messages may differ; both totals left the machine and both are
charged. With fresh noise that is two releases. With the same noise their difference shows the change exactly.
World 1: the canary sends K, then 0. World 0: it sends nothing both times (add-remove).
"""

from __future__ import annotations

import secrets
from collections import Counter

import numpy as np

from taskveil import methods
from taskveil.audits import statistics
from taskveil.audits.result import AuditResult, Progress, search
from taskveil.methods.base import PublicInfo
from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.plan import Budget, Plan, PlannedRelease, Request, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.privacy.release import MemoryAccount
from taskveil.privacy.units import Neighbours
from taskveil.runtime.round import released
from taskveil.runtime.run import Run

DIMENSION = 2


def audit_resume(
    epsilon: float = 1.0, delta: float = 1e-5, trials: int = 4000, seed: int | None = None, progress: Progress | None = None
) -> AuditResult:
    """Attack the runtime's own path for a release that is made a second time."""
    key = secrets.randbits(40) if seed is None else int(seed)
    budget = Budget(epsilon, delta, neighbours=Neighbours.ADD_REMOVE)
    what = VectorSum((DIMENSION,), 1.0)
    twice = make_plan([Request("update", 1, what), Request("update", 2, what)], budget)  # two releases are paid for
    planned = twice.releases[0]
    messages = (np.zeros((2, 1, DIMENSION)), np.array([[[1.0, 0.0]], [[0.0, 0.0]]]))

    def sampler(world: int, begin: int, count: int) -> np.ndarray:
        numbers = (2 * (key * 1_000_003 + i) + world for i in range(begin, begin + count))
        return np.stack([_seen(planned, budget, messages[world], n) for n in numbers])

    def scores(first: np.ndarray, second: np.ndarray) -> dict[str, statistics.Score]:
        return {
            "learned direction": statistics.discriminant(first, second),
            "difference of the two attempts": lambda x: x[:, 0] - x[:, DIMENSION],
        }

    found = search(sampler, scores, epsilon, delta, trials, progress=progress)
    return AuditResult(
        target="resume", delta=delta, **found.fields(epsilon), neighbours="add-remove", seed=key,
    )  # fmt: skip


def _seen(planned: PlannedRelease, budget: Budget, messages: np.ndarray, seed: int) -> np.ndarray:
    """Both totals of one release that was made, lost with the process, and made again."""
    source = insecure_seeded_noise(seed)
    made: Counter[str] = Counter()
    seen: list[np.ndarray] = []
    plan = Plan((planned,), budget)
    for message in messages:
        run = Run(methods.get("mean"), PublicInfo(len(message), DIMENSION, 1, "regression"), plan, MemoryAccount(), source)
        run.account.reserve(plan)
        noisy = released(run, [planned], {planned.name: message}, tries=made)
        seen.append(noisy[planned.name])
    return np.concatenate(seen)
