"""One run, many canaries (Steinke, Nasr, Jagielski 2023): for methods too expensive to run thousands of times.

Every task is a canary: a fair coin decides whether it is there (world 1) or replaced (world 0). All coins are tossed once,
the method runs once, and the attacker guesses the coins from what the observer sees. Canary i's rows point along axis i, so
its message does too; its score is the sum over rounds of coordinate i. He abstains on the middle ones. How many of the
guesses may be right is bounded by the theorem (lower_bound.one_run_bound).

Weak at small epsilon, where even a perfect attacker is right little more than half of the time; strong against missing
noise and missing clipping, at the price of one run.
"""

from __future__ import annotations

import secrets
from typing import Any

import numpy as np

from taskveil.audits.canaries import LARGE
from taskveil.audits.lower_bound import FALSE_ALARM, one_run_bound
from taskveil.audits.methods import World, _trained, claim_of, simulation_of
from taskveil.audits.observe import Transcript
from taskveil.audits.result import AuditResult, verdict
from taskveil.errors import OptionError
from taskveil.estimators.base import TaskEstimator
from taskveil.tasks.task import TaskSet

GUESSED = 0.5  # share of the canaries on which the attacker does not abstain
ROWS = 4


def audit_one_run(
    estimator: TaskEstimator, *, canaries: int = 100, seed: int | None = None, view: str = "releases"
) -> AuditResult:
    """Attack one run of a method that sums vectors of model size (mean, fedavg, fedprox, pp-sgd, dp-aggr)."""
    est: Any = simulation_of(estimator)
    key = secrets.randbits(40) if seed is None else int(seed)
    coins = np.random.default_rng(key).integers(0, 2, canaries).astype(bool)
    opposite = str(est.neighbours) == "replace-one"
    est.insecure_noise_seed = key
    tasks = canary_tasks(coins, opposite, est._kind)
    world = World.of(est, _trained(est, tasks), "server" if view == "releases" else str(est.observer))
    world.run(key)
    scores = _scores(world.transcript, canaries, world.log.plan.releases[0].contribution.bound)
    claim = claim_of(world.trained)
    assert claim is not None
    middle = 0.0 if opposite else None
    right, guesses = guess(scores, coins, middle)
    bound, sure = (one_run_bound(canaries, guesses, right, claim["delta"], a) for a in (0.05, FALSE_ALARM))
    return AuditResult(
        world.log.method.name, claim["epsilon"], claim["delta"], bound, 0.95, f"one run, {canaries} canaries", 1,
        verdict(sure, claim["epsilon"]), sure, claim["neighbours"], claim["unit"], claim["observer"], est.variant, key,
        {"canaries": canaries, "guesses": guesses, "correct": right},
    )  # fmt: skip


def canary_tasks(coins: np.ndarray, opposite: bool, kind: str) -> TaskSet:
    """Task i's rows are +-e_i; its target is LARGE along it where the coin says so, else zero or the opposite."""
    if kind != "regression":
        raise OptionError("one-run audits use regression canaries; audit a TaskRegressor with the same method")
    m = len(coins)
    of_task = np.repeat(np.arange(m), ROWS)
    X = np.zeros((m * ROWS, m))
    X[np.arange(len(X)), of_task] = np.tile([1.0, -1.0], len(X) // 2)
    size = np.where(coins, 1.0, -1.0 if opposite else 0.0)
    y = LARGE * size[of_task] * X[np.arange(len(X)), of_task]
    return TaskSet.from_arrays(X, y, np.array([f"t{i:05d}" for i in of_task], dtype=object), kind="regression")


def guess(scores: np.ndarray, coins: np.ndarray, middle: float | None) -> tuple[int, int]:
    """Correct guesses and guesses: the highest and lowest scores; around zero, or half of them each way."""
    order = np.argsort(scores)
    each = max(int(GUESSED * len(scores) / 2), 1)
    low, high = order[:each], order[-each:]
    if middle is not None:
        low, high = low[scores[low] < middle], high[scores[high] > middle]
    return int((~coins[low]).sum() + coins[high].sum()), len(low) + len(high)


def _scores(transcript: Transcript, canaries: int, bound: float) -> np.ndarray:
    """Sum over rounds of what every canary's coordinate received."""
    total = np.zeros(canaries)
    for seen in transcript.rounds:
        for value in seen.values():
            if value.size >= canaries:
                total += np.ravel(value)[:canaries] / bound
    return total
