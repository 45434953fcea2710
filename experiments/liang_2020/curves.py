"""MP-MTL Fig. 6-7 (synthetic), 9-12 (School, and a binary stand-in for LSOA II): privacy against accuracy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import numpy as np

import taskveil as tv
from experiments.common import Check, Result, below, near
from experiments.liang_2020.tradeoff import (
    AGGR,
    EVERY_EPSILON,
    GROUP,
    LOW_RANK,
    MTL,
    MTRL,
    OURS,
    PAPER,
    QUICK_EPSILONS,
    RIVALS,
    STL,
    Claims,
    Draws,
    Scores,
    Setting,
    in_words,
    measure,
    series,
    shares,
)
from taskveil.tasks.split import split_rows
from taskveil.tasks.synthetic import get_synthetic
from taskveil.tasks.task import TaskSet

STAND_IN = "har, sitting against the rest, 40 of 561 features drawn by seed, whole recordings on one side of a split"
FRACTIONS, QUICK_FRACTIONS = (0.3, 0.5, 0.7, 0.9), (0.3, 0.9)
QUICK_REPEATS = 3


def named(data: str, seed: int) -> str:
    return data if seed == 0 else f"{data}, seed {seed}"


def synthetic(kind: str, seed: int) -> Draws:
    def draw(r: int) -> tuple[TaskSet, TaskSet]:
        data = get_synthetic(kind, seed=seed + r)
        return data.train, data.test

    return Draws(named(kind, seed), draw)


def unit_rows(tasks: TaskSet) -> TaskSet:
    """Each data point has length one (section 5.5.1); columns are then scaled as everywhere."""
    X = np.asarray(tasks.X, dtype=float)
    return replace(tasks, X=np.ascontiguousarray(X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-12)))


def school(fraction: float, seed: int) -> Draws:
    tasks = unit_rows(tv.load_tasks("school"))
    return Draws(named(f"school {fraction:.0%}", seed), lambda r: split_rows(tasks, fraction, seed + r))


def stand_in(fraction: float, seed: int) -> Draws:
    """LSOA II (41 binary outcomes, 295 features) is not available: HAR, 30 people, sitting or not."""
    draw = lambda r: split_rows(sitting(seed), fraction, seed + r, group="run")  # noqa: E731
    return Draws(named(f"stand-in {fraction:.0%}", seed), draw)


@cache
def sitting(seed: int) -> TaskSet:
    har = tv.load_tasks("har", positive="SITTING")
    kept = np.sort(np.random.default_rng(seed).choice(har.n_features, 40, replace=False))
    names = tuple(har.feature_names[j] for j in kept)
    return unit_rows(replace(har, X=np.ascontiguousarray(har.X[:, kept]), feature_names=names))


def fig6(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """Fig. 6 (a): low-rank data."""
    setting = _all_methods(synthetic("low-rank", seed), quick, repeats)
    scores = measure(setting)
    claims = _between_stl_and_mtl(scores, setting)
    claims.checks.append(
        near("non-private MTL has the printed nMSE (within 5 %)", scores[MTL][None], 0.0140, 0.05, place="Fig. 4")
    )
    claims.better("GS is worse than LR, as the models are not group-sparse,", LOW_RANK, GROUP, setting.epsilons)
    claims.better("DP-MTRL beats STL", MTRL, STL, setting.epsilons[-1:])
    claims.no_worse("LR rivals non-private MTL", LOW_RANK, MTL, setting.epsilons[-1:], RIVALS)
    claim = "low-rank data: MP-MTL lies between STL and non-private MTL; LR rivals MTL at epsilon 10; GS is worse than LR"
    return _tradeoff("fig6", claim, "STL > MP-MTL > MTL, MP-MTL near MTL at epsilon 10", scores, setting, claims.checks)


def headline(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """Fig. 6 (a) at epsilon 1 alone: the share of the gap that each side closes, and ours for both kinds of neighbours."""
    setting = Setting(synthetic("low-rank", seed), (1.0,), repeats or (3 if quick else 30), quick, printed=(LOW_RANK, GROUP),
                      private_repeats=1, single=("l2",), folds=1 if quick else 5)  # fmt: skip
    scores = measure(setting)
    claims = Claims(scores, setting)
    claims.ours_against_printed()
    claims.better("LR is better than STL", LOW_RANK, STL, setting.epsilons)
    claim = "low-rank data at epsilon 1: how much of the gap from learning alone to the best without privacy is closed"
    return _tradeoff("headline", claim, "MP-MTL-LR lies between STL and MTL (Fig. 6 a)", scores, setting, claims.checks)


def fig6b(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """Fig. 6 (b): group-sparse data."""
    setting = _all_methods(synthetic("group-sparse", seed), quick, repeats)
    scores = measure(setting)
    claims = _between_stl_and_mtl(scores, setting)
    claims.no_worse("LR rivals GS", LOW_RANK, GROUP, setting.epsilons, RIVALS)
    claims.better("DP-MTRL is worse than STL", STL, MTRL, setting.epsilons[-1:])
    claims.no_worse("LR rivals non-private MTL", LOW_RANK, MTL, setting.epsilons[-1:], RIVALS)
    claim = "group-sparse data: MP-MTL lies between STL and non-private MTL; LR rivals GS, and MTL at epsilon 10"
    return _tradeoff("fig6b", claim, "STL > MP-MTL > MTL, MP-MTL near MTL at epsilon 10", scores, setting, claims.checks)


def fig7(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """DP-MTRL and DP-AGGR in detail, on both synthetic sets."""
    result = Result("fig7", PAPER, "DP-AGGR is far worse than STL on both sets and gains with epsilon; DP-MTRL is worse than STL on group-sparse data",
                    "nMSE of DP-AGGR above 0.78; of DP-MTRL above 0.16 on group-sparse data")  # fmt: skip
    parts = []
    for kind in ("low-rank", "group-sparse"):
        setting = Setting(synthetic(kind, seed), QUICK_EPSILONS if quick else EVERY_EPSILON, repeats or (QUICK_REPEATS if quick else 100), quick,
                          printed=(MTRL, AGGR), references=False, ours=False, folds=1 if quick else 5)  # fmt: skip
        scores = measure(setting)
        claims = Claims(scores, setting)
        claims.beyond(f"{kind}: DP-AGGR has nMSE above 0.78", AGGR, 0.78, setting.epsilons)
        claims.better(f"{kind}: DP-AGGR is worse than STL", STL, AGGR, setting.epsilons)
        claims.grows(f"{kind}: DP-AGGR gains", AGGR)
        if kind == "group-sparse":
            claims.beyond("group-sparse: DP-MTRL has nMSE above 0.16", MTRL, 0.16, setting.epsilons)
        result.checks += claims.checks
        result.series |= series(scores, setting.epsilons, kind)
        result.settings[kind] = setting.described()
        last = setting.epsilons[-1]
        parts.append(f"{kind}: DP-AGGR {in_words(scores, AGGR, last, setting)}, DP-MTRL {in_words(scores, MTRL, last, setting)}")
    result.as_printed = "; ".join(parts)
    result.axes = {"x": "epsilon", "y": "nMSE", "log": "xy"}
    return result


def fig9(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """Fig. 9 (a): School, 30 % of the rows train."""
    setting = _all_methods(school(0.3, seed), quick, repeats)
    scores = measure(setting)
    claims = _real_data(scores, setting)
    claim = "School: MP-MTL lies between STL and MTL and beats DP-MTRL and DP-AGGR; DP-AGGR is worse than STL"
    return _tradeoff("fig9", claim, "as Fig. 6", scores, setting, claims.checks)


def fig9b(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """Fig. 9 (b) on a stand-in for LSOA II."""
    setting = _all_methods(stand_in(0.3, seed), quick, repeats, metric="auc")
    scores = measure(setting)
    claims = _real_data(scores, setting)
    claims.beyond("DP-AGGR has an AUC below 0.66", AGGR, 0.66, setting.epsilons)
    claim = "binary outcomes (stand-in for LSOA II): MP-MTL lies between STL and MTL and beats DP-MTRL and DP-AGGR"
    result = _tradeoff("fig9b", claim, "AUC grows slowly; DP-AGGR below 0.66 (LSOA II)", scores, setting, claims.checks)
    result.settings["stand-in"] = STAND_IN
    return result


def fig10(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """DP-AGGR in detail: (a) School, (b) the stand-in."""
    result = Result("fig10", PAPER, "DP-AGGR gains with epsilon on School, barely on LSOA II (stand-in), and stays worse than STL",
                    "rising on School, flat on LSOA II")  # fmt: skip
    parts = []
    for name, draw, metric in (("School", school(0.3, seed), "nmse"), ("stand-in", stand_in(0.3, seed), "auc")):
        setting = Setting(draw, QUICK_EPSILONS if quick else EVERY_EPSILON, repeats or (QUICK_REPEATS if quick else 100), quick, metric,
                          printed=(AGGR,), references=False, ours=False, folds=1 if quick else 5)  # fmt: skip
        scores = measure(setting)
        claims = Claims(scores, setting)
        claims.better(f"{name}: DP-AGGR is worse than STL", STL, AGGR, setting.epsilons)
        if name == "School":
            claims.grows("School: DP-AGGR gains", AGGR)
        else:
            first, last = setting.epsilons[0], setting.epsilons[-1]
            gained = np.asarray(scores[AGGR][last]) - np.asarray(scores[AGGR][first])
            claims.checks.append(below("stand-in: DP-AGGR gains less than 0.05 of AUC", gained, np.full(gained.size, 0.05)))
        result.checks += claims.checks
        result.series |= series(scores, setting.epsilons, name)
        result.settings[name] = setting.described()
        parts.append(f"{name}: {in_words(scores, AGGR, setting.epsilons[-1], setting)}")
    result.settings["stand-in is"] = STAND_IN
    result.as_printed = "; ".join(parts)
    result.axes = {"x": "epsilon", "y": "nMSE or AUC", "log": "x"}
    return result


def fig11(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """School at 30, 50, 70 and 90 % training rows."""
    return _fractions("fig11", "School", lambda fraction: school(fraction, seed), "nmse", quick, repeats)


def fig12(quick: bool, seed: int, repeats: int | None = None) -> Result:
    """The stand-in for LSOA II at 30, 50, 70 and 90 % training rows."""
    result = _fractions("fig12", "stand-in for LSOA II", lambda fraction: stand_in(fraction, seed), "auc", quick, repeats)
    result.settings["stand-in"] = STAND_IN
    return result


def _fractions(name: str, data: str, draw_at: Callable[[float], Draws], metric: str, quick: bool, repeats: int | None) -> Result:
    """The same comparison at four training fractions, one panel each."""
    epsilons, repeats = ((0.1, 1.0), repeats or 2) if quick else (EVERY_EPSILON, repeats or 100)
    result = Result(name, PAPER, f"{data}: LR and GS behave alike at 30, 50, 70 and 90 % training rows and beat DP-MTRL and DP-AGGR",
                    "four alike panels")  # fmt: skip
    printed, ours, every = [], [], []
    for fraction in QUICK_FRACTIONS if quick else FRACTIONS:
        setting = Setting(draw_at(fraction), epsilons, repeats, quick, metric, printed=(LOW_RANK, GROUP, MTRL, AGGR),
                          folds=1 if quick else 5, single=("l2",) if quick else ("l2", "l1"))  # fmt: skip
        scores = measure(setting)
        every.append(scores)
        claims, at = Claims(scores, setting), f"{fraction:.0%}"
        for short, method in (("LR", LOW_RANK), ("GS", GROUP)):
            claims.no_worse(f"{at}: {short} is not worse than STL", method, STL, epsilons)
            claims.better(f"{at}: {short} beats DP-MTRL", method, MTRL, epsilons)
            claims.better(f"{at}: {short} beats DP-AGGR", method, AGGR, epsilons)
        claims.no_worse(f"{at}: sound default at least as good as {LOW_RANK}", OURS, LOW_RANK, epsilons, about="ours")
        result.checks += claims.checks
        result.series |= series(scores, epsilons, at)
        result.settings[at] = setting.described()
        printed.append(f"{at} {_short(scores, LOW_RANK, setting)}")
        ours.append(f"{at} {_short(scores, OURS, setting)}")
    stl = f"{metric} at epsilon 1 (STL in brackets): "
    result.as_printed, result.sound = stl + ", ".join(printed), stl + ", ".join(ours)
    result.axes = _axes(metric, every)
    return result


def _short(scores: Scores, name: str, setting: Setting) -> str:
    at = np.asarray(scores[name][1.0])
    return f"{at.mean():.4f} ± {at.std(ddof=1):.4f} ({np.mean(scores[STL][None]):.4f})"


def _all_methods(draw: Draws, quick: bool, repeats: int | None, metric: str = "nmse") -> Setting:
    """All lines of Fig. 6 and 9. On the synthetic sets the paper's STL is the l2 one."""
    made_up = draw.data.startswith(("low-rank", "group-sparse"))
    return Setting(
        draw, QUICK_EPSILONS if quick else EVERY_EPSILON, repeats or (QUICK_REPEATS if quick else 100), quick, metric,
        private_repeats=1 if quick else 5, single=("l2",) if made_up else ("l2", "l1"), folds=1 if quick else 5,
    )  # fmt: skip


def _between_stl_and_mtl(scores: Scores, setting: Setting) -> Claims:
    """What section 5.4.3 says of Fig. 6: both algorithms fall between STL and MTL; accuracy rises with epsilon."""
    claims = Claims(scores, setting)
    claims.add(below("MTL is better than STL", claims.values(MTL, None), claims.values(STL, None)))
    for short, name in (("LR", LOW_RANK), ("GS", GROUP)):
        claims.no_worse(f"{short} is not worse than STL", name, STL, setting.epsilons)
        claims.no_worse(f"{short} is not better than non-private MTL", MTL, name, setting.epsilons)
    claims.grows("LR gains", LOW_RANK)
    claims.ours_against_printed()
    return claims


def _real_data(scores: Scores, setting: Setting) -> Claims:
    """Section 5.5.2: as in Fig. 6, and better than the baselines, especially at small epsilon."""
    claims = _between_stl_and_mtl(scores, setting)
    for short, name in (("LR", LOW_RANK), ("GS", GROUP)):
        claims.better(f"{short} beats DP-MTRL", name, MTRL, setting.epsilons)
        claims.better(f"{short} beats DP-AGGR", name, AGGR, setting.epsilons)
    claims.better("DP-AGGR is worse than STL", STL, AGGR, setting.epsilons)
    return claims


def _tradeoff(name: str, claim: str, shape: str, scores: Scores, setting: Setting, checks: list[Check]) -> Result:
    settings = setting.described()
    settings["share of the gap closed at epsilon 1"] = {
        line: {"mean": float(s.mean()), "std": float(s.std(ddof=1)) if s.size > 1 else 0.0, "repeats": int(s.size)}
        for line in scores
        if 1.0 in scores[line]
        for s in [shares(scores, line, 1.0, setting.sign)]
    }
    return Result(
        name, PAPER, claim, shape,
        as_printed="; ".join(f"LR {in_words(scores, LOW_RANK, e, setting)}" for e in (1.0, 10.0) if e in setting.epsilons),
        sound="; ".join(in_words(scores, OURS, e, setting) for e in (1.0, 10.0) if e in setting.epsilons),
        checks=checks, series=series(scores, setting.epsilons),
        axes=_axes(setting.metric, [scores]), settings=settings,
    )  # fmt: skip


def _axes(metric: str, every: list[Scores]) -> dict[str, str]:
    """Log scale in epsilon; an error's frame ends just above the lines of interest: DP-MTRL and DP-AGGR lie far beyond."""
    axes = {"x": "epsilon", "y": metric, "log": "x"}
    if metric == "nmse":
        shown = [np.mean(v) for scores in every for name, by in scores.items() if name not in (MTRL, AGGR) for v in by.values()]
        axes |= {"y_max": f"{1.1 * max(shown):.4g}"}
    return axes
