"""Asynchronous against synchronous rounds on the virtual clock, at the sizes of Xie et al. 2017, Table 1.

20 tasks, 28 features, 200 rows; no noise. How many virtual seconds until the objective is within a thousandth of its first
value above the optimum, for arrivals one by one (safeguarded and proved relaxation) and for rounds that wait for everybody; under
the paper's delays (uniform 0-15 ms) and under heavy tails (1 ms times a Pareto variable of index 1.1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from taskveil.losses import LOSSES
from taskveil.methods.async_mtl import AsyncMTL
from taskveil.methods.async_mtl.presets import PRESETS
from taskveil.methods.async_mtl.tasks import OwnProblem
from taskveil.methods.base import PublicInfo
from taskveil.privacy.plan import Budget, make_plan
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime import virtual_clock
from taskveil.runtime.run import Run
from taskveil.solvers.block_gradient import mean_gradients
from taskveil.structures import STRUCTURES
from taskveil.tasks.block import TaskBlock

TASKS, FEATURES, ROWS = 20, 28, 200
DELAYS = {"uniform 0-15 ms": ("uniform", 0.015), "heavy tails": ("pareto", 0.001)}
PROVED = "asynchronous, proved steps"
WAYS = {
    "asynchronous": {"relaxation": "safeguarded"},
    PROVED: {"relaxation": "delays"},
    "synchronous": {"relaxation": 1.0, "synchronous": True},
}
TARGET = 1e-3  # share of the first objective gap
PENALTIES = {"shared_penalty": 0.02, "own_penalty": 0.05}


def make_block(seed: int) -> TaskBlock:
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((TASKS, 3)) @ rng.standard_normal((3, FEATURES)) / np.sqrt(FEATURES)
    X = rng.uniform(-1, 1, (TASKS * ROWS, FEATURES))
    y = np.einsum("nd,nd->n", X, np.repeat(W, ROWS, axis=0)) + 0.3 * rng.standard_normal(TASKS * ROWS)
    return TaskBlock(X, y, np.arange(TASKS + 1) * ROWS)


class Watch:
    """Objective over virtual time; stops the run once the target is reached."""

    def __init__(self, method: AsyncMTL, block: TaskBlock, target: float, every: int) -> None:
        self.method, self.block, self.target, self.every = method, block, target, every
        self.curve: list[tuple[float, float]] = []
        self.reached: float | None = None

    def __call__(self, now: float, arrivals: int, server, state) -> bool:
        if arrivals % self.every:
            return False
        P = server._prox_for(state).all().reshape(state["shared"].shape)
        value = objective(self.method, self.block, P, state["own"], state["intercept"])
        self.curve.append((now, value))
        if value <= self.target and self.reached is None:
            self.reached = now
        return self.reached is not None


def objective(method: AsyncMTL, block: TaskBlock, P, Q, b) -> float:
    _, _, values = mean_gradients(block, P + Q, b, LOSSES.get("squared"))
    r, g = (STRUCTURES.get(name) for name in (method.penalties().shared, method.penalties().own))
    return float(values.sum()) + method.shared_penalty * r.value(r.matrix(P)) + method.own_penalty * g.value(g.matrix(Q))


def setting(preset: str, delays: tuple[str, float], seed: int, relaxation: str | float):
    method = AsyncMTL(preset, rounds=3000, refine=False, delays=delays, relaxation=relaxation, tol=0.0, **PENALTIES)
    public = PublicInfo(TASKS, FEATURES, 1, "regression", seed=seed, task_rows=(ROWS,) * TASKS)
    budget = method.adjust(Budget(None, 1e-5, "record"))
    return method, public, make_plan(method.requests(public, budget), budget)


def train(preset: str, delays, seed: int, block: TaskBlock, target: float, relaxation, synchronous=False, every=TASKS):
    method, public, plan = setting(preset, delays, seed, relaxation)
    watch = Watch(method, block, target, every)
    virtual_clock.run(Run(method, public, plan, source=insecure_seeded_noise(0)), block, synchronous=synchronous, watch=watch)
    return watch


def optimum(preset: str, block: TaskBlock) -> tuple[float, float]:
    """(objective at zero, smallest objective), the latter by accelerated proximal gradient with restarts at step 1/(2L)."""
    method = AsyncMTL(preset, **PENALTIES)
    loss, pen = LOSSES.get("squared"), method.penalties()
    r, g = STRUCTURES.get(pen.shared), STRUCTURES.get(pen.own)
    step = 0.49 / OwnProblem(block, loss, pen, method.own_penalty, True).curvature().max()
    zero = np.zeros((TASKS, 1, FEATURES))
    x = [zero, zero, np.zeros((TASKS, 1))]
    v, t = list(x), 1.0
    for _ in range(5000):
        G, gb, _ = mean_gradients(block, v[0] + v[1], v[2], loss)
        new = [
            r.models(r.prox(r.matrix(v[0] - step * G), step * method.shared_penalty), zero.shape),
            g.models(g.prox(g.matrix(v[1] - step * G), step * method.own_penalty), zero.shape),
            v[2] - step * gb,
        ]
        t = 1.0 if sum(((a - b) * (b - c)).sum() for a, b, c in zip(v, new, x)) > 0 else t
        following = (1 + np.sqrt(1 + 4 * t * t)) / 2
        v = [b + (t - 1) / following * (b - c) for b, c in zip(new, x)]
        moved, x, t = max(float(np.abs(b - c).max()) for b, c in zip(new, x)), new, following
        if moved < 1e-9:
            break
    return objective(method, block, zero, zero, np.zeros((TASKS, 1))), objective(method, block, *x)


def run(quick: bool = False) -> dict[str, Any]:
    """Every preset, seed and kind of delays; the proved steps, which are slow, once."""
    seeds = range(2 if quick else 4)
    results: dict[str, Any] = {"target": TARGET, "seeds": len(seeds), "runs": []}
    for preset in ["aso"] if quick else list(PRESETS.names()):
        for seed in seeds:
            block = make_block(seed)
            start, best = optimum(preset, block)
            target = best + TARGET * (start - best)
            shown = seed == 0 and preset == "aso"
            for weather, delays in DELAYS.items():
                for way, how in WAYS.items():
                    if way == PROVED and not shown:
                        continue
                    watch = train(preset, delays, seed, block, target, **how)
                    curve = [(t, (v - best) / (start - best)) for t, v in watch.curve]
                    found = {"preset": preset, "seed": seed, "delays": weather, "way": way, "seconds": watch.reached}
                    results["runs"].append({**found, "curve": thinned(curve) if shown else []})
    return results


def thinned(curve: list[tuple[float, float]], points: int = 60) -> list[tuple[float, float]]:
    return curve[:: max(1, len(curve) // points)] + curve[-1:]


def summary(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Seconds of both ways and how many times sooner arrivals are, seed by seed; by preset and delays."""
    rows = []
    for preset in dict.fromkeys(r["preset"] for r in results["runs"]):
        for weather in DELAYS:
            found = {
                way: np.array([np.inf if r["seconds"] is None else r["seconds"] for r in results["runs"]
                               if (r["preset"], r["delays"], r["way"]) == (preset, weather, way)])
                for way in WAYS
            }  # fmt: skip
            ratios = found["synchronous"] / found["asynchronous"]
            rows.append(
                {"preset": preset, "delays": weather, "ratios": ratios.tolist(),
                 "seconds": {way: float(np.median(s)) for way, s in found.items() if s.size}}
            )  # fmt: skip
    return rows
