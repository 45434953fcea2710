"""The two laws of preparation (docs/theory/preparation.md#isolation), as checks over two prepared raw tables."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np

from taskveil.tasks.load import load_tasks
from taskveil.tasks.prepare.step import Prepared, PrepareRules, prepare_tasks

UNITS = ("shift", "scale", "y_shift", "y_scale")


def prepare(source: Any, declared: Any = None, **options: Any) -> Prepared:
    """A raw table, all the way: `options` are fields of `PrepareRules` and options of `load_tasks`."""
    rules = PrepareRules(**{f.name: options.pop(f.name) for f in fields(PrepareRules) if f.name in options})
    return prepare_tasks(load_tasks(source, bounds=declared, unusable=rules.unusable, **options), rules)


def check_record_law(before: Prepared, after: Prepared) -> None:
    """One raw row was replaced: at most one encoded row differs, and nothing else."""
    _same_public(before, after)
    a, b = before.own.block, after.own.block
    np.testing.assert_array_equal(a.offsets, b.offsets)
    changed = (_bits(a.X) != _bits(b.X)).any(axis=1) | (_bits(a.y) != _bits(b.y)).any(axis=1)
    assert changed.sum() <= 1, f"{changed.sum()} encoded rows changed with one raw row"
    for name in UNITS:
        np.testing.assert_array_equal(getattr(before.own.scaling, name), getattr(after.own.scaling, name))


def check_task_law(before: Prepared, after: Prepared, replaced: str) -> None:
    """All rows of one task were replaced: everything of every other task is bitwise the same."""
    _same_public(before, after)
    for i, name in enumerate(before.public.task_names):
        if name == replaced:
            continue
        a, b = before.own.block, after.own.block
        rows = [slice(block.offsets[i], block.offsets[i + 1]) for block in (a, b)]
        np.testing.assert_array_equal(_bits(a.X[rows[0]]), _bits(b.X[rows[1]]))
        np.testing.assert_array_equal(_bits(a.y[rows[0]]), _bits(b.y[rows[1]]))
        for unit in UNITS:
            np.testing.assert_array_equal(getattr(before.own.scaling, unit)[i], getattr(after.own.scaling, unit)[i])
        assert before.own.warnings.get(name) == after.own.warnings.get(name)


def _same_public(before: Prepared, after: Prepared) -> None:
    for name in before.public.__dataclass_fields__:
        assert getattr(before.public, name) == getattr(after.public, name), f"the public {name} depends on rows"
    assert {f.name for f in fields(Prepared)} == {"public", "own"}, "preparation released something"


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values, dtype=np.float64).view(np.uint64)
