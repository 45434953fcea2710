"""MP-MTL Appendix B: epsilon_mp against the other tasks and epsilon_dp against the curator at once (Algorithm 5), which the paper does not run.

Every message has noise of length 2K/epsilon_dp,t before it is sent (the printed density is upside down; this is the one its proof
uses), the sum has the printed Wishart noise. Both budgets are shared out over the rounds, the first by the printed composition, the second
evenly. Settings are chosen for every epsilon_dp like those of Algorithm 2. A simulation (batch.py): nothing here is charged or certified.
"""

from __future__ import annotations

import numpy as np

from experiments.common import Result, below, summary
from experiments.liang_2020 import runs
from experiments.liang_2020.batch import Batch
from experiments.liang_2020.choosing import KEPT
from experiments.liang_2020.curves import synthetic
from experiments.liang_2020.starved import TUNING_DRAW
from experiments.liang_2020.tradeoff import PAPER
from taskveil.tasks.split import k_fold
from taskveil.tasks.task import TaskSet

EPSILON_MP = 1.0
EPSILONS_DP = (1.0, 10.0, 100.0, 1000.0, 10000.0)
ALONE = "alone"


def two_budgets(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """Error against epsilon_dp at epsilon_mp 1, low-rank data; every task alone beside it."""
    epsilons, repeats, many = (EPSILONS_DP[::2], repeats or 2, 6) if quick else (EPSILONS_DP, repeats or 5, 200)
    draw = synthetic("low-rank", seed)
    train, _ = draw(TUNING_DRAW)
    grid = runs.proximal_grid(quick) + runs.random_proximal(many, 20) + ([] if quick else runs.random_proximal(30, 300))
    chosen = {e: best_of(grid, train, e) for e in epsilons}
    alone, found = [], {e: [] for e in epsilons}
    for r in range(repeats):
        train, test = draw(r)
        alone.append(runs.score(train, test, "local", None, r))
        batch = Batch(train)
        for e, option in chosen.items():
            found[e].append(float(batch.errors("low-rank", [option], EPSILON_MP, test, r, e)[0]))
    both = [summary(found[e]) for e in epsilons]
    line = {"x": list(epsilons), "y": [s["mean"] for s in both], "std": [s["std"] for s in both]}
    level = summary(alone)
    flat = {"x": list(epsilons), "y": [level["mean"]] * len(epsilons), "std": [level["std"]] * len(epsilons)}
    said = ", ".join(f"{e:g}: {s['mean']:.3f}" for e, s in zip(epsilons, both, strict=True))
    return Result(
        "two-budgets", PAPER, "Algorithm 5: a single row protected against the curator, a task against the others", "no experiment (Proposition 4)",
        as_printed=f"nMSE at epsilon_mp 1, by epsilon_dp: {said}",
        sound=f"alone {level['mean']:.3f}; a secure sum hides messages from the curator with the noise of one release",
        checks=[below(f"learning alone is better than Algorithm 5 at epsilon_dp {e:g}", alone, found[e], about="ours", place="Appendix B") for e in epsilons],
        series={"Algorithm 5, epsilon_mp 1": line, ALONE: flat}, axes={"x": "epsilon_dp", "y": "nMSE", "log": "xy"},
        settings={"repeats": repeats, "epsilon_mp": EPSILON_MP, "settings to choose from": len(grid), "delta": "1/(m log m)",
                  "chosen by cross-validation": {f"{e:g}": o for e, o in chosen.items()}},
    )  # fmt: skip


def best_of(grid: list[runs.Options], train: TaskSet, epsilon_dp: float) -> runs.Options:
    """One fold sorts, the best few are judged on three."""
    parts = [(Batch(seen), held) for seen, held in list(k_fold(train, 5, TUNING_DRAW))[:3]]
    scores = lambda options, folds: np.mean(  # noqa: E731
        [batch.errors("low-rank", options, EPSILON_MP, held, n, epsilon_dp) for n, (batch, held) in enumerate(parts[:folds])], axis=0
    )  # fmt: skip
    few = [grid[i] for i in np.argsort(scores(grid, 1))[:KEPT]]
    return few[int(np.argmin(scores(few, 3)))]
