"""Who is protected (unit), what may change (neighbours), and who is looking (observer).

A guarantee is always the whole sentence: unit, neighbours, observer, (epsilon, delta), accountant. An epsilon
without that sentence is printed nowhere.
"""

from __future__ import annotations

from enum import StrEnum


class Unit(StrEnum):
    """What the guarantee protects."""

    RECORD = "record"  # one row of one task
    TASK = "task"  # all rows of one task


class Neighbours(StrEnum):
    """Which two inputs must be hard to tell apart; all sizes are fixed and public.

    ADD_REMOVE means: the unit is replaced by a null one that contributes zero (dp-accounting's
    REPLACE_SPECIAL). REPLACE_ONE means: the unit is replaced by any other one.
    """

    ADD_REMOVE = "add-remove"
    REPLACE_ONE = "replace-one"


class Observer(StrEnum):
    """Who sees what is released."""

    OTHER_TASKS = "other-tasks"  # all other tasks, colluding; they see every billboard
    SERVER = "server"  # they and whoever runs the aggregation
    PUBLIC = "public"  # they and whoever sees the finished models, the protected task's own included
