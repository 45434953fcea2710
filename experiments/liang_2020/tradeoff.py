"""Privacy against accuracy: one table of scores per setting, and the paper's claims about it as inequalities.

A setting is a way to draw training and test rows, a list of epsilons and a metric. Every replication is a fresh draw (synthetic)
or a fresh split (real data); all methods see the same draws, so tests are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

import taskveil as tv
from experiments.common import Check, below, not_above, positive, summary, versions
from experiments.liang_2020 import runs
from experiments.liang_2020.choosing import WIDTHS, Folds, tuned
from experiments.liang_2020.tuning import kept, replication
from taskveil.tasks.task import TaskSet

PAPER = "MP-MTL"
STL, ALONE, MTL, FREE = "STL", "alone, tuned locally", "MTL, best of four", "subspace, no privacy"
LOW_RANK, GROUP = "MP-MTL-LR as printed", "MP-MTL-GS as printed"
MTRL, AGGR = "DP-MTRL as printed", "DP-AGGR as printed"
OURS, TUNED = "subspace, sound", "MP-MTL-LR sound, tuned privately"
ADD_REMOVE = "subspace, sound, a task added or removed"  # the easier neighbours, at epsilon 1
PRINTED = {LOW_RANK: "low-rank", GROUP: "group-sparse", MTRL: "dp-mtrl", AGGR: "dp-aggr"}
EVERY_EPSILON = (0.1, 0.3, 1.0, 3.0, 10.0)
QUICK_EPSILONS = (0.1, 1.0, 10.0)
CERTAIN = "share of runs in which LR as printed shows for certain that a task is absent"
PLAIN_FOLDS = 2  # of five, for penalties without privacy: nothing is noisy there
RIVALS = 0.1  # "rivals": within ten per cent

Scores = dict[str, dict[Any, list[float]]]  # name -> epsilon (None: without a budget) -> one score per replication


@dataclass(frozen=True)
class Draws:
    """Training and test rows by number; the name is that of the data set and its seed."""

    data: str
    make: Callable[[int], tuple[TaskSet, TaskSet]]

    def __call__(self, number: int) -> tuple[TaskSet, TaskSet]:
        return self.make(number)


@dataclass
class Setting:
    """What is drawn, scored and compared."""

    draw: Draws
    epsilons: Sequence[float]
    repeats: int
    quick: bool
    metric: str = "nmse"
    printed: Sequence[str] = tuple(PRINTED)
    ours: bool = True
    references: bool = True
    private_repeats: int = 0
    single: tuple[str, ...] = ("l2", "l1")
    folds: int = 5
    options: dict[str, dict[str, Any]] = field(default_factory=dict)  # what tuning chose
    certain: dict[str, float] = field(default_factory=dict)  # by epsilon: how often LR's printed noise betrays an absent task

    @property
    def sign(self) -> int:
        """Times this, smaller is better."""
        return 1 if self.metric in runs.LOWER_IS_BETTER else -1

    def described(self) -> dict[str, Any]:
        return {
            "repeats": self.repeats, "epsilons": list(self.epsilons), "metric": self.metric, "unit": "task",
            "neighbours": f"{runs.NEIGHBOURS} (Definition 6)", "observer": "other-tasks", "delta": "1/(m log m)", "folds of five": self.folds,
            "repeats with private tuning": self.private_repeats, "chosen by cross-validation": self.options, CERTAIN: self.certain,
        }  # fmt: skip


def measure(setting: Setting, tuning_draw: int = 1000) -> Scores:
    """All scores; hyper-parameters of the printed methods are tuned once, on a draw that no replication uses."""
    scores: Scores = {}
    tune(setting, tuning_draw)
    data = "" if setting.quick else setting.draw.data
    asked = setting.described() | {"repeats": None, "single": setting.single, "ours": setting.ours, "software": versions()}
    for r in range(setting.repeats):
        for name, epsilon, value in replication(data, asked, r, lambda r=r: _replication(setting, *setting.draw(r), r)):
            scores.setdefault(name, {}).setdefault(epsilon, []).append(value)
    return scores


def tune(setting: Setting, tuning_draw: int) -> None:
    """Fills setting.options, from what was kept where it can; a quick run keeps nothing."""
    extra, _ = setting.draw(tuning_draw)
    data = "" if setting.quick else setting.draw.data
    rows = Folds(extra, tuning_draw, setting.metric)
    for name in setting.printed:
        for epsilon in setting.epsilons:
            grid = runs.grid_of(PRINTED[name], setting.quick)
            search = partial(tuned, PRINTED[name], rows, epsilon, setting.folds, grid, () if setting.quick else WIDTHS)
            chosen = kept(data, f"chosen/{name}", epsilon, search)
            setting.options.setdefault(name, {})[f"{epsilon:g}"] = chosen
            if name == LOW_RANK:
                setting.certain[f"{epsilon:g}"] = runs.certain_of_absence(chosen, extra.n_tasks, epsilon)
    common = tuning_draw, setting.metric, min(setting.folds, PLAIN_FOLDS)
    if setting.references:
        setting.options[MTL] = kept(data, f"chosen/{MTL}", "none", partial(runs.plain_options, extra, *common, setting.quick))
    single = partial(runs.single_task_options, extra, *common, setting.single)
    setting.options[STL] = kept(data, f"chosen/{STL}", "none", single)


def _replication(setting: Setting, train: TaskSet, test: TaskSet, r: int) -> list[tuple[str, float | None, float]]:
    metric, found = setting.metric, []
    found.append((STL, None, runs.score(train, test, tv.methods.get("local", **setting.options[STL]), None, r, metric)))
    if setting.references:
        plain = runs.non_private(train, test, r, metric, 1e-3 if setting.quick else 1e-4, setting.options[MTL])
        found.append((ALONE, None, runs.score(train, test, "local", None, r, metric)))
        found.append((MTL, None, min(plain.values()) if setting.sign > 0 else max(plain.values())))
        found.append((FREE, None, runs.score(train, test, "subspace", None, r, metric)))
    for epsilon in setting.epsilons:
        for name in setting.printed:
            options = setting.options[name][f"{epsilon:g}"]
            found.append((name, epsilon, runs.as_printed(PRINTED[name], options, train, test, epsilon, r, metric)))
        if setting.ours:
            found.append((OURS, epsilon, runs.sound(train, test, epsilon, r, metric)))
            if epsilon == 1.0 and setting.private_repeats:  # the figures of the headline
                found.append((ADD_REMOVE, epsilon, runs.sound(train, test, epsilon, r, metric, "add-remove")))
        if r < setting.private_repeats and (epsilon == 1.0 or not setting.quick):
            value = runs.privately_tuned(train, test, epsilon, r, metric)
            found += [] if value is None else [(TUNED, epsilon, value)]
    return found


def series(scores: Scores, epsilons: Sequence[float], panel: str | None = None) -> dict[str, Any]:
    """Lines for the picture and the page: mean, standard deviation and every score.

    Without a panel of its own the paper's lines and ours stand in two, so that no panel has more than eight.
    """
    lines = {}
    for name, by_epsilon in scores.items():
        if panel is not None and name == ALONE:
            continue  # STL is the paper's line for learning alone
        flat = by_epsilon.get(None)
        shown = epsilons if flat is not None else [e for e in epsilons if e in by_epsilon]
        found = [summary([round(s, 5) for s in (flat if flat is not None else by_epsilon[e])]) for e in shown]
        line = {"x": list(shown), "y": [s["mean"] for s in found], "std": [s["std"] for s in found],
                "scores": [found[0]["scores"]] if flat is not None else [s["scores"] for s in found]}  # fmt: skip
        where = panel or ("the paper's methods" if name in (STL, MTL, *PRINTED) else "ours")
        lines[f"{panel}: {name}" if panel else name] = {**line, "label": name, "panel": where}
    return lines


def best_free(scores: Scores, sign: int) -> np.ndarray:
    """The best score without privacy, replication by replication: the paper's four methods and our own."""
    return sign * np.min([sign * np.asarray(scores[name][None]) for name in (MTL, FREE)], axis=0)


def shares(scores: Scores, name: str, epsilon: float, sign: int) -> np.ndarray:
    """Share of the gap from learning alone to the best without privacy that is closed, replication by replication."""
    at = np.asarray(scores[name][epsilon])
    alone, best = np.asarray(scores[ALONE][None])[: at.size], best_free(scores, sign)[: at.size]
    return (alone - at) / (alone - best)


def in_words(scores: Scores, name: str, epsilon: float, setting: Setting) -> str:
    at = np.asarray(scores[name][epsilon])
    text = f"{setting.metric} {at.mean():.4f} ± {at.std(ddof=1):.4f} at epsilon {epsilon:g}"
    if not setting.references:
        return text
    alone, best = np.mean(scores[ALONE][None]), best_free(scores, setting.sign).mean()
    if setting.sign * (alone - best) <= 0:
        return f"{text} (alone {alone:.4f}; nothing without privacy is better)"
    closed = 100 * shares(scores, name, epsilon, setting.sign)
    return f"{text}, {closed.mean():.0f} ± {closed.std(ddof=1):.0f} % of the gap from {alone:.4f} (alone) to {best:.4f} (best without privacy)"


class Claims:
    """Inequalities over the scores of one setting, always with "smaller is better" inside."""

    def __init__(self, scores: Scores, setting: Setting):
        self.scores, self.setting, self.checks = scores, setting, list[Check]()

    def values(self, name: str, epsilon: float | None) -> np.ndarray:
        by_epsilon = self.scores[name]
        return self.setting.sign * np.asarray(by_epsilon.get(epsilon, by_epsilon.get(None)))

    def better(self, said: str, left: str, right: str, epsilons: Sequence[float], about: str = "paper") -> None:
        for e in epsilons:
            self.add(below(f"{said} at epsilon {e:g}", self.values(left, e), self.values(right, e), about))

    def no_worse(
        self, said: str, left: str, right: str, epsilons: Sequence[float], margin: float = 0.0, about: str = "paper"
    ) -> None:
        for e in epsilons:
            self.add(not_above(f"{said} at epsilon {e:g}", self.values(left, e), self.values(right, e), margin, about))

    def grows(self, said: str, name: str, about: str = "paper") -> None:
        first, last = self.setting.epsilons[0], self.setting.epsilons[-1]
        self.add(below(f"{said} from epsilon {first:g} to {last:g}", self.values(name, last), self.values(name, first), about))

    def beyond(self, said: str, name: str, limit: float, epsilons: Sequence[float]) -> None:
        """The paper's printed limits: worse than `limit` at each epsilon, but better than knowing nothing.

        A method that predicts the mean (nMSE 1, AUC 0.5) meets any such limit; that would say nothing about the paper's curve.
        """
        sign, worthless = self.setting.sign, 1.0 if self.setting.sign > 0 else 0.5
        for e in epsilons:
            values, claim = self.values(name, e), f"{said}, and is better than {worthless:g}, at epsilon {e:g}"
            both = [positive(claim, side, printed=f"{limit:g}") for side in (values - sign * limit, sign * worthless - values)]
            check = min(
                both, key=lambda c: ((False, None, True).index(c.holds), c.low)
            )  # one that fails, else one that cannot tell
            self.checks.append(replace(check, left=float(sign * values.mean()), right=limit))

    def add(self, check: Check) -> None:
        """Keep a check, its two sides turned back to what was measured."""
        self.checks.append(replace(check, left=self.setting.sign * check.left, right=self.setting.sign * check.right))

    def ours_against_printed(self) -> None:
        for name in (LOW_RANK, GROUP):
            if name in self.scores:
                said = f"sound default at least as good as {name}"
                self.no_worse(said, OURS, name, self.setting.epsilons, about="ours")
