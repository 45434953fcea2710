"""What comes in: a set of tasks, each with its own rows. Immutable; shapes are checked once, here.

Rows of all tasks lie in one array, grouped by task, so that every later step is batched:

    X          (N, d)    rows, float64 or float32, C-contiguous
    y          (N,)      targets: float64 for regression, the labels themselves for classification
    offsets    (m + 1,)  task i owns rows offsets[i] to offsets[i + 1]; a task may be empty (a test part
               often is)
    row_index  (N,)      where each row stood in the caller's table

Labels stay what the caller gave (text, integers); `classes` lists them sorted, `codes()` numbers them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from taskveil.checks import check_table
from taskveil.errors import DataError
from taskveil.tasks.arguments import LOAD, as_column, as_rows, check_lengths, row_count
from taskveil.tasks.grouping import factorize, group_rows, in_order
from taskveil.tasks.prepare.facts import Fact
from taskveil.tasks.prepare.labels import KINDS, as_target, infer_kind, label_set, stand_ins
from taskveil.tasks.prepare.survival import survival_target, within_horizon
from taskveil.tasks.prepare.unusable import check_values, missing_targets, rows_to_keep, usable_exposure
from taskveil.tasks.public_bounds import PublicBounds

CLIPPED = "values outside their declared range are clipped to it"
EXPOSURE = "(exposure)"  # the carried column that holds what counts are per


@dataclass(frozen=True, eq=False)
class Task:
    """One task: a view of its rows, nothing is copied."""

    name: str
    X: np.ndarray
    y: np.ndarray
    row_index: np.ndarray

    @property
    def n_rows(self) -> int:
        """How many rows the task has."""
        return int(self.y.shape[0])


@dataclass(frozen=True, eq=False)
class TaskSet:
    """Many tasks over the same features. Build one with `TaskSet.from_arrays` or `taskveil.load_tasks`.

    Attributes
    ----------
    X : ndarray of shape (n_rows, n_features)
        Rows, grouped by task.
    y : ndarray of shape (n_rows,)
        Numbers or labels. For survival: times, negative if the event was not observed.
    offsets : ndarray of shape (n_tasks + 1,)
        Task i has the rows from offsets[i] up to, but not including, offsets[i + 1].
    task_names, feature_names : tuple of str
        Names of tasks and of features, in order.
    kind : {"regression", "classification", "survival"}
        What the target is.
    classes : ndarray of shape (n_classes,) or None
        The labels of a classification.
    bounds : PublicBounds or None
        Declared public ranges.

    Examples
    --------
    >>> import numpy as np
    >>> import taskveil as tv
    >>> tasks = tv.TaskSet.from_arrays(np.ones((3, 2)), np.array([1.5, 2.5, 0.5]), ["a", "b", "a"], kind="regression")
    >>> tasks.n_tasks, tasks.n_rows, tasks["a"].n_rows
    (2, 3, 2)
    """

    X: np.ndarray
    y: np.ndarray
    offsets: np.ndarray
    task_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    kind: str
    target_name: str = "y"
    classes: np.ndarray | None = None
    row_index: np.ndarray | None = None
    bounds: PublicBounds | None = None
    person: np.ndarray | None = None
    groups: Mapping[str, np.ndarray] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    facts: tuple[Fact, ...] = ()  # what was taken for granted or from values on the way in; the certificate lists it
    set_aside: tuple[str, ...] = ()  # tasks whose values could not be used: private to each of them
    unlabelled: Mapping[str, int] = field(default_factory=dict)  # rows of a task left out without a target: private to it too

    def __post_init__(self) -> None:
        _check_shapes(self)
        if self.row_index is None:
            object.__setattr__(self, "row_index", np.arange(self.n_rows, dtype=np.int64))
        for name in ("X", "y", "offsets", "row_index", "classes", "person"):
            object.__setattr__(self, name, _frozen(getattr(self, name)))
        object.__setattr__(self, "groups", {k: _frozen(v) for k, v in self.groups.items()})

    @classmethod
    def from_arrays(
        cls,
        X: Any,
        y: Any,
        task: Any,
        *,
        task_names: Sequence[str] | None = None,
        feature_names: Sequence[str] | None = None,
        kind: str | None = None,
        classes: Any = None,
        target_name: str = "y",
        bounds: PublicBounds | None = None,
        person: Any = None,
        groups: Mapping[str, Any] | None = None,
        row_index: np.ndarray | None = None,
        notes: Sequence[str] = (),
        facts: Sequence[Fact] = (),
        unusable: str = "error",
    ) -> TaskSet:
        """Group rows (X, y) by their task identifiers; X is not copied when it is float and grouped already.

        With `task_names`, `task` holds positions 0..m-1 in that list; otherwise it holds any identifiers. A task with unusable
        values is an error. With unusable="set-aside" it keeps its place, but without rows. Values outside declared `bounds` are
        clipped first.
        """
        check_table({"kind": kind, "unusable": unusable}, LOAD)
        bounds = PublicBounds.coerce(bounds)
        all_facts = list(facts) if kind else [*facts, Fact("kind", target_name)]
        X, kind, silent = as_rows(X), kind or infer_kind(np.asarray(y)), unusable != "error"
        classes = bounds.classes if classes is None and bounds is not None else classes
        given, labels = survival_target(y, silent) if kind == "survival" else y, silent and kind == "classification"
        y, lost = stand_ins(given, classes) if labels else (as_target(given, kind), np.zeros(len(y), dtype=bool))
        check_lengths(X, y, task=task, person=person, **(groups or {}))
        carried, lost = usable_exposure(groups or {}, EXPOSURE, lost, silent)
        feature_names, (codes, names) = _feature_names(feature_names, X.shape[1]), _codes(task, task_names)
        if bounds is not None:
            X, y = bounds.clip_features(X, feature_names), _declared_target(y, kind, bounds)
        usable = rows_to_keep(X, y, codes, len(names), lost, others=unusable == "set-aside-all") if silent else None
        aside = () if usable is None else tuple(names[i] for i in np.unique(codes[~usable]))
        if usable is None:
            y = as_target(given, kind) if lost.any() else y  # nobody is left to be set aside from
            usable_exposure(groups or {}, EXPOSURE, lost, silent=False)
            check_values(X, y, feature_names, kind)
        order, offsets = group_rows(codes, len(names))
        all_facts += [Fact("labels", target_name)] if kind == "classification" and classes is None else []
        y, classes = label_set(y, classes) if kind == "classification" else (y, None)

        def take(values: Any) -> Any:
            return values if order is None or values is None else np.asarray(values)[order]

        made = cls(
            X=X if order is None else in_order(X, order),
            y=take(y),
            offsets=offsets,
            task_names=names,
            feature_names=feature_names,
            kind=kind,
            target_name=target_name,
            classes=classes,
            row_index=order if row_index is None else take(row_index),
            bounds=bounds,
            person=take(person_codes(person, silent)),
            groups={k: take(np.asarray(v)) for k, v in carried.items()},
            notes=tuple(notes),
            facts=tuple(dict.fromkeys(all_facts)),
            set_aside=aside,
        )
        return made if usable is None else made.select(take(usable))

    @property
    def n_tasks(self) -> int:
        """Number of tasks."""
        return len(self.task_names)

    @property
    def n_rows(self) -> int:
        """Number of rows of all tasks together."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """Number of features."""
        return int(self.X.shape[1])

    @property
    def exposure(self) -> np.ndarray | None:
        """Exposure of every row, (N,), positive. `None` means one for every row."""
        return self.groups.get(EXPOSURE)

    @property
    def n_classes(self) -> int:
        """Number of labels; 0 for regression."""
        return 0 if self.classes is None else int(self.classes.size)

    @cached_property
    def sizes(self) -> np.ndarray:
        """Rows per task, (m,). A private statistic: never print or send it in a private run."""
        return _frozen(np.diff(self.offsets))

    def __len__(self) -> int:
        return self.n_tasks

    def __iter__(self) -> Iterator[Task]:
        return (self[i] for i in range(self.n_tasks))

    def __getitem__(self, task: int | str) -> Task:
        i = self.index_of(task) if isinstance(task, str) else range(self.n_tasks)[task]
        rows = self.rows(i)
        return Task(self.task_names[i], self.X[rows], self.y[rows], self.row_index[rows])  # type: ignore[index]

    def index_of(self, name: str) -> int:
        """Position of a task by name."""
        try:
            return self.task_names.index(name)
        except ValueError:
            raise DataError(f"unknown task {name!r}; this set has {self.n_tasks} other tasks.") from None

    def rows(self, i: int) -> slice:
        """The rows of task i."""
        return slice(int(self.offsets[i]), int(self.offsets[i + 1]))

    def task_of_row(self) -> np.ndarray:
        """Task position of every row, (N,)."""
        return np.repeat(np.arange(self.n_tasks), self.sizes)

    def codes(self) -> np.ndarray:
        """Class position of every row, (N,), for classification."""
        if self.classes is None:
            raise DataError("a regression target has no classes; load with kind='classification' to treat it as labels.")
        return np.searchsorted(self.classes, self.y)

    def select(self, mask: np.ndarray) -> TaskSet:
        """The rows for which `mask` (N,) is true. Tasks keep their place, even if they lose all rows."""
        mask = np.asarray(mask)
        if mask.dtype != bool or mask.shape != (self.n_rows,):
            raise DataError(f"a row mask must be {self.n_rows} booleans, got {mask.dtype} of shape {mask.shape}.")
        kept = np.zeros(self.n_tasks + 1, dtype=np.int64)
        np.cumsum(np.bincount(self.task_of_row()[mask], minlength=self.n_tasks), out=kept[1:])
        return self._of_rows(mask, offsets=kept)

    def _of_rows(self, rows: np.ndarray, **others: Any) -> TaskSet:
        """The set of these rows, with what else changes by that."""
        own: dict[str, Any] = {"X": self.X, "y": self.y, "row_index": self.row_index, "person": self.person}
        taken: dict[str, Any] = {name: None if values is None else values[rows] for name, values in own.items()}
        return replace(self, **taken, groups={k: v[rows] for k, v in self.groups.items()}, **others)

    def without_tasks_of(self, bad: np.ndarray) -> TaskSet:
        """Tasks that have one of the `bad` rows (N,) set aside: they keep their place and lose all rows."""
        wrong = np.bincount(self.task_of_row()[bad], minlength=self.n_tasks) > 0
        aside = tuple(name for name, out in zip(self.task_names, wrong, strict=True) if out)
        return replace(self.select(~wrong[self.task_of_row()]), set_aside=(*self.set_aside, *aside)) if aside else self

    def within(self, bounds: PublicBounds) -> TaskSet:
        """These tasks under other declared bounds: values outside are clipped, labels outside are refused."""
        labels = self.classes is not None and bounds.classes is not None
        y, classes = label_set(self.y, bounds.classes) if labels else (self.y, self.classes)
        return replace(
            self,
            X=bounds.clip_features(self.X, self.feature_names),
            y=_declared_target(y, self.kind, bounds),
            classes=classes,
            bounds=bounds,
            facts=tuple(f for f in self.facts if not (labels and f.what == "labels")),
        ).with_notes(CLIPPED)

    def take_tasks(self, tasks: Sequence[int]) -> TaskSet:
        """Only these tasks, in this order."""
        order = np.concatenate([np.arange(self.offsets[i], self.offsets[i + 1]) for i in tasks] or [np.arange(0)])
        offsets = np.concatenate([[0], np.cumsum(self.sizes[list(tasks)])]).astype(np.int64)
        return self._of_rows(order, offsets=offsets, task_names=tuple(self.task_names[i] for i in tasks))

    def with_notes(self, *notes: str) -> TaskSet:
        """The same set with further notes (each said once)."""
        return replace(self, notes=tuple(dict.fromkeys((*self.notes, *notes))))

    def with_facts(self, *facts: Fact) -> TaskSet:
        """The same set with further facts for the certificate."""
        return replace(self, facts=tuple(dict.fromkeys((*self.facts, *facts))))

    def __repr__(self) -> str:
        return (
            f"TaskSet({self.n_tasks} tasks, {self.n_features} features, {self.kind}, target {self.target_name!r}, "
            f"{'declared bounds' if self.bounds is not None else 'no declared bounds'})"
        )


def exposed(tasks: TaskSet, exposure: np.ndarray, unusable: str = "error") -> TaskSet:
    """The same tasks with what every count is per; a task with an exposure that cannot be used is an error, or set aside."""
    groups, lost = usable_exposure({EXPOSURE: exposure}, EXPOSURE, np.zeros(tasks.n_rows, dtype=bool), unusable == "set-aside")
    return replace(tasks, groups={**tasks.groups, **groups}).without_tasks_of(lost)


def exposed_bounds(bounds: PublicBounds | None, column: Any) -> PublicBounds | None:
    """Declared bounds in which the exposure stands under its own name, where the range of its column was declared."""
    if bounds is None or not isinstance(column, str) or column not in bounds.features:
        return bounds
    return replace(bounds, features={**bounds.features, EXPOSURE: bounds.features[column]})


def _declared_target(y: np.ndarray, kind: str, bounds: PublicBounds) -> np.ndarray:
    """Targets inside their declared range; labels are checked elsewhere."""
    if kind == "survival":
        return within_horizon(y, bounds)
    return bounds.clip_target(y) if kind == "regression" else y


def _frozen(array: Any) -> Any:
    if array is None:
        return None
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


PARTS: dict[Any, tuple[str, ...]] = {  # what the parts of a TaskSet are
    np.ndarray: ("X", "y", "offsets"),
    np.ndarray | None: ("row_index", "classes", "person"),
    tuple | list: ("task_names", "feature_names", "notes", "facts", "set_aside"),
    str: ("kind", "target_name"),
    Mapping: ("groups", "unlabelled"),
    PublicBounds | None: ("bounds",),
}


def _check_shapes(s: TaskSet) -> None:
    for kind, name in ((kind, name) for kind, names in PARTS.items() for name in names):
        if not isinstance(getattr(s, name), kind):
            what, came = getattr(kind, "__name__", str(kind)), type(getattr(s, name)).__name__
            raise DataError(f"{name} of a TaskSet must be {what}; got {came}. Use TaskSet.from_arrays.")
    if s.X.ndim != 2:
        raise DataError(f"X must be a table of rows x features, got shape {s.X.shape}.")
    n, d = s.X.shape
    ok = (
        s.kind in KINDS
        and s.y.shape == (n,)
        and s.offsets.shape == (len(s.task_names) + 1,)
        and s.offsets[0] == 0
        and s.offsets[-1] == n
        and bool((np.diff(s.offsets) >= 0).all())
        and len(s.feature_names) == d
        and s.X.flags.c_contiguous
    )
    if not ok:
        raise DataError(
            f"rows, targets, offsets and names of a TaskSet do not fit together: X {s.X.shape}, y {s.y.shape}, "
            f"{len(s.task_names)} task names, {len(s.feature_names)} feature names. Use TaskSet.from_arrays."
        )
    for what, names in (("task", s.task_names), ("feature", s.feature_names)):
        if len(set(names)) != len(names):
            twice = next(n for i, n in enumerate(names) if n in names[:i])
            raise DataError(f"duplicate {what} name {twice!r}; names must be unique. Rename one of them.")


def _codes(task: Any, names: Sequence[str] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    if names is None:
        return factorize(task)
    codes = np.asarray(task)
    if codes.dtype.kind not in "iu" or codes.ndim != 1:
        raise DataError("with task_names, task must hold whole numbers (positions in that list), one per row.")
    if codes.size and (codes.min() < 0 or codes.max() >= len(names)):
        raise DataError(f"task positions must lie between 0 and {len(names) - 1}, the number of task_names less one.")
    return codes.astype(np.int64, copy=False), tuple(str(n) for n in names)


def _feature_names(names: Sequence[str] | None, d: int) -> tuple[str, ...]:
    if names is None:
        return tuple(f"x{j}" for j in range(d))
    if row_count(names) != d:
        raise DataError(f"{row_count(names)} feature names for {d} columns; give one name per column.")
    return tuple(str(n) for n in names)


def person_codes(person: Any, silent: bool) -> np.ndarray | None:
    """The persons of rows by number (N,). Where `silent`, a row that names none is another's: a refusal would tell of it."""
    if person is None:
        return None
    named = as_column(person, "person")
    gone = missing_targets(named) if silent else np.zeros(len(named), dtype=bool)
    codes = len(named) + np.arange(len(named))
    if not gone.all():
        codes[~gone] = factorize(named[~gone], what="person")[0]
    return codes
