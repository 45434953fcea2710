"""The tables of the study: a fresh draw (synthetic) or a fresh split (stored) for every seed.

chem97 has schools of about ten students as tasks, once with the grade as a number and once with "failed", a rare class; star
has 80 schools and categories; school and vehicle are the usual ones. Categories become 0/1 columns of publicly known levels.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

import taskveil as tv

Split = tuple[tv.TaskSet, tv.TaskSet]
STAR_NUMBERS = ("exp",)
STAR_LEVELS = ("gr", "cltype", "hdeg", "trace", "ses", "schtype", "sx", "eth")


def synthetic(name: str, **options: Any) -> Callable[[int], Split]:
    def draw(seed: int) -> Split:
        data = tv.get_synthetic(name, seed, **options)
        return data.train, data.test

    return draw


def stored(name: str, fraction: float, **options: Any) -> Callable[[int], Split]:
    return lambda seed: tv.split_rows(_loaded(name, **options), fraction, seed)


@cache
def _loaded(name: str, **options: Any) -> tv.TaskSet:
    own = {"chem97": _chem97, "chem97 failed": _failed, "star": _star}
    return own[name](**options) if name in own else tv.load_tasks(name, **options)


def _frame(name: str) -> pd.DataFrame:
    return pd.read_csv(Path(os.environ["TASKVEIL_DATA"]) / name / f"{name}.csv")


def _chem97() -> tv.TaskSet:
    frame = _frame("chem97").drop(columns="lea")
    return tv.load_tasks(frame.assign(gender=frame.gender == "M").astype({"gender": float}), task="school", target="score")


def _failed(schools: int = 600) -> tv.TaskSet:
    """The first schools only: many sites with a rare class."""
    frame = _frame("chem97").drop(columns="lea")
    frame = frame[frame.school.isin(sorted(frame.school.unique())[:schools])]
    frame = frame.assign(gender=(frame.gender == "M").astype(float), score=(frame.score == 0).astype(int))
    return tv.load_tasks(frame, task="school", target="score", kind="classification")


def _star() -> tv.TaskSet:
    frame = _frame("star")[["sch", "math", *STAR_NUMBERS, *STAR_LEVELS]].dropna()
    return tv.load_tasks(pd.get_dummies(frame, columns=list(STAR_LEVELS), dtype=float), task="sch", target="math")
