"""Every leak that was found once, planted again: the laws must see it. A law that cannot fail says nothing."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.support.laws import Setup, record_law, task_law
from tests.support.raw_tables import NUMBERS, bounds, raw_table, replace_row, replace_task

import taskveil as tv
from taskveil.estimators import gain, inputs, search
from taskveil.methods import local
from taskveil.solvers import padding
from taskveil.tasks.prepare.step import PrepareRules
from taskveil.tasks.prepare.unusable import missing_targets
from taskveil.tasks.split import split_rows
from taskveil.tasks.task import TaskSet


def moved_by_a_task(setup: Setup, how: str = "more rows", sizes=(6, 9, 7, 8), name: str = "east", table=None) -> list[str]:
    table = raw_table(setup.kind, list(sizes), 3) if table is None else table
    return task_law(setup, table, replace_task(table, setup.kind, name, how, 3), name)


def moved_by_a_row(setup: Setup, table=None, **cells) -> list[str]:
    table = raw_table(setup.kind, [6, 5, 7, 4], 3) if table is None else table
    changed = replace_row(table, setup.kind, 2, "other rows", 3)
    for column, value in cells.items():
        changed.loc[2, column] = value
    return record_law(setup, table, changed, 2)


class Loading(Setup):
    """A table goes through a faulty preparation before it is loaded."""

    def load(self, table: pd.DataFrame):
        return super().load(self.options["fault"](table))

    def estimator(self):
        return Setup(self.method, self.kind, self.unit, self.loading, {}, self.search).estimator()


def own_target_scale(table: pd.DataFrame) -> pd.DataFrame:
    """Up to version 0.1.0: the target in units of its own task."""
    by = table.groupby("site")["target"]
    return table.assign(target=(table["target"] - by.transform("mean")) / (by.transform("std") + 1.0))


def own_median(table: pd.DataFrame) -> pd.DataFrame:
    """Up to version 0.1.0: missing cells filled with the median of the task."""
    return table.fillna(table.groupby("site")[NUMBERS].transform("median"))


def dropped(table: pd.DataFrame) -> pd.DataFrame:
    """Up to version 0.1.0: rows with missing cells left out."""
    return table.dropna(ignore_index=True)


def learned_levels(table: pd.DataFrame) -> pd.DataFrame:
    """Up to version 0.1.0: one column for each word that occurs."""
    words = sorted(set(table["ward"]))
    return table.drop(columns="ward").assign(**{f"ward={w}": (table["ward"] == w).astype(float) for w in words})


RECORD = {"unit": "record", "loading": {"bounds": bounds("regression")}}


def test_the_same_row_without_a_fault_passes():
    assert not moved_by_a_row(Setup("mean", **RECORD))


def test_own_units_of_the_target_are_seen():
    assert moved_by_a_row(Loading("mean", options={"fault": own_target_scale}, **RECORD))


@pytest.mark.parametrize("fault", [own_median, dropped])
def test_fills_and_drops_that_read_other_rows_are_seen(fault):
    table = raw_table("regression", [6, 5, 7, 4], 3)
    table.loc[0, "a"] = np.nan
    assert moved_by_a_row(Loading("mean", options={"fault": fault}, **RECORD), table, a=np.nan)


def test_folds_by_the_smallest_task_are_seen(monkeypatch):
    """Folds by the smallest task, with a threshold that small tables reach."""
    monkeypatch.setattr(gain, "ENOUGH", 12)
    assert not moved_by_a_task(Setup("low-rank"), "one row")
    real = gain.held_out

    def by_the_smallest(method, block, record, of):
        """As many folds for everybody as the smallest task needs."""
        alone_, shared, _ = real(method, block, record, of)
        used = min(gain.FOLDS, max(1, -(-gain.ENOUGH // max(int(block.sizes.min()), 1))))
        return alone_, shared, block.with_mask(block.folds(gain.FOLDS) < used)

    monkeypatch.setattr(gain, "held_out", by_the_smallest)
    assert moved_by_a_task(Setup("low-rank"), "one row")


def test_a_search_that_splits_all_rows_with_one_generator_is_seen(monkeypatch):
    """Which rows of a task are held out then depends on how many rows stand before it."""
    setup = Setup("low-rank", search={"method__rounds": [1, 2]})
    monkeypatch.setattr(search, "position_folds", lambda offsets, k, seed: _one_generator(offsets))
    assert moved_by_a_task(setup)


def _one_generator(offsets: np.ndarray) -> np.ndarray:
    n, tasks = int(offsets[-1]), np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    train, _ = split_rows(tv.load_tasks((np.zeros((n, 1)), np.arange(n) / 7, tasks)), 0.8, 0)
    return np.where(np.isin(np.arange(n), train.row_index), 0, search.HELD_FOLD)


def test_levels_learned_from_rows_are_seen():
    table = raw_table("regression", [6, 5, 7, 4], 3)
    table["ward"] = np.where(table["site"] == "east", "rare", "common")
    fine = Setup("mean", loading={"leave_out": ["ward"]})
    assert not moved_by_a_task(fine, "other rows", table=table)
    changed = replace_task(table, "regression", "east", "other rows", 3).assign(ward="common")
    assert task_law(Loading("mean", options={"fault": learned_levels}), table, changed, "east")


def test_stopping_when_the_last_task_has_converged_is_seen(monkeypatch):
    """Up to version 0.1.0: one loop for all tasks, ended by the slowest."""
    setup = Setup("local", "classification")
    assert not moved_by_a_task(setup, "one class")

    def ended_by_the_slowest(block, W, loss, fit_intercept=True):
        scores, b = block.scores(W), np.zeros(W.shape[:2])
        n = block.counts[:, None]
        target = np.clip((block.means_by_task(block.y) + 1.0) / 2.0, 0.5 / (n + 1.0), 1.0 - 0.5 / (n + 1.0))
        gap = np.ones(b.shape)
        while np.abs(gap).max() >= 1e-12:
            p = 0.5 * (1.0 + np.tanh((scores + b[block.task_of_row]) / 2.0))
            gap = block.means_by_task(p) - target
            b -= np.clip(gap / np.maximum(block.means_by_task(p * (1.0 - p)), 1e-6), -2.0, 2.0)
        return b

    monkeypatch.setattr(local, "best_intercepts", ended_by_the_slowest)
    assert moved_by_a_task(setup, "one class")


def test_padding_to_the_widest_is_seen(monkeypatch):
    """Up to version 0.1.0: the shape a task is solved in, by the largest task of its block."""
    setup, sizes = Setup("dp-mtrl"), (5, 5, 5, 5)
    assert not moved_by_a_task(setup, "more rows", sizes)
    monkeypatch.setattr(padding, "padded_width", lambda sizes: np.full_like(sizes, sizes.max()))
    assert moved_by_a_task(setup, "more rows", sizes)


@pytest.mark.parametrize(("kind", "column", "value"), [("regression", "a", 1e300), ("regression", "target", np.inf)])
def test_an_unusable_value_that_raises_for_everybody_is_seen(kind, column, value, monkeypatch):
    setup, table = Setup("mean", kind, arrays=True), raw_table(kind, [6, 9, 7, 8], 3)
    changed = table.copy()
    changed.loc[2, column] = value
    assert not task_law(setup, table, changed, "east")
    monkeypatch.setattr(PrepareRules, "unusable", "error")
    assert task_law(setup, table, changed, "east")


@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_a_task_that_vanishes_with_its_targets_is_seen(kind, monkeypatch):
    """Rows without a target are left out; which tasks there are must not depend on that."""
    setup, table = Setup("mean", kind, arrays=True), raw_table(kind, [6, 9, 7, 8], 3)
    changed = table.copy()
    changed.loc[changed["site"] == "east", "target"] = np.nan if kind == "regression" else None
    assert not task_law(setup, table, changed, "east")

    def rows_first(X, y, task, *, bad_rows, **others):
        there = ~missing_targets(np.asarray(y))
        return TaskSet.from_arrays(np.asarray(X)[there], np.asarray(y)[there], np.asarray(task)[there], **others)

    monkeypatch.setattr(inputs, "labelled_tasks", rows_first)
    assert task_law(setup, table, changed, "east")
