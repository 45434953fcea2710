"""MP-MTL Fig. 4 (budget allocation), 6-8 (synthetic), 9-12 (School, and a binary stand-in for LSOA II)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import taskveil as tv
from experiments.common import Check, Result, below, not_above, summary
from experiments.liang_2020 import runs
from taskveil.tasks.split import split_rows
from taskveil.tasks.synthetic import get_synthetic
from taskveil.tasks.task import TaskSet

PAPER = "MP-MTL"
STL, MTL = "STL (alone)", "MTL (no privacy)"
LOW_RANK, GROUP = "MP-MTL-LR as printed", "MP-MTL-GS as printed"
MTRL, AGGR, OURS = "DP-MTRL as printed", "DP-AGGR as printed", "subspace, sound"
NAMES = {LOW_RANK: "low-rank", GROUP: "group-sparse", MTRL: "dp-mtrl", AGGR: "dp-aggr"}


def fig4(quick: bool, seed: int) -> Result:
    """Budget allocation eps_t ~ t^alpha and ~ Q^-t at epsilon 0.1, with and without acceleration (training rows, 5-fold)."""
    repeats, m = (2, 160) if quick else (20, 320)
    alphas, ratios = (-1.0, 0.0, 0.4, 1.0, 2.0), (0.9, 0.97, 1.0, 1.03, 1.1)
    curves: dict[str, dict[float, list[float]]] = {}
    for r in range(repeats):
        train = get_synthetic("low-rank", seed=seed + r, n_tasks=m).train
        for momentum in ("accelerated", "none"):
            for kind, values in (("power", alphas), ("geometric", ratios)):
                name = f"{kind}, {'with' if momentum == 'accelerated' else 'without'} acceleration"
                for value in values:
                    method = tv.methods.get(
                        "low-rank", rounds=20, penalty=2.0, clip=7.0, momentum=momentum, allocation=kind, exponent=value
                    )
                    options = {"variant": "paper", "delta": runs.paper_delta(m), "neighbours": "add-remove"}
                    error = runs._cross_validated(train, method, 0.1, seed + r, "nmse", 1 if quick else 5, options)
                    curves.setdefault(name, {}).setdefault(value, []).append(error)
    series = {
        name: {"x": list(v), "y": [float(np.mean(e)) for e in v.values()]} for name, v in curves.items()
    }
    fast, slow = curves["power, with acceleration"][0.0], curves["power, without acceleration"][0.0]
    return Result(
        "fig4", PAPER, "acceleration helps; a small positive exponent is best", "local optimum at small positive alpha, Q0/Q",
        as_printed=f"nMSE {np.mean(fast):.4f} with, {np.mean(slow):.4f} without acceleration at alpha 0",
        checks=[
            below("acceleration helps", fast, slow),
            not_above("alpha 0.4 is no worse than alpha 2", curves["power, with acceleration"][0.4],
                      curves["power, with acceleration"][2.0]),
        ],
        series=series, axes={"x": "alpha or Q", "y": "nMSE"}, settings={"repeats": repeats, "tasks": m, "epsilon": 0.1},
    )  # fmt: skip


def _privacy_accuracy(
    draw: Callable[[int], tuple[TaskSet, TaskSet]], epsilons: tuple[float, ...], repeats: int, folds: int, metric: str,
    printed: tuple[str, ...] = (LOW_RANK, GROUP, MTRL, AGGR),
) -> dict[str, dict[Any, list[float]]]:  # fmt: skip
    """name -> epsilon (None without a budget) -> scores."""
    scores: dict[str, dict[Any, list[float]]] = {}
    for r in range(repeats):
        train, test = draw(r)
        delta = runs.paper_delta(train.n_tasks) if train.n_tasks > 2 else 1e-3
        scores.setdefault(STL, {}).setdefault(None, []).append(runs.single_task(train, test, r, metric))
        scores.setdefault(MTL, {}).setdefault(None, []).append(runs.non_private(train, test, r, metric))
        for epsilon in epsilons:
            ours = runs.score(train, test, "subspace", epsilon, r, metric, delta=delta, neighbours="add-remove")
            scores.setdefault(OURS, {}).setdefault(epsilon, []).append(ours)
            for name in printed:
                value = runs.as_printed(NAMES[name], train, test, epsilon, delta, r, metric, folds)
                scores.setdefault(name, {}).setdefault(epsilon, []).append(value)
    return scores


def _series(scores: dict[str, dict[Any, list[float]]], epsilons: tuple[float, ...]) -> dict[str, Any]:
    series = {}
    for name, by_epsilon in scores.items():
        means = [summary(by_epsilon.get(e, by_epsilon.get(None, [float("nan")]))) for e in epsilons]
        series[name] = {"x": list(epsilons), "y": [s["mean"] for s in means], "std": [s["std"] for s in means]}
    return series


def _claims(scores: dict[str, dict[Any, list[float]]], epsilons: tuple[float, ...], printed: str, lower: bool) -> list[Check]:
    """The paper's shapes, and ours against the paper's variant at the same stated epsilon."""
    sign = 1 if lower else -1
    last, stl, mtl = epsilons[-1], scores[STL][None], scores[MTL][None]
    at = {name: np.asarray(v.get(last, v.get(None))) * sign for name, v in scores.items()}
    checks = [
        not_above(f"{printed} does not underperform STL at epsilon {last:g}", at[printed], np.asarray(stl) * sign, 0.02 * sign),
        below(f"MTL is better than STL (epsilon {last:g})", np.asarray(mtl) * sign, np.asarray(stl) * sign),
    ]
    if MTRL in scores:
        checks.append(below(f"{printed} beats DP-MTRL at epsilon {last:g}", at[printed], at[MTRL]))
    for epsilon in epsilons:
        ours, theirs = np.asarray(scores[OURS][epsilon]) * sign, np.asarray(scores[printed][epsilon]) * sign
        claim = f"sound default at least as good as {printed} at epsilon {epsilon:g}"
        checks.append(not_above(claim, ours, theirs, about="ours"))
    return checks


def _figure(
    name: str, claim: str, draw: Any, epsilons: tuple[float, ...], repeats: int, quick: bool, metric: str, printed: str,
    which: tuple[str, ...],
) -> Result:  # fmt: skip
    scores = _privacy_accuracy(draw, epsilons, repeats, 1 if quick else 5, metric, which)
    lower, middle = metric == "nmse", epsilons[len(epsilons) // 2]
    stl, mtl = np.mean(scores[STL][None]), np.mean(scores[MTL][None])

    def closed(scored: list[float]) -> str:
        share = (stl - np.mean(scored)) / (stl - mtl) if stl != mtl else float("nan")
        return f"{np.mean(scored):.4f} at epsilon {middle:g} ({100 * share:.0f} % of the gap STL {stl:.4f} - MTL {mtl:.4f})"

    return Result(
        name, PAPER, claim, "between STL and MTL, rising with epsilon", as_printed=closed(scores[printed][middle]),
        sound=closed(scores[OURS][middle]), checks=_claims(scores, epsilons, printed, lower),
        series=_series(scores, epsilons), axes={"x": "epsilon", "y": metric, "log": "x"},
        settings={"repeats": repeats, "epsilons": list(epsilons), "metric": metric, "neighbours": "add-remove",
                  "unit": "task", "observer": "other-tasks", "delta": "1/(m log m)"},
    )  # fmt: skip


def _synthetic(kind: str, m: int, seed: int) -> Any:
    def draw(r: int) -> tuple[TaskSet, TaskSet]:
        data = get_synthetic(kind, seed=seed + r, n_tasks=m)
        return data.train, data.test

    return draw


def fig6(quick: bool, seed: int) -> Result:
    """Privacy against accuracy on the low-rank and group-sparse sets: here low-rank."""
    epsilons = (0.1, 1.0, 10.0) if quick else (0.1, 0.3, 1.0, 3.0, 10.0)
    which = (LOW_RANK, MTRL) if quick else (LOW_RANK, GROUP, MTRL, AGGR)
    claim = "MP-MTL lies between STL and non-private MTL on low-rank data and beats DP-MTRL and DP-AGGR"
    return _figure("fig6", claim, _synthetic("low-rank", 320, seed), epsilons, 2 if quick else 20, quick, "nmse", LOW_RANK, which)


def fig7(quick: bool, seed: int) -> Result:
    """The same on the group-sparse set."""
    epsilons = (0.1, 1.0, 10.0) if quick else (0.1, 0.3, 1.0, 3.0, 10.0)
    which = (GROUP,) if quick else (LOW_RANK, GROUP, MTRL, AGGR)
    claim = "MP-MTL-GS lies between STL and non-private MTL on group-sparse data"
    return _figure("fig7", claim, _synthetic("group-sparse", 320, seed), epsilons, 2 if quick else 20, quick, "nmse", GROUP, which)


def fig8(quick: bool, seed: int) -> Result:
    """Accuracy over the number of tasks at epsilon 1 (the paper: 0.1)."""
    sizes, repeats = ((40, 160, 320), 2) if quick else ((20, 40, 80, 160, 320), 20)
    scores: dict[str, dict[int, list[float]]] = {STL: {}, LOW_RANK: {}, OURS: {}}
    grid = [{"rounds": 10, "penalty": p, "clip": 7.0} for p in (0.5, 4.0)]
    for m in sizes:
        for r in range(repeats):
            data = get_synthetic("low-rank", seed=seed + r, n_tasks=m)
            delta = runs.paper_delta(m)
            scores[STL].setdefault(m, []).append(runs.score(data.train, data.test, "local", None, r))
            printed = runs.as_printed("low-rank", data.train, data.test, 1.0, delta, r, folds=1, grid=grid)
            scores[LOW_RANK].setdefault(m, []).append(printed)
            ours = runs.score(data.train, data.test, "subspace", 1.0, r, delta=delta, neighbours="add-remove")
            scores[OURS].setdefault(m, []).append(ours)
    series = {name: {"x": list(v), "y": [float(np.mean(s)) for s in v.values()]} for name, v in scores.items()}
    first, last = sizes[0], sizes[-1]
    return Result(
        "fig8", PAPER, "accuracy grows with the number of tasks", "error falls with m",
        as_printed=f"nMSE {np.mean(scores[LOW_RANK][first]):.4f} at {first} tasks, {np.mean(scores[LOW_RANK][last]):.4f} at {last}",
        sound=f"nMSE {np.mean(scores[OURS][first]):.4f} at {first} tasks, {np.mean(scores[OURS][last]):.4f} at {last}",
        checks=[
            below("as printed: error falls with the number of tasks", scores[LOW_RANK][last], scores[LOW_RANK][first]),
            below("sound: error falls with the number of tasks", scores[OURS][last], scores[OURS][first], about="ours"),
        ],
        series=series, axes={"x": "tasks", "y": "nMSE"}, settings={"repeats": repeats, "epsilon": 1.0},
    )  # fmt: skip


def _school(fraction: float, seed: int) -> Any:
    tasks = tv.load_tasks("school")
    return lambda r: split_rows(tasks, fraction, seed + r)


def fig9(quick: bool, seed: int) -> Result:
    """School at 30 % training rows, all baselines."""
    epsilons, repeats = ((0.3, 1.0, 10.0), 2) if quick else ((0.1, 0.3, 1.0, 3.0, 10.0), 20)
    which = (LOW_RANK,) if quick else (LOW_RANK, GROUP, MTRL, AGGR)
    claim = "on School MP-MTL lies between STL and MTL"
    return _figure("fig9", claim, _school(0.3, seed), epsilons, repeats, quick, "nmse", LOW_RANK, which)


def fig10(quick: bool, seed: int) -> Result:
    """School over training fractions at epsilon 1."""
    return _fractions("fig10", quick, seed, LOW_RANK)


def fig11(quick: bool, seed: int) -> Result:
    """School over training fractions at epsilon 1, group-sparse."""
    return _fractions("fig11", quick, seed, GROUP)


def _fractions(name: str, quick: bool, seed: int, printed: str) -> Result:
    fractions, repeats = (0.3, 0.5, 0.7, 0.9), 2 if quick else 20
    scores: dict[str, dict[float, list[float]]] = {STL: {}, printed: {}, OURS: {}}
    grid = [{"rounds": 10, "penalty": p, "clip": 7.0} for p in (0.5, 4.0)]
    for fraction in fractions:
        draw = _school(fraction, seed)
        for r in range(repeats):
            train, test = draw(r)
            delta = runs.paper_delta(train.n_tasks)
            scores[STL].setdefault(fraction, []).append(runs.score(train, test, "local", None, r))
            value = runs.as_printed(NAMES[printed], train, test, 1.0, delta, r, folds=1, grid=grid)
            scores[printed].setdefault(fraction, []).append(value)
            ours = runs.score(train, test, "subspace", 1.0, r, delta=delta, neighbours="add-remove")
            scores[OURS].setdefault(fraction, []).append(ours)
    series = {key: {"x": list(v), "y": [float(np.mean(s)) for s in v.values()]} for key, v in scores.items()}
    return Result(
        name, PAPER, f"{printed} does not underperform STL at any training fraction", "School, 30/50/70/90 %",
        as_printed=f"nMSE {np.mean(scores[printed][0.3]):.4f} at 30 %", sound=f"nMSE {np.mean(scores[OURS][0.3]):.4f} at 30 %",
        checks=[
            *[not_above(f"as printed not worse than STL at {f:.0%}", scores[printed][f], scores[STL][f], 0.02) for f in fractions],
            *[not_above(f"sound at least as good as printed at {f:.0%}", scores[OURS][f], scores[printed][f], about="ours")
              for f in fractions],
        ],
        series=series, axes={"x": "training fraction", "y": "nMSE"}, settings={"repeats": repeats, "epsilon": 1.0},
    )  # fmt: skip


def fig12(quick: bool, seed: int) -> Result:
    """LSOA II is not available: a binary stand-in, HAR "sitting" against the rest, reduced to 40 features, average AUC."""
    fractions, repeats = ((0.3, 0.9), 1) if quick else ((0.3, 0.5, 0.7, 0.9), 10)
    tasks = _sitting(seed)
    scores: dict[str, dict[float, list[float]]] = {STL: {}, OURS: {}, MTL: {}}
    for fraction in fractions:
        for r in range(repeats):
            train, test = split_rows(tasks, fraction * 0.2, seed + r, group="run")
            scores[STL].setdefault(fraction, []).append(runs.score(train, test, "local", None, r, "auc"))
            scores[MTL].setdefault(fraction, []).append(runs.score(train, test, "pooled", None, r, "auc"))
            ours = runs.score(train, test, "subspace", 3.0, r, "auc", delta=1e-3, neighbours="add-remove")
            scores[OURS].setdefault(fraction, []).append(ours)
    series = {key: {"x": list(v), "y": [float(np.mean(s)) for s in v.values()]} for key, v in scores.items()}
    return Result(
        "fig12", PAPER, "a binary stand-in for LSOA II (not available): private MTL is not below STL", "AUC, LSOA II",
        sound=f"AUC {np.mean(scores[OURS][fractions[0]]):.4f} at {fractions[0]:.0%}, alone {np.mean(scores[STL][fractions[0]]):.4f}",
        checks=[
            not_above(f"sound not below STL at {f:.0%}", -np.asarray(scores[OURS][f]), -np.asarray(scores[STL][f]), -0.02, about="ours")
            for f in fractions
        ],
        series=series, axes={"x": "training fraction", "y": "average AUC"},
        settings={"repeats": repeats, "epsilon": 3.0, "stand-in": "har, sitting against the rest, 40 of 561 features"},
    )  # fmt: skip


def _sitting(seed: int) -> TaskSet:
    from dataclasses import replace

    har = tv.load_tasks("har", positive="SITTING")
    kept = np.sort(np.random.default_rng(seed).choice(har.n_features, 40, replace=False))
    names = tuple(har.feature_names[j] for j in kept)
    return replace(har, X=np.ascontiguousarray(har.X[:, kept]), feature_names=names)
