"""How often one run with canary tasks refutes a planted fault, and how often a correct run; at the size the documentation names.

    python -m experiments.one_run_audit.run [--runs 400] [--faulty 40] [--rounds 1] [--fault NAME] [--epsilon 4]      writes results.json
    python -m experiments.one_run_audit.run --page                            writes its table into docs/evidence.md

Runs of one configuration differ in coins and noise only. So a table is prepared once, in both worlds of every canary; each run draws
coins, puts every canary's targets as its coin says, and goes through the package's own rounds: local solve, clip, exact sum, charge,
noise, server. Left out are personal models and their errors, which come after the last release and no score uses: the scores
have the law of a whole `fit`. Messages at the first billboard, which is the same in all runs, are computed once.
Coins and noise of run i come from seed i.
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import time
from contextlib import nullcontext
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta
from tests.support import audit_faults as faults

import taskveil as tv
from taskveil.audits.both_worlds import with_other_worlds
from taskveil.audits.canary_tasks import Canaries
from taskveil.audits.one_run import Attempt, Scores, Shown, expect, prepared, shown
from taskveil.methods.base import Message, Models, State, TaskSide, View
from taskveil.privacy.randomness import insecure_seeded_noise
from taskveil.runtime import in_process
from taskveil.runtime.run import Run, RunRecord
from taskveil.tasks.task import TaskSet

FILE = Path(__file__).parent / "results.json"
PAGE, BEGIN, END = Path(__file__).parents[2] / "docs" / "evidence.md", "<!-- one run -->", "<!-- end -->"
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


def configured(rounds: int | None, epsilon: float) -> tv.TaskRegressor:
    return tv.TaskRegressor(tv.methods.get("mean", rounds=rounds), epsilon=epsilon, delta=DELTA, insecure_noise_seed=0)


def coins_of(seed: int, canaries: int) -> np.ndarray:
    return np.random.default_rng([seed, 1]).integers(0, 2, canaries).astype(bool)


class Rehearsal:
    """One configuration of a method whose tasks keep no state, ready to be run with any coins and any noise."""

    def __init__(self, est: Any, others: TaskSet, canaries: int):
        heads = Canaries(np.ones(canaries, dtype=bool), replaced=True)
        begun = prepared(est, heads.join(others))
        self.canaries, self.outlook = expect(begun.plan, begun.public, Attempt(est, others, heads, ALARM))
        worlds = [prepared(est, c.join(others)) for c in (self.canaries, self.canaries.flipped())]
        self.run = Run(worlds[0].method, worlds[0].public, worlds[0].plan)
        self.first, self.heads = others.n_tasks, worlds[0].block
        tails = worlds[1].block.take(slice(self.first, None))
        self.sides = [self.run.method.task_side(b, self.run.public, self.run.plan) for b in (self.heads, tails)]
        self.sent: dict[bytes, list[Message]] = {}  # at the first billboard and at the last that was asked for

    def shown(self, seed: int) -> Shown:
        """What the run of this seed shows."""
        coins = coins_of(seed, len(self.canaries.coins))
        scores, _ = self.ran(seed, coins)
        return shown(self.run.plan, scores, coins, self.outlook)

    def ran(self, seed: int, coins: np.ndarray) -> tuple[Scores, RunRecord]:
        """One run, as an attacker sees it, and its record."""
        scores, quick = Scores(self.first), copy.copy(self.run.method)
        quick.task_side = lambda block, *_: _Side(self, coins if block is self.heads else ~coins)  # type: ignore[method-assign]
        method = with_other_worlds(quick, self.heads.take(slice(0, 1)), scores.on_release)
        run = Run(method, self.run.public, self.run.plan, source=insecure_seeded_noise(seed))
        return scores, in_process.run(run, self.heads)

    def messages(self, view: View) -> list[Message]:
        """Of everybody with all coins heads, and of canaries with all coins tails."""
        key = b"".join(np.asarray(view[name]).tobytes() for name in sorted(view.values))
        if key not in self.sent:
            first = dict(list(self.sent.items())[:1])
            self.sent = first | {key: [side.step(side.start(), view)[1] for side in self.sides]}
        return self.sent[key]


class _Side(TaskSide):
    """Everybody's messages as the coins say, and no personal models."""

    def __init__(self, ready: Rehearsal, coins: np.ndarray):
        self.ready, self.coins = ready, coins

    def start(self) -> State:
        return {}

    def step(self, state: State, view: View) -> tuple[State, Message]:
        heads, tails = self.ready.messages(view)
        mixed = {name: np.array(sent) for name, sent in heads.items()}
        for name, sent in mixed.items():
            sent[self.ready.first :][~self.coins] = tails[name][~self.coins]
        return state, mixed

    def finish(self, state: State, view: View) -> Models:
        return Models(np.zeros((0, 1, 1)), np.zeros((0, 1)))


def interval(hits: int, runs: int) -> tuple[float, float]:
    """Clopper-Pearson, 95 %."""
    low = 0.0 if hits == 0 else float(beta.ppf(0.025, hits, runs - hits + 1))
    return low, 1.0 if hits == runs else float(beta.ppf(0.975, hits + 1, runs - hits))


def measured(rounds: int | None, epsilon: float, fault: str, runs: int) -> dict[str, Any]:
    """Shares and spreads over runs with seeds 0, 1, ... of `mean`, with rounds of its own choice or so many."""
    begin = time.process_time()
    with FAULTS[fault]():
        ready = Rehearsal(configured(rounds, epsilon), table(TASKS - CANARIES, FEATURES), CANARIES)
        found = []
        for seed in range(runs):
            found.append(ready.shown(seed))
            print(f"epsilon {epsilon} {fault}: {sum(f.refuted for f in found)}/{len(found)}", end="\r", file=sys.stderr)
    hits, bounds = sum(f.refuted for f in found), [f.lower_bound for f in found]
    return {
        "rounds": len(list(ready.run.plan.rounds())), "epsilon": epsilon, "fault": fault, "runs": runs, "seeds": [0, runs - 1],
        "refuted": hits, "interval": interval(hits, runs), "by_theorem": sum(f.sure > epsilon for f in found),
        "bound": [round(float(np.quantile(bounds, q)), 3) for q in (0.05, 0.5, 0.95)],
        "shape": ready.canaries.shape, "guesses": ready.outlook.guesses, "power_said_before": ready.outlook.power,
        "cpu_seconds": round(time.process_time() - begin, 1),
    }  # fmt: skip


def kept(new: dict[str, Any]) -> None:
    """Into results.json, in place of an older figure of the same kind."""
    stored = json.loads(FILE.read_text())["results"] if FILE.exists() else []
    kind = itemgetter("epsilon", "fault", "rounds")
    results = sorted([new, *(r for r in stored if kind(r) != kind(new))], key=lambda r: (-r["epsilon"], r["rounds"], r["fault"]))
    sizes = {"canaries": CANARIES, "tasks": TASKS, "features": FEATURES, "delta": DELTA, "alarm": ALARM}
    FILE.write_text(json.dumps({"method": "mean", **sizes, "results": results}, indent=1) + "\n")


def rows(stored: dict[str, Any]) -> str:
    """The table of the documentation."""
    lines = [
        "| epsilon | releases | fault | refuted | 95 % interval | by the theorem alone | median bound (5 % to 95 % of runs) |",
        "|" + "---|" * 7,
    ]
    for r in stored["results"]:
        low, high = (100 * limit for limit in r["interval"])
        least, middle, most = r["bound"]
        lines.append(
            f"| {r['epsilon']:g} | {r['rounds']} | {r['fault']} | {r['refuted']} of {r['runs']} | {low:.1f} to {high:.1f} % | {r['by_theorem']} | "
            f"{middle:.2f} ({least:.2f} to {most:.2f}) |"
        )
    return "\n".join(lines)


def write_page() -> None:
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{rows(json.loads(FILE.read_text()))}\n{END}{rest.partition(END)[2]}")


def main(arguments: list[str] | None = None) -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--runs", type=int, default=400, help="correct runs")
    ask.add_argument("--faulty", type=int, default=40, help="runs with each fault")
    ask.add_argument("--rounds", type=int, help="releases; default: as many as `mean` chooses")
    ask.add_argument("--fault", action="append", choices=list(FAULTS))
    ask.add_argument("--epsilon", type=float, action="append")
    ask.add_argument("--page", action="store_true", help="only write the table of docs/evidence.md again")
    given = ask.parse_args(arguments)
    for epsilon in [] if given.page else given.epsilon or [4.0, 1.0]:
        for fault in given.fault or list(FAULTS):
            new = measured(given.rounds, epsilon, fault, given.runs if fault == "none" else given.faulty)
            kept(new)
            print(f"\n{new}", flush=True)
    write_page()


if __name__ == "__main__":
    main()
