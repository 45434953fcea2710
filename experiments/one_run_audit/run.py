"""How often one run with canary tasks refutes a planted fault, and how often a correct run; at the size the documentation names.

    python -m experiments.one_run_audit.run [--runs 400] [--faulty 40] [--only NAME]      writes results.json

Runs of one configuration differ in coins and noise only. So a table is prepared once, in both worlds of every canary; each run draws
coins, puts every canary's targets as its coin says, and goes through the package's own rounds: local solve, clip, exact sum, charge,
noise, server. Left out are personal models and their errors, which come after the last release and no score uses: the scores
have the law of a whole `fit`. Messages at the first billboard, which is the same in all runs, are computed once.
Coins and noise of run i come from seed i.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta
from tests.support import audit_faults as faults

import taskveil as tv
from taskveil.audits.both_worlds import with_other_worlds
from taskveil.audits.canary_tasks import Canaries
from taskveil.audits.one_run import Attempt, Scores, Shown, expect, prepared, shown
from taskveil.methods.base import Method, Models, TaskSide
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime import in_process
from taskveil.runtime.run import Run
from taskveil.tasks.block import TaskBlock
from taskveil.tasks.task import TaskSet

FILE = Path(__file__).parent / "results.json"
CANARIES, TASKS, FEATURES, ROWS, DELTA, ALARM = 300, 1000, 512, 6, 1e-5, 0.05
FAULTS = {
    "none": nullcontext,
    "half the noise": faults.noise_halved,
    "no clipping": faults.clipping_off,
    "forgotten composition": faults.round_not_charged,
}


def table(tasks: int, features: int) -> TaskSet:
    """Tasks around a common model, in normal rows; seed 0."""
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(tasks * ROWS, features)), np.repeat([f"t{i:04d}" for i in range(tasks)], ROWS)
    return TaskSet.from_arrays(X, X @ rng.normal(size=features) + rng.normal(size=len(X)), names, kind="regression")


class Rehearsal:
    """One configuration, ready to be run with any coins and any noise."""

    def __init__(self, method: Any, epsilon: float, features: int = FEATURES):
        others = table(TASKS - CANARIES, features)
        self.first = others.n_tasks
        est = tv.TaskRegressor(method, epsilon=epsilon, delta=DELTA, insecure_noise_seed=0)
        heads = Canaries(np.ones(CANARIES, dtype=bool), replaced=True)
        begun = prepared(est, heads.join(others))
        self.canaries, self.outlook = expect(begun.plan, begun.public, Attempt(est, others, heads, ALARM))
        worlds = [prepared(est, c.join(others)) for c in (self.canaries, self.canaries.flipped())]
        self.run = Run(worlds[0].method, worlds[0].public, worlds[0].plan)
        self.heads, self.tails = (w.block for w in worlds)
        self.begun: dict[bytes, Any] = {}

    def shown(self, seed: int) -> Shown:
        """What one run shows."""
        coins = np.random.default_rng([seed, 1]).integers(0, 2, CANARIES).astype(bool)
        scores = Scores(self.first)
        method = with_other_worlds(self._quick(self.run.method, coins), self._block(~coins), scores.on_release)
        run = replace(self.run, method=method, source=insecure_seeded_noise(seed))
        in_process.run(replace(run, account=type(run.account)()), self._block(coins))
        return shown(run.plan, scores, coins, self.outlook)

    def _block(self, coins: np.ndarray) -> TaskBlock:
        of_task = np.concatenate([np.ones(self.first, dtype=bool), coins])
        rows = of_task[self.heads.task_of_row][:, None]
        mixed = self.heads.with_targets(np.where(rows, self.heads.y, self.tails.y))
        same = self.heads.X is self.tails.X or np.array_equal(self.heads.X, self.tails.X)
        return mixed if same else mixed.with_rows(np.where(rows, self.heads.X, self.tails.X))

    def _quick(self, method: Method, coins: np.ndarray) -> Method:
        """The same method without personal models."""
        spy: Any = type("Quick", (), {"__getattr__": lambda _, name: getattr(method, name)})()
        spy.task_side = lambda block, public, plan: _Quick(method.task_side(block, public, plan))
        return spy


class _Quick(TaskSide):
    """All that a task sends, and no model in the end."""

    def __init__(self, inner: TaskSide):
        self.inner, self.merges_inactive = inner, inner.merges_inactive
        self.start, self.step = inner.start, inner.step  # type: ignore[method-assign]

    def finish(self, state: Any, view: Any) -> Models:
        return Models(np.zeros((0, 0, 0)), np.zeros((0, 0)))


def interval(hits: int, runs: int) -> tuple[float, float]:
    """Clopper-Pearson, 95 %."""
    low = 0.0 if hits == 0 else float(beta.ppf(0.025, hits, runs - hits + 1))
    return low, 1.0 if hits == runs else float(beta.ppf(0.975, hits + 1, runs - hits))


def measured(method: str, epsilon: float, fault: str, runs: int) -> dict[str, Any]:
    """Shares and spreads over runs with seeds 0, 1, ..."""
    begin = time.process_time()
    with FAULTS[fault]():
        ready = Rehearsal(method, epsilon)
        found = []
        for seed in range(runs):
            found.append(ready.shown(seed))
            print(f"{method} epsilon {epsilon} {fault}: {sum(f.refuted for f in found)}/{len(found)}", end="\r", file=sys.stderr)
    hits, bounds = sum(f.refuted for f in found), [f.lower_bound for f in found]
    by_theorem = sum(f.sure > epsilon for f in found)
    return {
        "method": method, "epsilon": epsilon, "fault": fault, "runs": runs, "seeds": [0, runs - 1], "refuted": hits,
        "share": hits / runs, "interval": interval(hits, runs), "by_theorem": by_theorem / runs,
        "bound": [float(np.quantile(bounds, q)) for q in (0.05, 0.5, 0.95)], "rounds": len(ready.run.plan.rounds()),
        "shape": ready.canaries.shape, "guesses": ready.outlook.guesses, "power_said_before": ready.outlook.power,
        "cpu_seconds": round(time.process_time() - begin, 1),
    }  # fmt: skip


def main(arguments: list[str] | None = None) -> None:
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("--runs", type=int, default=400, help="correct runs")
    ask.add_argument("--faulty", type=int, default=40, help="runs with each fault")
    ask.add_argument("--only", help="one fault, or 'none'")
    ask.add_argument("--epsilon", type=float, action="append")
    given = ask.parse_args(arguments)
    stored = json.loads(FILE.read_text()) if FILE.exists() else {"results": []}
    for epsilon in given.epsilon or [4.0, 1.0]:
        for fault in [given.only] if given.only else list(FAULTS):
            new = measured("mean", epsilon, fault, given.runs if fault == "none" else given.faulty)
            kept = [r for r in stored["results"] if (r["epsilon"], r["fault"]) != (epsilon, fault)]
            order = sorted([*kept, new], key=lambda r: (-r["epsilon"], list(FAULTS).index(r["fault"])))
            sizes = {"canaries": CANARIES, "tasks": TASKS, "features": FEATURES, "delta": DELTA, "alarm": ALARM}
            stored = {"sizes": sizes, "results": order}
            FILE.write_text(json.dumps(stored, indent=1) + "\n")
            print(f"\n{new}")


if __name__ == "__main__":
    main()
