"""From a table (DataFrame) to the arrays of a TaskSet: which columns, missing values, categories, targets.

What can be a statistic of the data (category levels, fill values) is declared in the public bounds, or local to one
task, or said in the notes.

    missing="error"          refuse, naming the columns (the default)
    missing="impute-bounds"  the middle of the declared range
    missing="impute-own"     the median of the task's own rows (never sent); a task with none: middle of the range, or 0
    missing="drop"           leave such rows out
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import DataError, OptionError
from taskveil.tasks.grouping import factorize, group_rows
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.task import TaskSet

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["MISSING", "MISSING_LEVEL", "Encoded", "encode_features", "need_columns", "tasks_from_frame"]

MISSING = ("error", "impute-bounds", "impute-own", "drop")
MISSING_LEVEL = "(missing)"
MAX_LEVELS = 100
TASK_NAMES = ("task", "task_id")
TARGET_NAMES = ("y", "target")


@dataclass(frozen=True)
class Encoded:
    """Features as numbers: X (N, d) in float64 or float32, NaN where a number is missing."""

    X: np.ndarray
    names: tuple[str, ...]
    bounds: PublicBounds | None
    notes: tuple[str, ...]


def tasks_from_frame(
    frame: pd.DataFrame,
    *,
    task: str | None = None,
    target: str | None = None,
    targets: Sequence[str] | None = None,
    person: str | None = None,
    bounds: PublicBounds | None = None,
    kind: str | None = None,
    features: Sequence[str] | None = None,
    groups: Sequence[str] = (),
    missing: str = "error",
    notes: Sequence[str] = (),
) -> TaskSet:
    """Group a table by its task column; or, with `targets`, make one task of every target column."""
    if missing not in MISSING:
        raise OptionError(f"missing must be one of {', '.join(MISSING)}; got {missing!r}.")
    _check_table(frame)
    if targets is not None:
        return _wide(frame, task, list(targets), person, bounds, kind, features, groups, missing, notes)
    task = task or _only(frame, TASK_NAMES, "task")
    target = target or _only(frame, TARGET_NAMES, "target")
    need_columns(frame, [task, target, *([person] if person else []), *groups])
    if task == target:
        raise OptionError(f"the column {task!r} cannot be both the task and the target.")
    keep = _rows_with_target(frame, target, missing)
    frame = frame if keep is None else frame[keep]
    chosen = _feature_columns(frame, features, {task, target, person, *groups})
    codes, names = factorize(_values(frame[task]), what="task")
    parts = _Parts(frame, codes, names, None if keep is None else np.flatnonzero(keep))
    return parts.build(chosen, frame[target], target, person, bounds, kind, groups, missing, notes)


@dataclass(frozen=True)
class _Parts:
    """A table with the task of every row, and where its rows stood in the caller's table."""

    frame: pd.DataFrame
    codes: np.ndarray
    names: tuple[str, ...]
    position: np.ndarray | None

    def build(
        self,
        features: Sequence[str],
        y: Any,
        target: str,
        person: str | None,
        bounds: PublicBounds | None,
        kind: str | None,
        groups: Sequence[str],
        missing: str,
        notes: Sequence[str],
    ) -> TaskSet:
        order, offsets = group_rows(self.codes, len(self.names))
        encoded = encode_features(self.frame, features, bounds, order=order)
        X, kept, said = fill_missing(encoded, offsets, missing)
        position = np.arange(len(self.codes)) if self.position is None else self.position

        def rows(values: Any) -> np.ndarray:
            values = np.asarray(values)
            values = values if order is None else values[order]
            return values if kept is None else values[kept]

        codes, names = rows(self.codes), self.names
        if kept is not None:  # a task can lose all its rows
            left = np.unique(codes)
            codes, names = np.searchsorted(left, codes), tuple(names[i] for i in left)
        out = encoded.bounds
        clipped = X if out is None else out.clip_features(X, encoded.names)
        made = TaskSet.from_arrays(
            clipped,
            _clip_target(rows(target_values(y, target, kind)), out),
            codes,
            task_names=names,
            feature_names=encoded.names,
            kind=kind,
            classes=None if out is None else out.classes,
            target_name=target,
            bounds=out,
            person=None if person is None else rows(_values(self.frame[person])),
            groups={g: rows(_values(self.frame[g])) for g in groups},
            row_index=rows(position),
            notes=tuple(dict.fromkeys((*notes, *encoded.notes, *said, *_clip_note(out)))),
        )
        return made


def encode_features(
    frame: pd.DataFrame,
    columns: Sequence[str],
    bounds: PublicBounds | None,
    *,
    order: np.ndarray | None = None,
) -> Encoded:
    """Numbers as they are, text and declared categories one-hot as 'column=level', rows taken in `order`."""
    import pandas as pd

    declared = dict(bounds.levels) if bounds is not None else {}
    plan: list[tuple[str, tuple[str, ...] | None]] = []
    notes: list[str] = []
    for name in columns:
        column = frame[name]
        if name in declared:
            plan.append((name, declared[name]))
        elif pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
            plan.append((name, None))
        else:
            declared[name] = found_levels(column, name)
            plan.append((name, declared[name]))
            notes.append(
                f"the levels of the text column {name!r} were taken from the data and count as public by declaration; "
                "list them under 'levels' in the bounds to fix them"
            )
    names = [n if levels is None else f"{n}={level}" for n, levels in plan for level in (levels or ("",))]
    X = np.empty((len(frame), len(names)), dtype=_dtype(frame, plan))
    _fill(X, frame, plan, order)
    out = bounds
    if bounds is not None and len(declared) > len(bounds.levels):
        out = replace(bounds, levels=declared)
    return Encoded(X, tuple(names), out, tuple(notes))


def found_levels(column: pd.Series, name: str) -> tuple[str, ...]:
    """The sorted texts of a categorical column, plus '(missing)' when cells are empty."""
    import pandas as pd

    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        raise DataError(
            f"column {name!r} holds dates or times; turn it into a number (days, age), or leave it out with features=[...]."
        )
    unique = [v for v in pd.unique(column) if not pd.isna(v)]
    if len(unique) > MAX_LEVELS:
        raise DataError(
            f"text column {name!r} has more than {MAX_LEVELS} different values (an identifier?). "
            "Leave it out with features=[...], or declare its levels in the bounds."
        )
    levels = sorted({str(v) for v in unique})
    if bool(column.isna().any()):
        levels.append(MISSING_LEVEL)
    return tuple(levels)


def fill_missing(
    encoded: Encoded, offsets: np.ndarray, missing: str
) -> tuple[np.ndarray, np.ndarray | None, tuple[str, ...]]:
    """X without NaN, which rows were kept (None: all), and what to say about it."""
    X, names = encoded.X, encoded.names
    holes = np.asarray([bool(np.isnan(X[:, j]).any()) for j in range(X.shape[1])])
    if not holes.any():
        return X, None, ()
    shown = ", ".join(repr(names[j]) for j in np.flatnonzero(holes)[:5]) + (
        " and more" if holes.sum() > 5 else ""
    )
    if missing == "error":
        raise DataError(
            f"missing values in column {shown}. Choose missing='impute-own' (median of the task's own rows), "
            "'impute-bounds' (middle of the declared range) or 'drop' (leave such rows out)."
        )
    if missing == "drop":
        kept = ~np.isnan(X[:, holes]).any(axis=1)
        if not kept.any():
            raise DataError(
                f"every row has a missing value in column {shown}; nothing is left. Use missing='impute-own'."
            )
        return X[kept], kept, ("rows with missing values were left out",)
    fill = _fill_bounds if missing == "impute-bounds" else _fill_own
    for j in np.flatnonzero(holes):
        fill(X, int(j), names[j], encoded.bounds, offsets)
    said = (
        "the middle of the declared range"
        if missing == "impute-bounds"
        else "the median of the task's own rows"
    )
    return X, None, (f"missing values were replaced by {said}",)


def need_columns(frame: pd.DataFrame, wanted: Sequence[str]) -> None:
    """Refuse columns that are not there, suggesting names that look alike."""
    have = [str(c) for c in frame.columns]
    for name in wanted:
        if name not in have:
            close = difflib.get_close_matches(str(name), have, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else f" Columns: {_list(have)}."
            raise DataError(f"the table has no column {name!r}.{hint}")


def target_values(y: Any, name: str, kind: str | None) -> np.ndarray:
    """A target column as an array: numbers, booleans, or text labels."""
    import pandas as pd

    column = pd.Series(y) if not isinstance(y, pd.Series) else y
    if pd.api.types.is_bool_dtype(column) or pd.api.types.is_numeric_dtype(column):
        return np.asarray(column)
    if pd.api.types.is_datetime64_any_dtype(column):
        raise DataError(f"the target {name!r} holds dates; turn it into a number or a label.")
    if kind == "regression":
        raise DataError(
            f"the regression target {name!r} holds text; expected numbers. Use kind='classification' for labels."
        )
    return np.asarray([str(v) for v in column.to_numpy(dtype=object)])


def _wide(
    frame: pd.DataFrame,
    task: str | None,
    targets: list[str],
    person: str | None,
    bounds: PublicBounds | None,
    kind: str | None,
    features: Sequence[str] | None,
    groups: Sequence[str],
    missing: str,
    notes: Sequence[str],
) -> TaskSet:
    """One task per target column (and per value of `task` where given); rows without that target are dropped."""
    import pandas as pd

    if not targets or len(set(targets)) != len(targets):
        raise OptionError("targets must name at least one column, each once.")
    need_columns(frame, [*targets, *([task] if task else []), *([person] if person else []), *groups])
    chosen = _feature_columns(frame, features, {task, person, *targets, *groups})
    inner, inner_names = (
        factorize(_values(frame[task])) if task else (np.zeros(len(frame), dtype=np.int64), ("",))
    )
    columns = [frame[t] for t in targets]
    if len({_family(c) for c in columns}) > 1:
        raise DataError(
            "the target columns mix numbers and text; all targets of a wide table must be of one kind."
        )
    present = [np.flatnonzero(c.notna().to_numpy()) for c in columns]
    for t, rows in zip(targets, present, strict=True):
        if rows.size == 0:
            raise DataError(f"the target column {t!r} is empty; leave it out of targets.")
    at = np.concatenate(present)
    codes = np.concatenate([j * len(inner_names) + inner[r] for j, r in enumerate(present)])
    y = pd.concat([c.iloc[r] for c, r in zip(columns, present, strict=True)], ignore_index=True)
    names = [f"{i}/{t}" if i else t for t in targets for i in inner_names]
    left = np.unique(codes)
    parts = _Parts(frame.iloc[at], np.searchsorted(left, codes), tuple(names[i] for i in left), at)
    said = (
        *notes,
        "one row can serve several tasks; without a person column the certificate cannot bound that",
    )
    target = "/".join(targets) if len(targets) <= 3 else f"{targets[0]}/.../{targets[-1]}"
    return parts.build(chosen, y, target, person, bounds, kind, groups, missing, notes if person else said)


def _check_table(frame: pd.DataFrame) -> None:
    columns = [str(c) for c in frame.columns]
    twice = next((c for i, c in enumerate(columns) if c in columns[:i]), None)
    if twice is not None:
        raise DataError(
            f"the table has two columns called {twice!r}; column names must be unique. Rename one of them."
        )
    if len(frame) == 0:
        raise DataError("the table has no rows; at least one row is needed.")


def _only(frame: pd.DataFrame, usual: Sequence[str], what: str) -> str:
    for name in usual:
        if name in frame.columns:
            return name
    raise OptionError(
        f"which column is the {what}? Give {what}=COLUMN. Columns: {_list([str(c) for c in frame.columns])}."
    )


def _rows_with_target(frame: pd.DataFrame, target: str, missing: str) -> np.ndarray | None:
    there = frame[target].notna().to_numpy()
    if there.all():
        return None
    if missing != "drop":
        raise DataError(
            f"the target column {target!r} has missing values; use missing='drop' to leave such rows out."
        )
    if not there.any():
        raise DataError(f"the target column {target!r} is empty.")
    return there


def _feature_columns(frame: pd.DataFrame, features: Sequence[str] | None, taken: set[Any]) -> list[str]:
    if features is not None:
        need_columns(frame, features)
        if len(set(features)) != len(features):
            raise DataError("a feature is named twice; feature names must be unique.")
        return list(features)
    chosen = [str(c) for c in frame.columns if c not in taken]
    if not chosen:
        raise DataError("no feature columns are left besides task and target; at least one is needed.")
    return chosen


def _dtype(frame: pd.DataFrame, plan: Sequence[tuple[str, Any]]) -> Any:
    single = all(levels is not None or str(frame[n].dtype) in ("float32", "float16") for n, levels in plan)
    return np.float32 if single and any(levels is None for _, levels in plan) else np.float64


def _fill(
    X: np.ndarray,
    frame: pd.DataFrame,
    plan: Sequence[tuple[str, tuple[str, ...] | None]],
    order: np.ndarray | None,
) -> None:
    j = 0
    for name, levels in plan:
        if levels is None:
            values = frame[name].to_numpy(dtype=X.dtype, na_value=np.nan)
            X[:, j] = values if order is None else values[order]
            j += 1
        else:
            X[:, j : j + len(levels)] = _one_hot(frame[name], name, levels, order)
            j += len(levels)


def _one_hot(column: pd.Series, name: str, levels: tuple[str, ...], order: np.ndarray | None) -> np.ndarray:
    import pandas as pd

    codes, unique = pd.factorize(column, use_na_sentinel=True)
    place = {level: k for k, level in enumerate(levels)}
    from taskveil.tasks.grouping import task_label

    to = np.asarray([place.get(task_label(u), -1) for u in unique], dtype=np.int64)
    if (to < 0).any():
        raise DataError(
            f"column {name!r} has values outside its declared levels; declare them, or correct the table."
        )
    at = np.where(codes >= 0, to[codes] if to.size else -1, place.get(MISSING_LEVEL, -1))
    at = at if order is None else at[order]
    out = np.zeros((len(column), len(levels)))
    rows = np.flatnonzero(at >= 0)  # an undeclared missing cell is all zeros
    out[rows, at[rows]] = 1.0
    return out


def _fill_bounds(X: np.ndarray, j: int, name: str, bounds: PublicBounds | None, offsets: np.ndarray) -> None:
    middle = None if bounds is None else bounds.midpoint(name)
    if middle is None:
        raise DataError(
            f"missing='impute-bounds' needs a declared range for column {name!r}; add it to the bounds, or use 'impute-own'."
        )
    X[np.isnan(X[:, j]), j] = middle


def _fill_own(X: np.ndarray, j: int, name: str, bounds: PublicBounds | None, offsets: np.ndarray) -> None:
    middle = None if bounds is None else bounds.midpoint(name)
    hole = np.isnan(X[:, j])
    starts = offsets[:-1]
    for i in np.flatnonzero(np.diff(offsets) > 0):
        rows = slice(starts[i], offsets[i + 1])
        if hole[rows].any():
            own = X[rows, j][~hole[rows]]
            X[rows, j][hole[rows]] = np.median(own) if own.size else (0.0 if middle is None else middle)


def _values(column: pd.Series) -> Any:
    """A column for `factorize`: plain arrays where possible, the Series itself for text."""
    import pandas as pd

    if bool(column.isna().any()):
        return column.to_numpy(dtype=object)
    if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column):
        return column.to_numpy()
    return column.to_numpy(dtype=object)


def _family(column: pd.Series) -> str:
    import pandas as pd

    return "number" if pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column) else "text"


def _clip_target(y: np.ndarray, bounds: PublicBounds | None) -> np.ndarray:
    return y if bounds is None else bounds.clip_target(y)


def _clip_note(bounds: PublicBounds | None) -> tuple[str, ...]:
    return () if bounds is None else ("values outside their declared range are clipped to it",)


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + (f" and {len(names) - 12} more" if len(names) > 12 else "")


def levels_of(names: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    """Category levels hidden in encoded feature names: 'sex=f', 'sex=m' -> {'sex': ('f', 'm')}."""
    out: dict[str, list[str]] = {}
    for name in names:
        column, equals, level = name.partition("=")
        if equals:
            out.setdefault(column, []).append(level)
    return {k: tuple(v) for k, v in out.items()}
