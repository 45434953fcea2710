"""Two runs are enough where every release is visible: each release is an experiment of its own.

Nasr, Hayes, Steinke, Balle, Tramer, Jagielski, Carlini, Terzis 2023 (arXiv:2302.07956), section 6: an attacker who sees all
releases need not repeat the run. One run of each neighbour with T releases gives T scores of each, n runs nT. Here a score is the
likelihood ratio of one release at the billboards that were seen (both_worlds.py), around the middle of both neighbours.

**Bound.** The threshold is the middle, fixed beforehand. If releases of one kind are at most mu-Gaussian DP each, whatever came
before, the score is above it with probability at most Phi(mu/2) in one world and at least Phi(-mu/2) in the other, given that:
so the counts are dominated by binomials, and Clopper-Pearson's limits hold although later releases depend on earlier ones. Least
mu of every kind compose to sqrt(sum of squares). This is a bound for noise of the recorded, Gaussian kind; it says nothing about
other curves and is printed as such, beside the bound that assumes nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from taskveil.audits.both_worlds import log_ratios, with_other_worlds
from taskveil.audits.canaries import CANARY
from taskveil.audits.lower_bound import CONFIDENCE, mu_bound
from taskveil.privacy.contributions import DiagonalSum, MomentSum, OuterSum, TaskStack, VectorSum
from taskveil.privacy.events import GaussianEvent
from taskveil.privacy.guarantees import gaussian_epsilon
from taskveil.privacy.plan import Plan
from taskveil.runtime.run import Run

SCORES = 4000  # of each neighbour: more tell little more
ALARM = 1e-7  # of the verdict's 1e-6
SUMS = (VectorSum, OuterSum, MomentSum, DiagonalSum, TaskStack)


def every_release_visible(plan: Plan, observer: str, linear: bool, schedule: str) -> bool:
    """Whether this observer sees all releases, each an unsampled Gaussian sum of messages that can be told apart."""
    tasks = str(plan.budget.unit) == "task"  # rows are clipped and summed at once
    sums = tasks and all(isinstance(p.event, GaussianEvent) and isinstance(p.contribution, SUMS) for p in plan.releases)
    told_apart = linear and schedule == "synchronous" and plan.budget.aggregation == "curator"
    return sums and told_apart and observer in ("server", "public")


def steps_in_sight(worlds: Sequence[Any], observer: str, trials: int, key: int, delta: float) -> dict[str, Any] | None:
    """What single releases show to this observer; None where it does not see them all."""
    plan, method = worlds[1].log.plan, worlds[1].log.method
    if not every_release_visible(plan, observer, method.linear, method.schedule):
        return None
    return step_bounds(worlds, trials, key, delta)


def step_bounds(worlds: Sequence[Any], trials: int, key: int, delta: float) -> dict[str, Any]:
    """Runs of both neighbours and what their releases show, one by one."""
    plan: Plan = worlds[1].log.plan
    runs = max(2, min(trials, -(-SCORES // len(plan.releases))))
    scores = [_scores(worlds, world, runs, key) for world in (0, 1)]
    stated, sure = (_epsilon(plan, scores, delta, alpha) for alpha in (1 - CONFIDENCE, ALARM))
    return {"runs": runs, "releases": len(plan.releases), "lower_bound": stated, "refutation_bound": sure}


def _scores(worlds: Sequence[Any], world: int, runs: int, key: int) -> np.ndarray:
    """(runs, releases), larger where a release speaks for world 1."""
    here, there = worlds[world].log, worlds[1 - world].log
    seen: list[float] = []

    def on_release(planned: Any, noisy: np.ndarray, mine: np.ndarray, other: np.ndarray) -> None:
        ratios = log_ratios(planned, noisy, mine, other, 0)
        ratio = ratios.own[CANARY] / math.sqrt(max(ratios.distances[CANARY], 1e-300))
        seen.append(float(ratio if world else -ratio))

    estimator = worlds[world].estimator
    method = with_other_worlds(here.method, there.block, on_release)
    for number in range(runs):
        estimator.insecure_noise_seed = 2 * (key * 1_000_003 + number) + world
        estimator._run(Run(method, here.public, here.plan), here.block)
    return np.asarray(seen).reshape(runs, -1)


def _epsilon(plan: Plan, scores: Sequence[np.ndarray], delta: float, alpha: float) -> float:
    """Least mu of every kind of release, composed; the error probability is shared between kinds."""
    kinds = [_kind(p) for p in plan.releases]
    squares = []
    for kind, count in Counter(kinds).items():
        columns = [i for i, k in enumerate(kinds) if k == kind]
        above = [int((s[:, columns] > 0).sum()) for s in scores]
        n = scores[0].shape[0] * count
        mu = float(mu_bound(np.array(above[1]), n, np.array(above[0]), n, delta, alpha / len(set(kinds))))
        squares.append(count * mu**2)
    return gaussian_epsilon(delta, math.sqrt(math.fsum(squares)))


def _kind(planned: Any) -> tuple[str, float]:
    return planned.name, round(planned.event.noise_multiplier, 9)
