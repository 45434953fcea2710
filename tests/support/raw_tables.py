"""Raw tables of several tasks, and what one of them may be replaced by. Everything starts here, before any preparation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

TASKS = ("east", "north", "south", "west")  # in the order of their names, which is that of the fitted tasks
NUMBERS = ["a", "b", "c"]
TARGET_BOUNDS = {
    "regression": {"target": [-20.0, 20.0]}, "robust": {"target": [-20.0, 20.0]}, "classification": {"classes": ["no", "yes"]},
    "counts": {"target": [0.0, 30.0]}, "survival": {"target": [0.0, 30.0]},
}  # fmt: skip
SEEN = "seen"  # of survival: whether the event was
SIZES = st.lists(st.integers(1, 14), min_size=len(TASKS), max_size=len(TASKS))


def bounds(kind: str, **more: Any) -> dict[str, Any]:
    """Ranges of everything."""
    return {"features": {name: [-8.0, 8.0] for name in NUMBERS}, **TARGET_BOUNDS[kind], **more}


def raw_table(kind: str, sizes: list[int], seed: int) -> pd.DataFrame:
    """Rows of all tasks; every task of two rows or more has both labels."""
    rng = np.random.default_rng(seed)
    parts = [_rows(rng, kind, name, size) for name, size in zip(TASKS, sizes, strict=True)]
    return pd.concat(parts, ignore_index=True)


def _rows(rng: np.random.Generator, kind: str, name: str, size: int) -> pd.DataFrame:
    X = rng.standard_normal((size, len(NUMBERS))) + 1.0
    scores = X @ np.array([1.0, -2.0, 0.5]) + rng.standard_normal(size)
    labels = np.where(scores > np.median(scores), "yes", "no") if size > 1 else np.full(size, "yes")
    made = pd.DataFrame(X, columns=NUMBERS).assign(site=name)
    if kind == "counts":
        return made.assign(target=np.minimum(rng.poisson(np.exp(np.clip(scores, -2.0, 1.5))), 9).astype(float))
    if kind == "survival":
        return made.assign(target=np.minimum(rng.exponential(3.0 * np.exp(-scores / 4.0)), 9.0), seen=np.arange(size) % 3 > 0)
    return made.assign(target=labels if kind == "classification" else scores)


def _scaled(factor: float) -> Callable[[pd.DataFrame, str], pd.DataFrame]:
    def scale(rows: pd.DataFrame, kind: str) -> pd.DataFrame:
        columns = NUMBERS if kind == "classification" else [*NUMBERS, "target"]
        return rows.assign(**{name: rows[name] * factor for name in columns})

    return scale


def _huge_cell(rows: pd.DataFrame, kind: str) -> pd.DataFrame:
    rows = rows.copy()
    rows.loc[rows.index[0], "a"] = 1e150
    return rows


def _constant(rows: pd.DataFrame, kind: str) -> pd.DataFrame:
    return rows.assign(**{name: rows[name].iloc[0] for name in [*NUMBERS, "target"]})


REPLACEMENTS: dict[str, Callable[[pd.DataFrame, str], pd.DataFrame]] = {
    "other rows": lambda rows, kind: rows,
    "one row": lambda rows, kind: rows.iloc[:1],
    "more rows": lambda rows, kind: pd.concat([rows] * 30, ignore_index=True),
    "tiny": _scaled(1e-160),
    "huge": _scaled(1e149),
    "huge cell": _huge_cell,
    "constant": _constant,
    "one class": lambda rows, kind: rows.assign(target=rows["target"].iloc[0]),
}


def replace_task(table: pd.DataFrame, kind: str, name: str, how: str, seed: int) -> pd.DataFrame:
    """The table with other rows for one task, at the place where its rows stood."""
    old = np.flatnonzero(table["site"] == name)
    fresh = _rows(np.random.default_rng([seed, 1]), kind, name, len(old))
    fresh = REPLACEMENTS[how](fresh, kind)
    for column in table.columns.difference(fresh.columns):  # what a test added: the replaced task has it too
        fresh = fresh.assign(**{column: np.resize(table[column].to_numpy()[old], len(fresh))})
    parts = [table.iloc[: old[0]], fresh[table.columns], table.iloc[old[-1] + 1 :]]
    return pd.concat(parts, ignore_index=True)


def replace_row(table: pd.DataFrame, kind: str, position: int, how: str, seed: int) -> pd.DataFrame:
    """The table with one other row at the same position, in the same task."""
    changed = table.copy()
    fresh = REPLACEMENTS[how](_rows(np.random.default_rng([seed, 2]), kind, table["site"].iloc[position], 2), kind)
    for column in fresh.columns:
        changed.loc[position, column] = fresh[column].iloc[0]
    return changed
