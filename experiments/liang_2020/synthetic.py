"""MP-MTL Fig. 4 (how the budget is spread over rounds) and Fig. 8 (the number of tasks), both at epsilon 0.1 on low-rank data."""

from __future__ import annotations

from typing import Any

import numpy as np

import taskveil as tv
from experiments.common import Result, below, near, not_above, summary
from experiments.liang_2020 import runs
from experiments.liang_2020.choosing import Folds
from experiments.liang_2020.curves import synthetic
from experiments.liang_2020.tradeoff import ALONE, CERTAIN, LOW_RANK, MTL, OURS, PAPER, Setting, tune
from taskveil.tasks.synthetic import get_synthetic

EPSILON = 0.1
ALPHAS = (-2.0, -1.0, 0.0, 0.4, 1.0, 2.0)
POWERS = (-10.0, -3.0, 0.0, 0.2, 1.0, 3.0)  # Q = Q0^power: positive means budgets that grow over the rounds


def fig4(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """Budgets eps_t ~ t^alpha (a), and eps_t ~ Q^-t with strong convexity (b); with and without acceleration; cross-validated."""
    repeats, folds = (repeats or 4, 1) if quick else (repeats or 100, 5)
    errors: dict[str, dict[float, list[float]]] = {}
    for r in range(repeats):
        train = get_synthetic("low-rank", seed=seed + r).train
        names, places, options = zip(*_allocations(), strict=True)
        found = Folds(train, seed + r).scores("low-rank", list(options), EPSILON, folds)
        for name, place, error in zip(names, places, found.tolist(), strict=True):
            errors.setdefault(name, {}).setdefault(place, []).append(error)
    checks = []
    for panel, best, ends in (("t^alpha", 0.4, (-2.0, 2.0)), ("Q^-t", 0.2, (-10.0, 3.0))):
        fast, slow = errors[f"{panel}: with acceleration"], errors[f"{panel}: without acceleration"]
        over = [np.mean([v[r] for v in fast.values()]) for r in range(repeats)]
        checks.append(
            below(
                f"{panel}: acceleration helps (mean over the axis)",
                over,
                [np.mean([v[r] for v in slow.values()]) for r in range(repeats)],
            )
        )
        checks.append(not_above(f"{panel}: a small positive value ({best:g}) is no worse than 0", fast[best], fast[0.0]))
        checks += [
            below(f"{panel}: a small positive value ({best:g}) is better than {end:g}", fast[best], fast[end]) for end in ends
        ]
    lowest = {name: min(v, key=lambda place: np.mean(v[place])) for name, v in errors.items()}
    return Result(
        "fig4", PAPER, "acceleration helps; the best allocation has a small positive exponent",
        "local optimum at small positive values (non-private MTL 0.0140)",
        as_printed="; ".join(f"{name}: lowest nMSE {np.mean(errors[name][p]):.4f} at {p:g}" for name, p in lowest.items()),
        sound="one release, so nothing to spread", checks=checks, series=_lines(errors),
        axes={"x": "alpha, or log of Q to base Q0 = 0.9684", "y": "nMSE, cross-validated"},
        settings={"repeats": repeats, "folds of five": folds, "tasks": 320, "epsilon": EPSILON, "rounds": 50, "penalty": 0.1, "step": 0.25,
                  "clip": runs.CLIP, "strong convexity in the second panel": runs.MU},
    )  # fmt: skip


def _allocations() -> list[tuple[str, float, dict[str, Any]]]:
    common = {"rounds": 50, "penalty": 0.1, "step": 0.25, "clip": runs.CLIP}
    found = []
    for words, plain, strong in (("with acceleration", "accelerated", "strong"), ("without acceleration", "none", "none")):
        for alpha in ALPHAS:
            found.append((f"t^alpha: {words}", alpha, {**common, "momentum": plain, "allocation": "power", "exponent": alpha}))
        for power in POWERS:
            spread = {"allocation": "geometric", "exponent": float(runs.Q0**power), "strong_convexity": runs.MU}
            found.append((f"Q^-t: {words}", power, {**common, "momentum": strong, **spread}))
    return found


def _lines(errors: dict[str, dict[float, list[float]]]) -> dict[str, Any]:
    lines = {}
    for name, by_place in errors.items():
        panel, _, label = name.partition(": ")
        found = [summary(v) for v in by_place.values()]
        lines[name] = {
            "x": list(by_place),
            "y": [s["mean"] for s in found],
            "std": [s["std"] for s in found],
            "panel": panel,
            "label": label,
        }
    return lines


def fig8(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """Mean error of 20 fixed tasks when they train together with more and more others, at the paper's epsilon 0.1 and at 1."""
    sizes, repeats = ((20, 80, 320), repeats or 3) if quick else ((20, 40, 80, 160, 320), repeats or 100)
    found: dict[str, dict[str, dict[int, list[float]]]] = {}
    reference: list[float] = []
    chosen, plain = _tuned(seed, quick)
    for r in range(repeats):
        data = get_synthetic("low-rank", seed=seed + r)
        order = np.random.default_rng(seed + r).permutation(320)  # the blocks of related tasks come in any order
        twenty = data.test.take_tasks(order[:20])
        every = data.train.take_tasks(order)
        reference.append(min(runs.non_private(every, twenty, r, tol=1e-3 if quick else 1e-4, options=plain).values()))
        for m in sizes:
            train = data.train.take_tasks(order[:m])
            alone = runs.score(train, twenty, "local", None, r)
            for epsilon, options in chosen.items():
                lines = found.setdefault(f"epsilon {epsilon:g}", {})
                printed = runs.as_printed("low-rank", options, train, twenty, epsilon, r)
                for name, value in ((ALONE, alone), (LOW_RANK, printed), (OURS, runs.sound(train, twenty, epsilon, r))):
                    lines.setdefault(name, {}).setdefault(m, []).append(value)
    checks, first, last = [], sizes[0], sizes[-1]
    for at, lines in found.items():
        checks.append(
            below(f"as printed: error falls from {first} to {last} tasks, {at}", lines[LOW_RANK][last], lines[LOW_RANK][first])
        )
        checks.append(
            below(f"sound: error falls from {first} to {last} tasks, {at}", lines[OURS][last], lines[OURS][first], about="ours")
        )
        checks += [
            not_above(
                f"sound default at least as good as {LOW_RANK} with {m} tasks, {at}",
                lines[OURS][m],
                lines[LOW_RANK][m],
                about="ours",
            )
            for m in sizes
        ]
    series = {
        f"{at}: {name}": {"x": list(v), "y": [summary(s)["mean"] for s in v.values()], "std": [summary(s)["std"] for s in v.values()],
                          "panel": at, "label": name}
        for at, lines in found.items() for name, v in lines.items()
    }  # fmt: skip
    for at in found:  # "We used 320 tasks for MTL training": one number, drawn across
        series[f"{at}: {MTL}"] = {"x": [first, last], "y": 2 * [summary(reference)["mean"]], "std": 2 * [summary(reference)["std"]],
                                  "panel": at, "label": f"{MTL}, 320 tasks"}  # fmt: skip
    return Result(
        "fig8", PAPER, "accuracy on 20 tasks grows with the number of tasks that train along", "error falls significantly with m (epsilon 0.1)",
        as_printed=_from_to(found, LOW_RANK, first, last), sound=_from_to(found, OURS, first, last), checks=checks, series=series,
        axes={"x": "tasks in training", "y": "nMSE of 20 tasks", "log": "x"},
        settings={"repeats": repeats, "epsilons": [0.1, 1.0], "chosen by cross-validation": {str(e): o for e, o in chosen.items()},
                  "delta": "1/(m log m)", "neighbours": runs.NEIGHBOURS, "unit": "task", "observer": "other-tasks",
                  CERTAIN: {f"{e:g}": runs.certain_of_absence(o, 320, e) for e, o in chosen.items()}},
    )  # fmt: skip


def _tuned(seed: int, quick: bool) -> tuple[dict[float, dict[str, Any]], dict[str, Any]]:
    """Algorithm 2's settings by epsilon, and the penalties without privacy: those of Fig. 6."""
    setting = Setting(
        synthetic("low-rank", seed), (0.1, 1.0), 0, quick, printed=(LOW_RANK,), folds=1 if quick else 5, single=("l2",)
    )
    tune(setting, 1000)
    return {e: setting.options[LOW_RANK][f"{e:g}"] for e in setting.epsilons}, setting.options[MTL]


def _from_to(found: dict[str, dict[str, dict[int, list[float]]]], name: str, first: int, last: int) -> str:
    said = []
    for at, lines in found.items():
        a, b = summary(lines[name][first]), summary(lines[name][last])
        said.append(
            f"{at}: nMSE {a['mean']:.4f} ± {a['std']:.4f} with {first} tasks, {b['mean']:.4f} ± {b['std']:.4f} with {last}"
        )
    return "; ".join(said)


SIGMAS = ((0.99, 70.0), (1.0, 70.0), (1.0, 130.0), (0.999, 130.0), (0.99, 200.0))  # correlation in a block, variance


def sigma(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """Which Sigma gives the printed nMSE of non-private MTL? The paper shows Sigma as a picture only (Fig. 3 a)."""
    repeats = repeats or (2 if quick else 10)
    found: dict[tuple[float, float], list[float]] = {}
    for correlation, variance in SIGMAS[:3] if quick else SIGMAS:
        drawn = [
            get_synthetic("low-rank", seed=seed + r, correlation=correlation, variance=variance) for r in (*range(repeats), 1000)
        ]
        penalties = (None, 0.03) if quick else runs.PLAIN_PENALTIES
        tried = {
            p: runs.score(drawn[-1].train, drawn[-1].test, tv.methods.get("low-rank", tol=1e-3, penalty=p), None, seed)
            for p in penalties
        }
        method = tv.methods.get("low-rank", tol=1e-3, penalty=min(tried, key=lambda p: tried[p]))
        found[correlation, variance] = [runs.score(d.train, d.test, method, None, seed + r) for r, d in enumerate(drawn[:-1])]
    said = {pair: f"correlation {pair[0]:g}, variance {pair[1]:g}" for pair in found}
    words = "; ".join(f"{said[pair]}: {np.mean(v):.4f} (noise alone {1 / (1 + pair[1]):.4f})" for pair, v in found.items())
    return Result(
        "sigma", PAPER, "non-private MTL has an nMSE of 0.0140 on the low-rank data", "0.0140 (caption of Fig. 4)", as_printed=words,
        sound="the noise in the targets alone leaves 1/(1 + variance), so a variance of 70 cannot give 0.0140 whatever the method; the trace norm needs "
        "more, because it shrinks what it shares",
        checks=[near(f"nMSE 0.0140 (within 2 %) with {said[pair]}", v, 0.0140, 0.02, place="Fig. 4") for pair, v in found.items()],
        axes={"y": "nMSE without privacy"}, settings={"repeats": repeats, "nmse": {said[pair]: v for pair, v in found.items()}},
    )  # fmt: skip
