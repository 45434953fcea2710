"""What is unusual about a set of tasks: for the owner of all rows, never sent."""

from __future__ import annotations

import numpy as np

from taskveil.tasks.block import TaskBlock
from taskveil.tasks.prepare.encode import hashed_in
from taskveil.tasks.prepare.unusable import SET_ASIDE
from taskveil.tasks.task import TaskSet


def unusual_tasks(tasks: TaskSet, block: TaskBlock) -> list[str]:
    """Constant columns, one-row and one-class tasks: normal, but worth a word to the owner of all rows."""
    notes = [*tasks.notes, *(f.note() for f in tasks.facts)]
    names = np.asarray(tasks.task_names, dtype=object)
    aside = np.asarray(tasks.set_aside, dtype=object)
    if aside.size:
        notes.append(f"{aside.size} task(s): {_some(aside)}: {SET_ASIDE}")
    if tasks.n_tasks == 1:
        notes.append("there is only one task, so it learns alone; say which row belongs to which task (task=, task_column=)")
    single = names[tasks.sizes == 1]
    if single.size:
        notes.append(f"{single.size} task(s) with a single row use the shared or a constant model: {_some(single)}")
    if tasks.kind == "classification":
        top = np.abs(block.sums_by_task(block.y)).max(axis=1) if block.n_outputs == 1 else None
        one_class = names[(top == tasks.sizes) & (tasks.sizes > 0)] if top is not None else names[:0]
        if one_class.size:
            notes.append(f"{one_class.size} task(s) with a single class use the shared or a constant model: {_some(one_class)}")
    buckets = hashed_in(tasks.feature_names)  # most of a column's buckets are empty: that is no news
    constant = _constant_columns(
        block, [j for j, name in enumerate(tasks.feature_names) if name.rpartition("#")[0] not in buckets]
    )
    if constant:
        notes.append(f"{constant} (task, column) pair(s) are constant; their coefficients come from the shared structure")
    return notes


def _constant_columns(block: TaskBlock, columns: list[int]) -> int:
    """How many pairs of a task and one of the `columns` have no spread; two passes, no copy of X."""
    several = block.sizes > 1
    starts = block.offsets[:-1][block.sizes > 0]
    if starts.size == 0:
        return 0
    same = np.maximum.reduceat(block.X, starts, axis=0) == np.minimum.reduceat(block.X, starts, axis=0)
    return int(same[several[block.sizes > 0]][:, columns].sum())


def _some(names: np.ndarray, count: int = 3) -> str:
    shown = ", ".join(str(n) for n in names[:count])
    return shown + (f" and {names.size - count} more" if names.size > count else "")
