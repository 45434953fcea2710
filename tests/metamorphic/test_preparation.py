"""From the raw table on: fills, levels, persons and text of one task reach no other (unit = task)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.support.isolation import differences
from tests.support.laws import Setup, task_law
from tests.support.raw_tables import TASKS, bounds, raw_table, replace_task

SIZES, SEED, REPLACED = [6, 5, 7, 4], 2, "south"
LEVELS = {"ward": ["red", "blue"]}


def tables(kind: str, change) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A table with a text column, and the same with other rows for one task, which `change` then edits."""
    table = raw_table(kind, SIZES, SEED)
    table["ward"] = np.resize(["red", "blue"], len(table))
    changed = replace_task(table, kind, REPLACED, "other rows", SEED)
    first = int(np.flatnonzero(changed["site"] == REPLACED)[0])
    return table, change(changed, first)


def with_cell(column: str, value):
    def change(table: pd.DataFrame, row: int) -> pd.DataFrame:
        table = table.copy()
        table[column] = table[column].astype(object) if isinstance(value, str) else table[column]
        table.loc[row, column] = value
        return table

    return change


@pytest.mark.parametrize("missing", ["impute-own", "impute-bounds", "drop"])
@pytest.mark.parametrize("kind", ["regression", "classification"])
def test_a_missing_cell_is_filled_or_dropped_without_a_word_to_others(kind, missing):
    loading = {"missing": missing, "bounds": bounds(kind, levels=LEVELS)}
    table, changed = tables(kind, with_cell("a", np.nan))
    found = task_law(Setup("subspace", kind, loading=loading), table, changed, REPLACED)
    assert not found, found[:5]


def test_a_level_nobody_declared_makes_no_column_of_its_own():
    """One row with a word of its own: neither public columns nor other tasks' rows may show that it exists."""
    table, changed = tables("regression", with_cell("ward", "HIV"))
    found = task_law(Setup("mean"), table, changed, REPLACED)
    assert not found, found[:5]


@pytest.mark.parametrize("scaling", ["own", "none"])
def test_persons_in_several_tasks_move_nothing_either(scaling):
    table, changed = tables("regression", lambda t, _: t)
    for t in (table, changed):
        t["person"] = np.arange(len(t)) % 7
    setup = Setup("mean", loading={"person": "person", "leave_out": ["ward"]}, options={"scaling": scaling})
    found = task_law(setup, table, changed, REPLACED)
    assert not found, found[:5]


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e200])
def test_a_cell_nobody_can_compute_with_is_its_own_task_s_affair(value):
    """Neither an error nor another number for the others: the task is set aside, and only its owner reads why."""
    table, changed = tables("regression", with_cell("a", value))
    found = task_law(Setup("subspace", arrays=True), table, changed, REPLACED)
    assert not found, found[:5]


def test_a_label_nobody_declared_is_refused_before_anything_is_released():
    """A table that breaks its own declaration goes back to its operator, which lies outside the law; a late refusal would not."""
    setup = Setup("subspace", "classification", options={"bounds": {"classes": ["no", "yes"]}}, arrays=True)
    table, changed = tables("classification", with_cell("target", "maybe"))
    one = setup.trace(table)
    two = setup.trace(changed, one)
    if two.refusal is None:
        assert not differences(one, two, TASKS.index(REPLACED))
    assert two.refusal is None or not two.tape
