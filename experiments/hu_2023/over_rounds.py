"""Accuracy, loss and epsilon over the rounds of Algorithm 1 at the paper's noise and clip: Fig. 2 and Fig. 4 to 6.

Each curve is a mean over splits with a noise draw of their own; the band is their deviation. Panels as in the paper: accuracy and epsilon for each
clip, noise as lines, without noise beside them.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.common import Check, Result, below, computed, positive
from experiments.hu_2023 import grid
from experiments.hu_2023.data import SEEDS, STANDS_FOR, TASKS, prepared
from experiments.hu_2023.grid import PAPER_COHORT, PRINTED
from experiments.hu_2023.items import PAPER

SETTING = {"rate": 10.0, "pull": 0.03, "server_rate": 1.0}
STEPS, ROUNDS, QUICK_ROUNDS, QUICK_TASKS = 5, 400, 10, 110
CLASSES = {"femnist": 62, "tags": 20, "mnist_writers": 10}


@lru_cache(maxsize=4)
def splits(data: str, quick: bool) -> dict[str, np.ndarray]:
    return prepared(data, QUICK_TASKS if quick else None, {"test": SEEDS["test"][: 2 if quick else 6]})


def looked_at(quick: bool) -> list[int]:
    last = QUICK_ROUNDS if quick else ROUNDS
    return [t for t in (1, 2, 5, 10, 20, 50, 100, 200, 400) if t <= last]


@lru_cache(maxsize=64)
def over_rounds(data: str, sigma: float, gamma: float, seed: int, quick: bool) -> dict[str, np.ndarray]:
    """Accuracy on test rows and loss on training rows, each (rounds looked at, splits)."""
    import jax

    from experiments.hu_2023.simulate import Rows, onward

    stored, n_tasks = splits(data, quick), QUICK_TASKS if quick else TASKS[data]
    knobs = jax.tree.map(lambda a: a[0], grid.knobs(PRINTED, "mean", [SETTING | {"clip": gamma}], [sigma * PAPER_COHORT]))
    found = []
    for number in range(len(stored["test_folds"])):
        rows, judged = (Rows(*(stored[f"test{part}_{a}"][number] for a in ("X", "y", "weight"))) for part in ("", "_judged"))
        width = rows.X.shape[2]
        state: Any = np.zeros((n_tasks, width, CLASSES[data]), np.float32), np.zeros((width, CLASSES[data]), np.float32)
        key, seen, done = jax.random.key(1000 * seed + number), [], 0
        for t in looked_at(quick):
            last = np.int32(t), np.int32(STEPS)
            state, right, off = onward(rows, judged, state, np.int32(done), last, min(PAPER_COHORT, n_tasks), knobs, key)
            seen.append((float(right), float(off)))
            done = t
        found.append(seen)
    both = np.array(found).transpose(2, 1, 0)
    return {"accuracy": both[0], "loss": both[1]}


def epsilons(n_tasks: int, sigma: float, gamma: float, rounds: int) -> tuple[float, float]:
    """As printed (a sampled Gaussian of sensitivity gamma), and what it is worth replace-one against tasks who know every cohort, at worst."""
    from taskveil.privacy.accountants import best_epsilon
    from taskveil.privacy.events import Charge, SampledGaussianEvent
    from taskveil.privacy.guarantees import gaussian_epsilon
    from taskveil.privacy.units import Neighbours

    multiplier = sigma * PAPER_COHORT / gamma
    event = SampledGaussianEvent(multiplier, PAPER_COHORT / n_tasks, Neighbours.ADD_REMOVE)
    printed, _ = best_epsilon([Charge(event, rounds)], 1 / n_tasks)
    return printed, gaussian_epsilon(1 / n_tasks, 2 * math.sqrt(rounds) / multiplier)


def line(x: list[int], values: Any, panel: str, label: str) -> dict[str, Any]:
    values = np.atleast_2d(np.asarray(values, float).T).T
    return {
        f"{panel}: {label}": {
            "x": x,
            "y": values.mean(axis=1).tolist(),
            "std": values.std(axis=1).tolist(),
            "panel": panel,
            "label": label,
        }
    }


def settings_of(quick: bool, **more: Any) -> dict[str, Any]:
    import jax

    return {
        "unit": "one task, delta 1/m",
        "rounds": looked_at(quick)[-1],
        "local steps": STEPS,
        "splits": 2 if quick else 6,
        "processor": jax.devices()[0].device_kind,
        **SETTING,
        **more,
    }


def fig2(quick: bool, seed: int) -> Result:
    """Training loss and epsilon over rounds at a fixed clip and noise."""
    sigma, gamma, at = 0.05, 0.5, looked_at(quick)
    series: dict[str, Any] = {}
    checks: list[Check] = []
    said = []
    for data in ("femnist",) if quick else ("femnist", "mnist_writers", "tags"):
        losses = over_rounds(data, sigma, gamma, seed, quick)["loss"]
        n_tasks = QUICK_TASKS if quick else TASKS[data]
        printed, known = zip(*(epsilons(n_tasks, sigma, gamma, t) for t in at), strict=True)
        series |= line(at, losses, f"{data}: loss", "average training loss")
        series |= line(at, printed, f"{data}: epsilon", "as printed") | line(
            at, known, f"{data}: epsilon", "replace-one, known cohorts"
        )
        third = losses[max(i for i, t in enumerate(at) if t <= max(1, at[-1] // 3))]
        checks += [
            below(f"{data}: the loss falls over the rounds", losses[-1], losses[0], quantity="average training loss"),
            positive(f"{data}: most of the fall comes in the first third", (losses[0] - third) - (third - losses[-1]), quantity="fall of the training loss"),
            computed(f"{data}: the printed epsilon covers tasks who know the cohorts", known[-1], printed[-1], quantity="epsilon"),
        ]  # fmt: skip
        said.append(
            f"{data}: loss {losses[0].mean():.2f} to {losses[-1].mean():.2f}, epsilon {printed[-1]:.3g} printed, {known[-1]:.3g} known cohorts"
        )
    return Result(
        "fig2", PAPER, "the loss falls fast while epsilon grows slowly", "fast fall, then flat; epsilon grows with rounds (curves)",
        as_printed="; ".join(said), sound="Poisson cohorts that stay secret: the printed epsilon is then true, add-remove",
        checks=checks, series=series, axes={"x": "rounds", "y": "loss, or epsilon", "log": "x"}, settings=settings_of(quick, sigma=sigma, gamma=gamma),
    )  # fmt: skip


def fig4(quick: bool, seed: int) -> Result:
    return _noise_grid(quick, seed, "fig4", "femnist", (0.02, 0.05, 0.1), (0.2, 0.5, 1.0))


def fig5(quick: bool, seed: int) -> Result:
    return _noise_grid(quick, seed, "fig5", "mnist_writers", (0.02, 0.05, 0.1), (0.2, 0.5, 1.0))


def fig6(quick: bool, seed: int) -> Result:
    return _noise_grid(quick, seed, "fig6", "tags", (0.01, 0.05, 0.1), (0.1, 0.5, 1.0))


def _noise_grid(quick: bool, seed: int, name: str, data: str, sigmas: tuple[float, ...], gammas: tuple[float, ...]) -> Result:
    """Accuracy and epsilon over rounds: a panel of each for every clip."""
    at, n_tasks = looked_at(quick), QUICK_TASKS if quick else TASKS[data]
    sigmas, gammas = (sigmas[::2], gammas[:1]) if quick else (sigmas, gammas)
    series: dict[str, Any] = {}
    last: dict[tuple[float, float], np.ndarray] = {}
    printed: dict[tuple[float, float], tuple[float, float]] = {}
    for gamma in gammas:
        for sigma in (*sigmas, 0.0):
            scores = over_rounds(data, sigma, gamma, seed, quick)["accuracy"]
            series |= line(at, scores, f"gamma {gamma:g}: accuracy", f"sigma {sigma:g}" if sigma else "non-private")
            if sigma:
                last[sigma, gamma] = scores[-1]
                series |= line(
                    at, [epsilons(n_tasks, sigma, gamma, t)[0] for t in at], f"gamma {gamma:g}: epsilon", f"sigma {sigma:g}"
                )
                printed[sigma, gamma] = epsilons(n_tasks, sigma, gamma, at[-1])
    low, high, small, large = sigmas[0], sigmas[-1], gammas[0], gammas[-1]
    checks = [
        below(
            f"gamma {g:g}: sigma {high:g} is less accurate than sigma {low:g}",
            last[high, g],
            last[low, g],
            quantity="test accuracy",
        )
        for g in gammas
    ]
    checks += [
        computed(
            f"gamma {g:g}: epsilon is smaller at sigma {high:g}", printed[high, g][0], printed[low, g][0], quantity="epsilon"
        )
        for g in gammas
    ]
    if large > small:
        checks += [
            computed(
                f"sigma {s:g}: epsilon is smaller at gamma {small:g}",
                printed[s, small][0],
                printed[s, large][0],
                quantity="epsilon",
            )
            for s in sigmas
        ]
    edge = [(low, large), (high, small)]
    return Result(
        name, PAPER, f"{STANDS_FOR[data]}: more noise lowers accuracy and epsilon, a larger clip raises epsilon",
        "accuracy falls and epsilon falls with sigma; epsilon grows with gamma and rounds (curves)",
        as_printed=f"after {at[-1]} rounds: " + "; ".join(
            f"sigma {k[0]:g}, gamma {k[1]:g}: accuracy {last[k].mean():.3f}, epsilon {printed[k][0]:.3g} printed, {printed[k][1]:.3g} replace-one with known cohorts" for k in edge),
        checks=checks, series=series, axes={"x": "rounds", "y": f"accuracy on {data}, or epsilon", "log": "x"}, settings=settings_of(quick),
    )  # fmt: skip
