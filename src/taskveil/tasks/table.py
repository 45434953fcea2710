"""From a table (DataFrame) to a TaskSet: which column is what, and the rows of each task.

Wide tables have several target columns over the same rows (a survey, the shape of LSOA II): one task per
target, rows whose target is missing are dropped from that task.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import DataError, OptionError
from taskveil.tasks.arguments import some, with_index, with_text_names
from taskveil.tasks.files import skipped_rows, without_rows
from taskveil.tasks.grouping import factorize, folded, group_rows, rows_by_task
from taskveil.tasks.prepare.encode import Encoded, encode_features, is_number
from taskveil.tasks.prepare.facts import Fact
from taskveil.tasks.prepare.labels import filled_targets, target_values
from taskveil.tasks.prepare.survival import signed_times
from taskveil.tasks.prepare.unusable import dropped_rows, fill_facts, fill_missing, gaps
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.task import CLIPPED, EXPOSURE, TaskSet, exposed_bounds

if TYPE_CHECKING:
    import pandas as pd


TASK_NAMES = ("task", "task_id")
TARGET_NAMES = ("y", "target")
SHOWN = 12  # columns that an error lists
ROLES, LISTS = ("task", "target", "person", "event", "exposure"), ("targets", "features", "text", "leave_out", "groups")


@dataclass(frozen=True)
class Layout:
    """What the columns of a table mean, and how to treat what is missing."""

    task: str | None = None
    target: str | None = None
    targets: tuple[str, ...] | None = None
    person: str | None = None
    bounds: PublicBounds | None = None
    kind: str | None = None
    event: str | None = None  # survival: whether the event was seen; the target is its time
    exposure: str | None = None  # what counts are per
    features: tuple[str, ...] | None = None
    text: tuple[str, ...] = ()  # features that are hashed whatever their cells look like
    leave_out: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    missing: str = "error"
    bad_rows: str = "error"
    unusable: str = "error"
    notes: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()  # tasks of rows that could not be read: they keep their place

    def __post_init__(self) -> None:
        if self.features is not None and self.leave_out:
            raise OptionError("features= lists the columns to use, leave_out= those not to use; give one of them.")
        if self.targets is not None and (self.event or self.exposure):
            raise OptionError("event and exposure go with one target column (target=, --target), not with several")
        if self.targets is not None and len(set(self.targets)) != max(len(self.targets), 1):
            raise OptionError("targets must name at least one column, each once.")

    def facts(self) -> tuple[Fact, ...]:
        """What reading by this layout takes for granted, whatever the rows hold."""
        skipped = (Fact("skipped"),) if self.bad_rows == "skip" else ()
        wide = (Fact("wide" if self.person else "shared-rows"),) if self.targets is not None else ()
        return (*fill_facts(self.missing), *skipped, *wide)

    def with_text_names(self) -> Layout:
        """The same layout for a table whose columns are called by texts."""
        one: dict[str, Any] = {role: str(name) for role in ROLES if (name := getattr(self, role)) is not None}
        several: dict[str, Any] = {role: tuple(map(str, names)) for role in LISTS if (names := getattr(self, role)) is not None}
        return replace(self, **one, **several)

    @property
    def labelled(self) -> bool:
        """Whether the target is declared to be labels: its cells are then read as written, whatever their column looks like."""
        if self.bounds is None or self.bounds.classes is None:
            return False
        return self.kind == "classification" or (self.kind is None and self.bounds.target is None)

    @property
    def carried(self) -> tuple[str, ...]:
        """Columns that travel with the rows but are no features."""
        return tuple(c for c in (self.person, self.event, self.exposure, *self.groups) if c)

    def target_columns(self, have: Sequence[str]) -> tuple[str, ...]:
        """What is predicted."""
        return self.targets or (self.target or usual_column(have, TARGET_NAMES, "target"),)

    def task_columns(self, have: Sequence[str]) -> tuple[str, ...]:
        """The column that names the task of a row; a wide table need not have one."""
        if self.targets is not None:
            return () if self.task is None else (self.task,)
        return (self.task or usual_column(have, TASK_NAMES, "task"),)

    def filled_columns(self, have: Sequence[str]) -> tuple[str, ...]:
        """Columns in which an empty cell makes a row unusable."""
        lone_target = self.targets is None and self.missing != "drop"
        target = (*self.target_columns(have), *([self.event] if self.event else ())) if lone_target else ()
        return (*self.task_columns(have), *target)


@dataclass(frozen=True, eq=False)
class _Rows:
    """Rows of a table with the task of each, its target, and where it stood in the caller's table."""

    frame: pd.DataFrame
    codes: np.ndarray
    names: tuple[str, ...]
    y: np.ndarray
    position: np.ndarray
    notes: tuple[str, ...] = ()
    unlabelled: Mapping[str, int] = field(default_factory=dict)


def tasks_from_frame(frame: pd.DataFrame, layout: Layout) -> TaskSet:
    """Group a table by its task column; or, with `targets`, make one task of every target column."""
    if len(frame) == 0:
        raise DataError("the table has no rows; at least one row is needed.")
    frame = with_index(frame, layout.task, layout.target, *layout.carried)
    frame, layout = with_text_names(frame), layout.with_text_names()
    check_columns(list(frame.columns), layout)
    layout = replace(layout, kind="classification") if layout.labelled else layout
    if layout.targets is not None:
        rows, taken, target = _wide_rows(frame, layout)
    else:
        rows, taken, target = _long_rows(frame, layout)
    columns = feature_columns(frame, layout.features, {*taken, *layout.carried, *layout.leave_out})
    return _build(rows, columns, target, layout)


def check_columns(have: Sequence[str], layout: Layout) -> None:
    """Refuse names that stand there twice, and a layout that names columns which are not there; needs the column names only."""
    columns = [str(c) for c in have]
    twice = next((c for i, c in enumerate(columns) if c in columns[:i]), None)
    if twice is not None:
        raise DataError(f"the table has two columns called {twice!r}; column names must be unique. Rename one of them.")
    task, target = layout.task_columns(have), layout.target_columns(have)
    meant: dict[Any, str] = {}
    named = [("task", task), ("target", target), *((role, (getattr(layout, role),)) for role in ("event", "exposure", "person"))]
    for role, column in ((role, column) for role, columns in named for column in columns if column is not None):
        if meant.setdefault(column, role) != role:
            raise OptionError(f"the column {column!r} cannot be both the {meant[column]} and the {role}.")
    need_columns(have, [*task, *target, *layout.carried, *(layout.features or ()), *layout.leave_out, *layout.text])
    clashes = [name for name in layout.features or () if name in (*task, *target, layout.event)]
    if clashes:
        raise OptionError(f"the column {clashes[0]!r} cannot be a feature and the task, the target or the event too.")


def need_columns(columns: Sequence[Any], wanted: Sequence[str]) -> None:
    """Refuse columns that are not there, all at once, suggesting names that look alike."""
    have = [str(c) for c in columns]
    lost = [name for name in dict.fromkeys(wanted) if name not in columns]
    if lost:
        alike = {name: close for name in lost if (close := _alike(str(name), have)) is not None}
        asked = " and ".join(f"{close!r}" + (f" for {name!r}" if len(lost) > 1 else "") for name, close in alike.items())
        hint = f" Did you mean {asked}?" if alike else ""
        listed = f" Columns: {some(have, SHOWN)}." if len(alike) < len(lost) else ""
        raise DataError(f"the table has no column {' and no column '.join(map(repr, lost))}.{hint}{listed}")


def _alike(name: str, have: Sequence[str]) -> str | None:
    """A column whose name differs in capitals or blanks alone, by scikit-learn's prefix ('remainder__site'), or by a letter."""
    same = [c for c in have if folded(c) == folded(name) or c.endswith(f"__{name}")]
    return next(iter(same or difflib.get_close_matches(name, have, n=1)), None)


def _long_rows(frame: pd.DataFrame, layout: Layout) -> tuple[_Rows, set[str], str]:
    """Every row belongs to the task its task column names."""
    have = list(frame.columns)
    (task,), (target,) = layout.task_columns(have), layout.target_columns(have)
    named, there = _usable_rows(frame, task, target, layout)
    lost = int((~there).sum())
    reasons = {f"without a task ({task!r})": int((~named).sum()), f"without a target ({target!r})": int((named & ~there).sum())}
    notes = (skipped_rows(lost, len(frame), reasons),) if lost else ()
    ids = plain(frame[task] if named.all() else frame[task][named])
    codes, names = factorize(
        np.concatenate([ids, np.asarray(layout.unread, dtype=object)]) if layout.unread else ids, what="task"
    )
    codes = codes[: len(ids)]
    frame = frame if there.all() else frame[there]
    y = target_values(frame[target], target, layout.kind)
    if layout.event is not None:
        y = signed_times(plain(frame[layout.event]), y, layout.unusable == "set-aside")
    kept = there[named]
    rows = _Rows(frame, codes[kept], names, y, np.flatnonzero(there), notes, rows_by_task(codes[~kept], names))
    return rows, {task, target}, target


def _usable_rows(frame: pd.DataFrame, task: str, target: str, layout: Layout) -> tuple[np.ndarray, np.ndarray]:
    """Which rows have a task, and which a target too; others are refused, or left out where that was asked for.

    A task all of whose rows are left out keeps its place: the list of tasks does not depend on targets.
    """
    skip, named = layout.bad_rows == "skip", frame[task].notna().to_numpy()
    keep, may_drop = layout.missing == "keep" and not skip, skip or layout.missing == "drop"
    needed = {c: np.ones(len(frame), dtype=bool) if keep else filled_targets(frame[c]) for c in (target, layout.event) if c}
    targeted = np.logical_and.reduce(list(needed.values()))
    for name, what, filled, may in (
        *((c, "target" if c == target else "event", filled, may_drop) for c, filled in needed.items()),
        (task, "task", named, skip),
    ):
        if not filled.any():
            raise DataError(f"the {what} column {name!r} is empty.")
        if not (filled.all() or may):
            raise DataError(
                f"the {what} column {name!r} has missing values; every row needs its {what}. Fill them, or leave such "
                "rows out with bad_rows='skip' (--bad-rows skip)."
            )
    if not (named & targeted).any():
        raise DataError(f"no row has both a task in {task!r} and a target in {target!r}.")
    return named, named & targeted


def _wide_rows(frame: pd.DataFrame, layout: Layout) -> tuple[_Rows, set[str], str]:
    """One task per target column, and per value of the task column where there is one."""
    targets = list(layout.targets or ())
    if not layout.labelled and len({is_number(frame[t]) for t in targets}) > 1:
        raise DataError("the target columns mix numbers and text; all targets of a wide table must be of one kind.")
    present = [np.flatnonzero(filled_targets(frame[t])) for t in targets]
    for t, rows in zip(targets, present, strict=True):
        if not rows.size:
            raise DataError(f"the target column {t!r} is empty; leave it out of targets.")
    if layout.task:
        inner, inner_names = factorize(plain(frame[layout.task]))
    else:
        inner, inner_names = np.zeros(len(frame), dtype=np.int64), ("",)
    at = np.concatenate(present)
    codes = np.concatenate([j * len(inner_names) + inner[rows] for j, rows in enumerate(present)])
    y = np.concatenate([target_values(frame[t].iloc[r], t, layout.kind) for t, r in zip(targets, present, strict=True)])
    names = [f"{i}/{t}" if i else t for t in targets for i in inner_names]
    title = "/".join(targets) if len(targets) <= 3 else f"{targets[0]}/.../{targets[-1]}"
    taken = {*targets, *([layout.task] if layout.task else [])}
    return _Rows(frame.iloc[at], codes, tuple(names), y, at), taken, title


def _build(rows: _Rows, columns: Sequence[str], target: str, layout: Layout) -> TaskSet:
    """Encode, fill, clip, and check once more in TaskSet; the big array is written once, already grouped."""
    order, offsets = group_rows(rows.codes, len(rows.names))
    encoded = _encoded(rows.frame, columns, layout, order)
    X, kept = fill_missing(encoded, offsets, layout.missing, silent=layout.unusable != "error")
    pick = _picker(order, kept)
    bounds, codes = exposed_bounds(encoded.bounds, layout.exposure), pick(rows.codes)
    made = TaskSet.from_arrays(
        X,
        pick(rows.y),
        codes,
        task_names=rows.names,
        feature_names=encoded.names,
        kind=layout.kind,
        classes=None if bounds is None else bounds.classes,
        target_name=target,
        bounds=bounds,
        person=None if layout.person is None else pick(plain(rows.frame[layout.person])),
        groups={**{g: pick(plain(rows.frame[g])) for g in layout.groups}, **_exposure(rows, layout, pick)},
        row_index=pick(rows.position),
        notes=(*layout.notes, *rows.notes, *_lost(rows, kept, codes), *((CLIPPED,) if bounds is not None else ())),
        facts=(*layout.facts(), *encoded.facts),
        unusable=layout.unusable,
    )
    return replace(made, unlabelled=rows.unlabelled)


def _encoded(frame: pd.DataFrame, columns: Sequence[str], layout: Layout, order: np.ndarray | None) -> Encoded:
    """The features as numbers. What is wrong with some columns is told together with the empty cells of others."""
    try:
        return encode_features(frame, columns, layout.bounds, order=order, text=layout.text)
    except DataError as fault:
        holes = [c for c in columns if is_number(frame[c]) and bool(frame[c].isna().any())]
        raise DataError(f"{fault} {gaps(holes)}" if holes and layout.missing == "error" else str(fault)) from None


def _exposure(rows: _Rows, layout: Layout, pick: Callable[[np.ndarray], np.ndarray]) -> dict[str, np.ndarray]:
    return {} if layout.exposure is None else {EXPOSURE: pick(plain(rows.frame[layout.exposure]))}


def _lost(rows: _Rows, kept: np.ndarray | None, codes: np.ndarray) -> Iterator[str]:
    """How many rows missing='drop' left out, and which tasks have no row left."""
    if kept is not None:
        yield dropped_rows(kept)
    yield from without_rows(rows.names, codes)


def _picker(order: np.ndarray | None, kept: np.ndarray | None) -> Callable[[np.ndarray], np.ndarray]:
    def pick(values: np.ndarray) -> np.ndarray:
        values = values if order is None else values[order]
        return values if kept is None else values[kept]

    return pick


def usual_column(have: Sequence[Any], usual: Sequence[str], what: str) -> str:
    """The column with a usual name for this, or an error that asks."""
    for name in usual:
        if name in have:
            return name
    raise OptionError(f"which column is the {what}? Give {what}=COLUMN (--{what} COLUMN). Columns: {some(have, SHOWN)}.")


def feature_columns(frame: pd.DataFrame, features: Sequence[str] | None, taken: set[Any]) -> list[str]:
    """The columns to learn from: those that were named, else all that are not task, target or otherwise taken."""
    if features is not None:
        if len(set(features)) != len(features):
            raise DataError("a feature is named twice; feature names must be unique.")
        return list(features)
    chosen = [c for c in frame.columns if c not in taken]
    if not chosen:
        raise DataError("no feature columns are left besides task and target; at least one is needed.")
    return chosen


def plain(column: pd.Series) -> np.ndarray:
    """A column as an array for `factorize`; text and columns with missing cells as objects."""
    if is_number(column) and not bool(column.isna().any()):
        return column.to_numpy()
    return column.to_numpy(dtype=object)
