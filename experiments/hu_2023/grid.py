"""Settings of the PMTL tables: each side's own grid, the noise each setting needs, and how settings are chosen.

Both sides are tuned in the same way: every setting of the printed grid, and 400 random ones of ours, are judged on *validation* rows (a quarter
of the training rows of other splits; on mnist_writers other writers; on tags other worlds), the best few are judged again over three splits
with two noise draws each, and the best mean is taken, separately for each epsilon and column. Test rows of the tables play no part.
Neither side pays for the choice, as in the paper (section 5.2).

    printed   gamma of the paper's grids (A.5), T up to 1,000 rounds (5,000 local steps in all), cohorts of 100, the mean message added as it
              is; sigma follows from epsilon, T and gamma by the printed accounting (sampled Gaussian, sensitivity gamma), so every sigma
              is allowed, not only the three of A.5. The paper does not print eta, lambda and E: they have grids here.
    sound     everybody in every round; replace-one (the paper's section 3.2) or add-remove; a server rate; shrinking
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

PRINTED, REPLACE, ADD = "printed", "sound, replace-one", "sound, add-remove"
SIDES = (PRINTED, REPLACE, ADD)
METHODS = ("mean", "fedavg", "fedprox", "pp-sgd")
EPSILONS: tuple[float | None, ...] = (0.1, 0.4, 0.8, 2.0, 4.0, None)
PAPER_COHORT = 100
MOST_WORK = 5000  # rounds times local steps
UNCLIPPED = 1e5
PULLS = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)

PRINTED_GRID: dict[str, tuple[float, ...]] = {
    "rounds": (5, 10, 20, 50, 100, 200, 400, 1000), "clip": (0.1, 0.2, 0.5, 1.0), "rate": (1, 3, 10, 30, 100), "pull": PULLS,
    "steps": (1, 5, 10, 20), "server_rate": (1.0,),
}  # fmt: skip
SOUND_GRID: dict[str, tuple[float, ...]] = {
    "rounds": (1, 3, 10, 20, 50, 100, 200), "clip": (0.5, 1.0, 2.0), "rate": (3, 10, 30), "pull": PULLS, "steps": (5, 20, 100),
    "server_rate": (1, 3, 10, 30, 90),
}  # fmt: skip
RESIDUAL_GRID: dict[str, tuple[float, ...]] = {  # PP-SGD, either side
    "rounds": (5, 20, 50, 100, 200, 400, 1000), "clip": (0.005, 0.02, 0.05, 0.2, 1.0), "rate": (0.03, 0.1, 0.3, 1, 3, 10, 30), "pull": (0.0,),
    "steps": (1,), "server_rate": (0.3, 1, 3, 10, 30, 100, 300),
}  # fmt: skip
NAIVE_GRID: dict[str, tuple[float, ...]] = {
    "rounds": (1, 3, 10), "clip": (0.3, 1, 3, 10), "rate": (3, 10), "pull": (0.0,), "steps": (20, 100), "server_rate": (1.0,),
}  # fmt: skip
QUIET = {"clip": (UNCLIPPED,), "rounds": (50, 100, 200, 400)}  # without noise nothing is clipped


def axes_of(side: str, method: str, epsilon: float | None) -> dict[str, tuple[float, ...]]:
    """The values each number of a setting may have."""
    own = {"pp-sgd": RESIDUAL_GRID, "naive-dp": NAIVE_GRID}
    axes = own.get(method) or (PRINTED_GRID if side == PRINTED else SOUND_GRID)
    axes = axes | ({} if method != "fedavg" else {"pull": (0.0,)}) | (QUIET if epsilon is None else {})
    if epsilon is None and method != "pp-sgd":
        axes = axes | {"server_rate": (1.0, 3.0) if side != PRINTED else (1.0,)}
    return axes


def grid(side: str, method: str, epsilon: float | None) -> list[dict[str, float]]:
    """All settings of one method; the printed step needs eta lambda < 2, work is bounded."""
    axes = axes_of(side, method, epsilon)
    every = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    return [s for s in every if s["rounds"] * s["steps"] <= MOST_WORK and (side != PRINTED or s["rate"] * s["pull"] < 2)]


def draw(side: str, method: str, epsilon: float | None, count: int | None, seed: int) -> list[dict[str, float]]:
    """`count` random settings without repeats, all of them where it is None."""
    every = grid(side, method, epsilon)
    picked = np.random.default_rng(seed).permutation(len(every))[:count]
    return [every[i] for i in picked]


def noise_on_sum(
    side: str, n_tasks: int, epsilon: float | None, setting: dict[str, float], multipliers: dict[str, float]
) -> float:
    """Deviation of the noise on a sum of clipped messages; T Gaussian releases are one of sqrt(T) the sensitivity."""
    if epsilon is None:
        return 0.0
    if side == PRINTED:
        return setting["clip"] * multipliers[f"{n_tasks}/{epsilon}/{int(setting['rounds'])}"]
    from taskveil.privacy.guarantees import gaussian_mu

    sensitivity = setting["clip"] * (2 if side == REPLACE else 1)
    return sensitivity * math.sqrt(setting["rounds"]) / gaussian_mu(epsilon, 1 / n_tasks)


def printed_multipliers(n_tasks: int, known: dict[str, float]) -> dict[str, float]:
    """Noise over clip that the printed accounting asks for, for every epsilon and number of rounds of the grid; `known` is kept."""
    from taskveil.privacy.contributions import VectorSum
    from taskveil.privacy.plan import Budget, Request, make_plan

    found = dict(known)
    for epsilon, rounds in itertools.product(EPSILONS, sorted({*PRINTED_GRID["rounds"], *RESIDUAL_GRID["rounds"]})):
        name = f"{n_tasks}/{epsilon}/{int(rounds)}"
        if epsilon is None or name in found:
            continue
        budget = Budget(epsilon, 1 / n_tasks, neighbours="add-remove", variant="paper")
        one = VectorSum((1,), 1.0)
        plan = make_plan([Request("update", t + 1, one, rate=PAPER_COHORT / n_tasks) for t in range(int(rounds))], budget)
        event: Any = plan.releases[0].event
        found[name] = event.noise_multiplier
    return found


def shipped(side: str, data: str, n_tasks: int, n_parameters: int, epsilon: float) -> dict[str, float]:
    """What the library's experiments used before this sweep: one setting for all epsilons, rounds from public sizes (methods/neural.py)."""
    from taskveil.privacy.guarantees import gaussian_mu

    mu = gaussian_mu(epsilon, 1 / n_tasks) * (0.5 if side == REPLACE else 1.0)
    rounds = int(np.clip(round((n_tasks * mu) ** 2 / n_parameters), 1, 50))
    rate = {"femnist": 90.0, "tags": 10.0}[data]
    return {"rounds": rounds, "clip": 2.0, "rate": 10, "pull": 0.003, "steps": 100 if rounds <= 20 else 20, "server_rate": rate}


def knobs(side: str, method: str, settings: list[dict[str, float]], noises: list[float]) -> Any:
    """Settings as arrays for the simulation."""
    from experiments.hu_2023.simulate import Knobs

    many, printed = len(settings), side == PRINTED
    column = {name: np.array([s[name] for s in settings], np.float32) for name in ("rate", "pull", "clip", "server_rate")}
    flag = {"own_start": method == "mean", "explicit": printed, "shrink": not printed}
    return Knobs(**column, noise=np.array(noises, np.float32), **{n: np.full(many, value, np.int32) for n, value in flag.items()})
