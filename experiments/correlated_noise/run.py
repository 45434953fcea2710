"""Would noise that is correlated over rounds beat Poisson cohorts with fresh noise, at equal epsilon and at our sizes?

    python -m experiments.correlated_noise.run OUT.json [--tasks 500 2000] ...

No training: only what noise a guarantee asks for. After round t the server holds the sum of t noisy sums; with noise z C^-1 g (C lower
triangular, g fresh Gaussian) its error is z times the norm of row t of A C^-1, A the matrix of ones on and below the diagonal. Three
ways, all for one task of N protected against all others, cohorts of n expected, T rounds, sums of norm 1:

    fresh      C = 1, Poisson cohorts of rate n/N: what the methods do now
    banded     C of b bands; round t draws from every b-th task alone, at rate b n/N; a task's rounds never share a band, so the
               charge is that of ceil(T/b) sampled Gaussians of rate b n/N (Choquette-Choo et al. 2023, amplified banded
               factorisation); b = 1 is `fresh`
    turns      every task once in N/n rounds, publicly; nothing is amplified: one Gaussian release of sensitivity sqrt(ceil(T n/N)),
               b <= N/n bands; with C = 1, fresh noise under the same schedule

C is Toeplitz with columns of norm at most 1 and is optimised for each b, for the error of the last model and for the root mean
square over rounds.
"""

from __future__ import annotations

import argparse
import json
import math
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import solve_toeplitz
from scipy.optimize import minimize

from taskveil.privacy.contributions import VectorSum
from taskveil.privacy.guarantees import gaussian_mu
from taskveil.privacy.plan import Budget, Request, make_plan

MEASURES = ("last", "mean")


def sums_of_noise(bands: np.ndarray, rounds: int) -> np.ndarray:
    """First column of A C^-1, C the Toeplitz matrix with these coefficients: row t of A C^-1 holds its first t entries."""
    column = np.zeros(rounds)
    column[: len(bands)] = bands
    first_row = np.zeros(rounds)
    first_row[0] = bands[0]
    return solve_toeplitz((column, first_row), np.ones(rounds))


def error(bands: np.ndarray, rounds: int, measure: str) -> float:
    """Error for z = 1 of the last sum, or its root mean square over all rounds; columns of C are brought to norm 1."""
    squares = np.cumsum(sums_of_noise(bands / np.linalg.norm(bands), rounds) ** 2)
    return math.sqrt(squares[-1] if measure == "last" else squares.mean())


@cache
def best_error(n_bands: int, rounds: int, measure: str) -> float:
    """The error of the best Toeplitz C of so many bands; the start is the square root of A, cut off (Fichtenberger et al. 2022)."""
    if n_bands == 1:
        return error(np.ones(1), rounds, measure)
    start = np.cumprod(np.r_[1.0, [(2 * k - 1) / (2 * k) for k in range(1, n_bands)]])

    def loss(others: np.ndarray) -> float:
        return math.log(error(np.r_[1.0, others], rounds, measure))

    found = minimize(loss, start[1:], method="L-BFGS-B", bounds=[(0.0, 1.0)] * (n_bands - 1), options={"maxiter": 60})
    return float(math.exp(min(found.fun, loss(start[1:]), loss(0 * start[1:]))))


@cache
def multiplier(rate: float, rounds: int, epsilon: float, delta: float) -> float:
    """Noise relative to a task's contribution, from the library's own plan; add-remove."""
    sampled = rate if rate < 1 else None
    requests = [Request("sum", t + 1, VectorSum((1,), 1.0), rate=sampled) for t in range(rounds)]
    plan = make_plan(requests, Budget(epsilon, delta, neighbours="add-remove"))
    return float(plan.releases[0].event.noise_multiplier)


def compare(tasks: int, cohort: int, rounds: int, epsilon: float) -> dict[str, Any]:
    rate, delta = cohort / tasks, 1 / tasks
    bands = [b for b in (1, 2, 4, 8, 16) if b * rate <= 1 and b <= rounds]
    found: dict[str, Any] = {"tasks": tasks, "cohort": cohort, "rounds": rounds, "epsilon": epsilon, "delta": delta}
    alone = math.sqrt(math.ceil(rounds * rate)) / gaussian_mu(epsilon, delta)
    for measure in MEASURES:
        banded = {b: multiplier(b * rate, math.ceil(rounds / b), epsilon, delta) * best_error(b, rounds, measure) for b in bands}
        turns = {b: alone * best_error(b, rounds, measure) for b in bands}
        best, least = min(banded, key=banded.__getitem__), min(turns, key=turns.__getitem__)
        found[measure] = {
            "fresh": banded[1], "banded": banded[best], "bands": best, "gain": banded[1] / banded[best],
            "turns_fresh": turns[1], "turns": turns[least], "turns_bands": least, "turns_gain": turns[1] / turns[least],
            "turns_against_fresh": banded[1] / turns[least],
        }  # fmt: skip
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--tasks", type=int, nargs="+", default=[500, 2000, 10_000])
    parser.add_argument("--cohorts", type=int, nargs="+", default=[50, 100, 512])
    parser.add_argument("--rounds", type=int, nargs="+", default=[20, 100, 400])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.5, 1.0, 4.0])
    asked = parser.parse_args()
    found = []
    for tasks, cohort, rounds, epsilon in product(asked.tasks, asked.cohorts, asked.rounds, asked.epsilons):
        if cohort <= tasks:
            found.append(compare(tasks, cohort, rounds, epsilon))
            print(json.dumps(found[-1]), flush=True)
            asked.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
