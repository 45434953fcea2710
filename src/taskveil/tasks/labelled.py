"""Tasks from arrays in which some rows have no target: such rows are left out and counted, as a table's are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from taskveil.tasks.arguments import as_rows, check_lengths
from taskveil.tasks.files import skipped_rows, without_rows
from taskveil.tasks.grouping import factorize, rows_by_task
from taskveil.tasks.prepare.unusable import missing_targets
from taskveil.tasks.task import TaskSet


def labelled_tasks(
    X: Any,
    y: Any,
    task: Any,
    *,
    bad_rows: str,
    person: Any = None,
    groups: Mapping[str, Any] | None = None,
    target_name: str = "y",
    **others: Any,
) -> TaskSet:
    """`TaskSet.from_arrays`; with bad_rows="skip" without the rows that have no target.

    A task that has no row left keeps its place: the list of tasks does not depend on targets.
    """
    others["target_name"] = target_name
    gone = missing_targets(np.asarray(y)) if bad_rows == "skip" else np.zeros(0, dtype=bool)
    if not gone.any() or gone.all():
        return TaskSet.from_arrays(X, y, task, person=person, groups=groups, **others)
    X, y, carried = as_rows(X), np.asarray(y), {k: v for k, v in (groups or {}).items() if v is not None}
    check_lengths(X, y, task=task, person=person, **carried)
    codes, names = factorize(task)
    made = TaskSet.from_arrays(
        X[~gone],
        y[~gone],
        codes[~gone],
        task_names=names,
        person=None if person is None else np.asarray(person)[~gone],
        groups={k: np.asarray(v)[~gone] for k, v in carried.items()},
        **others,
    )
    lost, place = int(gone.sum()), np.flatnonzero(~gone)[np.asarray(made.row_index)]
    left_out = skipped_rows(lost, len(y), {f"without a target ({target_name!r})": lost})
    made = replace(made, row_index=place, unlabelled=rows_by_task(codes[gone], names))
    return made.with_notes(left_out, *without_rows(names, codes[~gone]))
