"""One person in several tasks.

The task-level guarantee protects all of one task's data. A person with rows in k tasks is protected k times
less, unless what they contribute is bounded: keep every person in at most `limit` tasks, chosen at random
without a look at any value. One person is one row in one task, or group privacy
(docs/theory/index.md#local-work).

This is a preparation for whoever holds all rows and protects persons. It makes the rows of one task depend on who is
in the others, so it must not stand before a run whose certificate protects a whole task; no command applies it.
"""

from __future__ import annotations

import numpy as np

from taskveil.errors import DataError, OptionError
from taskveil.tasks.prepare.facts import Fact
from taskveil.tasks.task import TaskSet


def limit_tasks_per_person(tasks: TaskSet, limit: int, seed: int) -> TaskSet:
    """Drop rows until every person is in at most `limit` tasks.

    Which tasks is a seeded coin per (person, task).
    """
    if limit < 1:
        raise OptionError(f"a person must be allowed at least 1 task, got {limit}.")
    person, task = _persons(tasks), tasks.task_of_row()
    pair, at = np.unique(person.astype(np.int64) * tasks.n_tasks + task, return_inverse=True)
    draw = np.random.default_rng(seed).random(pair.size)
    order = np.lexsort((draw, pair // tasks.n_tasks))
    owner = (pair // tasks.n_tasks)[order]
    first = np.concatenate([[True], owner[1:] != owner[:-1]])
    rank = np.arange(pair.size) - np.maximum.accumulate(np.where(first, np.arange(pair.size), 0))
    kept = np.zeros(pair.size, dtype=bool)
    kept[order[rank < limit]] = True
    return (
        tasks.select(kept[at])
        .with_notes(f"rows were dropped so that every person is in at most {limit} task(s)")
        .with_facts(Fact("person-limit"))
    )


def most_tasks_of_one_person(tasks: TaskSet) -> int:
    """The largest number of tasks one person is in. A private statistic: for the data's owner only."""
    pair = np.unique(_persons(tasks).astype(np.int64) * tasks.n_tasks + tasks.task_of_row())
    return int(np.bincount(pair // tasks.n_tasks).max(initial=0))


def _persons(tasks: TaskSet) -> np.ndarray:
    if tasks.person is None:
        raise DataError("these tasks have no person column; load them with person=COLUMN.")
    return tasks.person
