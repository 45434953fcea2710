"""A draft of a declaration: which ranges, levels and labels somebody should declare, as blanks to fill (TOML).

Names and types of columns are public, so a draft shows no value. With `look` the blanks are filled from the rows, and every such
entry is listed under `looked_at`: the certificate of a run with that file lists them too, because epsilon does not cover what a
look shows.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from taskveil.errors import DataError
from taskveil.tasks.grouping import task_label
from taskveil.tasks.prepare.encode import MANY_VALUES, holds_numbers
from taskveil.tasks.prepare.labels import filled_targets, target_values
from taskveil.tasks.public_bounds import BLANK
from taskveil.tasks.table import Layout, check_columns, feature_columns

if TYPE_CHECKING:
    import pandas as pd


HEAD = """\
# A declaration: what everybody may know before a row is read. Fill each {blank} from what a column means
# (a percentage is 0 to 100, an age 0 to 120), not from its values. A line you remove is not declared: ranges
# then stay with each task, text is hashed into 16 public buckets. Values outside a range are clipped to it;
# a value outside the levels counts as none of them, or as "(other)" if you list that.
"""
LOOKED = """\
# Filled by looking at values. Whoever sees this file sees what was looked at: epsilon does not cover it, and
# certificates say so. Replace an entry by one you know without looking, and remove its name here.
"""


@dataclass(frozen=True)
class _Entry:
    """One line: `name = values  # comment`; `looked` where values were read off the rows."""

    section: str
    name: str
    values: Sequence[Any]
    comment: str
    looked: bool = False

    @property
    def path(self) -> str:
        return f"{self.section}.{self.name}" if self.section else self.name

    def line(self) -> str:
        key = _toml(self.name) if self.section else self.name
        return f"{key} = [{', '.join(map(_toml, self.values))}]  # {self.comment}"


def draft(frame: pd.DataFrame, layout: Layout, look: bool = False) -> str:
    """The text of a bounds file for this table."""
    have = list(frame.columns)
    check_columns(have, layout)
    task, targets = layout.task_columns(have), layout.target_columns(have)
    columns = feature_columns(frame, layout.features, {*task, *targets, *layout.carried, *layout.leave_out})
    columns += [layout.exposure] if layout.exposure and layout.exposure not in columns else []
    entries = [_target(frame, targets, layout.kind, look), *(_feature(frame[c], str(c), look) for c in columns)]
    return _text(entries)


def _target(frame: pd.DataFrame, targets: Sequence[str], kind: str | None, look: bool) -> _Entry:
    column, name = frame[targets[0]], targets[0]
    labels = kind == "classification" if kind else not holds_numbers(column) or str(column.dtype) in ("bool", "boolean")
    if labels:
        if not look:
            return _Entry("", "classes", [BLANK], f"all labels that can occur in {name!r}")
        columns = [target_values(frame[t][filled_targets(frame[t])], t, "classification") for t in targets]
        return _Entry("", "classes", sorted({v.item() for y in columns for v in y}), f"labels of {name!r}", True)
    if kind == "survival":
        return _Entry("", "target", [0, _ends([column])[1] if look else BLANK], f"zero and the horizon of {name!r}", look)
    ends = _ends([frame[t] for t in targets]) if look else [BLANK, BLANK]
    return _Entry("", "target", ends, f"lowest and highest value of {name!r}" + _or_labels(kind), look)


def _or_labels(kind: str | None) -> str:
    return "" if kind else "; for labels write classes = [...] instead"


def _feature(column: pd.Series, name: str, look: bool) -> _Entry:
    if str(column.dtype) in ("bool", "boolean"):
        return _Entry("features", name, [0, 1], "true or false")
    if holds_numbers(column):
        return _Entry("features", name, _ends([column]) if look else [BLANK, BLANK], "lowest and highest value", look)
    if not look:
        return _Entry("levels", name, [BLANK], "all texts that can occur; remove the line to have them hashed")
    levels = sorted({task_label(v) for v in column.dropna()})
    if len(levels) > MANY_VALUES:
        return _Entry("levels", name, [BLANK], f"more than {MANY_VALUES} different texts: remove the line to have them hashed")
    return _Entry("levels", name, levels, "texts", True)


def _ends(columns: Sequence[pd.Series]) -> list[float]:
    low, high = min(float(c.min()) for c in columns), max(float(c.max()) for c in columns)
    if not low <= high:
        raise DataError(f"column {columns[0].name!r} is empty; leave it out (--leave-out).")
    return [low, high] if low < high else [low - 1.0, high + 1.0]


def _text(entries: Sequence[_Entry]) -> str:
    looked = [e.path for e in entries if e.looked]
    parts = [HEAD.format(blank=f'"{BLANK}"')]
    if looked:
        parts.append(LOOKED + f"looked_at = [{', '.join(map(_toml, looked))}]\n")
    for section in ("", "features", "levels"):
        lines = [e.line() for e in entries if e.section == section]
        if lines:
            parts.append((f"[{section}]\n" if section else "") + "\n".join(lines) + "\n")
    return "\n".join(parts)


def _toml(value: Any) -> str:
    """A text, number or boolean as TOML writes it: JSON's form, which TOML shares."""
    return json.dumps(value, ensure_ascii=False)
