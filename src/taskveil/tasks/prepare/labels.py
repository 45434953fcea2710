"""The target: its values, which of them are missing, its label set, and the one label that counts as positive.

A label is missing in the same cases wherever it comes from: None, NaN, NA, or one of the texts that stand for an empty cell
in a csv.

The kind (regression or classification) follows from the type of the target column, never from its values; survival is always
asked for. Numbers are regression; text, booleans and categories are classification. Counting distinct values instead would be a
statistic of everybody's rows. A number column of nothing but 0 and 1 is the one case where the type is a bad guess: `ask_kind`
turns it back to whoever runs the command, before anything is released.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from taskveil.errors import DataError, OptionError, UnknownName
from taskveil.tasks.arguments import as_array
from taskveil.tasks.grouping import folded, task_label
from taskveil.tasks.prepare.disguise import disguise
from taskveil.tasks.prepare.encode import is_number, plain_text
from taskveil.tasks.prepare.facts import Fact
from taskveil.tasks.prepare.survival import survival_target
from taskveil.tasks.prepare.unusable import is_missing

if TYPE_CHECKING:
    import pandas as pd

    from taskveil.tasks.task import TaskSet


TRUTH = {"True": "1", "False": "0", "1": "True", "0": "False"}
KINDS = ("regression", "classification", "survival")


def as_target(y: Any, kind: str | None) -> np.ndarray:
    """One target per row: float64 for regression, labels (integers, booleans, text) for classification."""
    if kind == "survival":
        return survival_target(y)
    y = as_array(y, "y")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise DataError(f"y must be one target per row, got shape {y.shape}. For several targets see targets=[...].")
    if (kind or infer_kind(y)) == "regression":
        try:
            return y.astype(np.float64, copy=False)
        except (TypeError, ValueError):
            raise DataError(
                "a regression target must be numbers, got text. If these are labels, say kind='classification' (--kind)."
            ) from None
    if y.dtype.kind in "OUS":
        return _as_labels(y)
    if y.dtype.kind == "f" and np.isfinite(y).all() and bool((y == np.round(y)).all()):
        return y.astype(np.int64)
    return y


def _as_labels(y: np.ndarray) -> np.ndarray:
    """Labels as all text, or all numbers; a missing label is an error."""
    if any(is_missing(v) for v in y):
        raise DataError(
            "the target has missing labels; every row needs one. Leave such rows out first; from a table, "
            "bad_rows='skip' (--bad-rows skip) does."
        )
    if not all(isinstance(v, str | bytes | numbers.Real | np.generic) for v in y):
        raise DataError("labels must be texts, whole numbers or truth values; got other objects.")
    return np.asarray([str(v) for v in y] if any(isinstance(v, str) for v in y) else y.tolist())


def filled_targets(column: pd.Series) -> np.ndarray:
    """Which cells (N,) of a target column hold a target."""
    filled = column.notna().to_numpy()
    if is_number(column):
        return filled
    return filled & ~np.asarray([is_missing(v) for v in column.to_numpy(dtype=object)], dtype=bool)


def target_values(column: pd.Series, name: str, kind: str | None) -> np.ndarray:
    """A target column without missing cells as an array: numbers, booleans, or text labels."""
    import pandas as pd

    if is_number(column):
        values = column.to_numpy()
        return values if values.dtype != object else column.to_numpy(dtype=bool if column.dtype == "boolean" else np.float64)
    if pd.api.types.is_datetime64_any_dtype(column) or pd.api.types.is_timedelta64_dtype(column):
        raise DataError(f"the target {name!r} holds dates or durations; turn it into a number (days) or a label.")
    filled = column[filled_targets(column)]
    meant = None if kind == "classification" else disguise(filled, list(pd.unique(filled)))
    if meant is not None:
        raise DataError(f"the target {name!r} holds {meant}. If these are labels, say kind='classification' (--kind).")
    if kind in ("regression", "survival"):
        raise DataError(
            f"the {kind} target {name!r} holds text; expected numbers. If these are labels, say kind='classification' (--kind)."
        )
    return np.asarray(["" if is_missing(v) else str(v) for v in column.to_numpy(dtype=object)])


def label_set(y: np.ndarray, declared: Any) -> tuple[np.ndarray, np.ndarray]:
    """The labels of the rows as they were declared, and the declared ones, sorted.

    Without a declaration both come from the rows, and the certificate lists that as a fact.
    """
    if declared is None:
        return y, np.unique(y)
    labels, classes, outside = declared_labels(y, declared)
    if outside.any():
        raise DataError("the target has labels outside the declared classes; declare all of them in the bounds.")
    return labels, classes


def declared_labels(y: np.ndarray, declared: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Every label as it was declared, the declared labels sorted, and which rows (N,) hold none of them.

    The declaration decides the type of all labels and every cell is read by itself: '1', '1.0', 1 and True are the label 1,
    whatever other rows hold; so are 'Yes' and 'yes ', unless labels that differ in nothing else are declared. Who has none
    of them gets the first for now.
    """
    classes, order = np.unique(_declared_type(declared), return_index=True)
    texts = [task_label(np.asarray(declared, dtype=object)[j]) for j in order]
    forms = [folded(text) for text in texts]
    alike = {form: j for j, form in enumerate(forms) if forms.count(form) == 1}
    places = {plain_text(text): j for j, text in enumerate(texts)} | {text: j for j, text in enumerate(texts)}
    cells, codes = np.unique([task_label(v) for v in y.tolist()] if y.dtype.kind == "O" else y, return_inverse=True)
    at = np.asarray([_place(task_label(cell), places, alike) for cell in cells.tolist()], dtype=np.int64)[codes]
    return classes[np.maximum(at, 0)], classes, at < 0


def _place(cell: str, places: Mapping[str, int], alike: Mapping[str, int]) -> int:
    """Where a cell stands among the declared labels: as written, in its usual form, as a truth value, folded; -1 for nowhere."""
    plain = plain_text(cell)
    return next((places[text] for text in (cell, plain, TRUTH.get(plain, plain)) if text in places), alike.get(folded(cell), -1))


def _declared_type(declared: Any) -> np.ndarray:
    """Declared labels as truth values, numbers (whole ones as integers), or text."""
    labels = np.asarray(declared)
    if labels.dtype.kind == "f" and bool((labels == np.round(labels)).all()):
        return labels.astype(np.int64)
    return labels if labels.dtype.kind in "biufU" else np.asarray([str(label) for label in declared])


def stand_ins(y: Any, declared: Any) -> tuple[np.ndarray, np.ndarray]:
    """Labels with another one where a label is missing or not declared, and which rows (N,) that concerns.

    The caller sets the tasks of such rows aside, or where that leaves none refuses them all.
    """
    y = np.array(y)
    lost = ~np.isfinite(y) if y.dtype.kind == "f" else np.asarray([is_missing(v) for v in y.tolist()])
    if declared is not None:
        y, _, outside = declared_labels(y, declared)
        return y, lost | outside
    if lost.any() and not lost.all():
        y[lost] = y[~lost][0]
    return as_target(y, "classification"), lost


def make_binary(tasks: TaskSet, positive: Any) -> TaskSet:
    """Labels to 1 (the label `positive`, whatever its case) and 0 (all others): row by row, so the label set is public."""
    if tasks.classes is None:
        raise OptionError("positive=LABEL needs a classification target; this one is regression. Use kind='classification'.")
    labels = [task_label(c) for c in tasks.classes]
    hits = np.asarray([folded(c) == folded(str(positive)) for c in labels])
    if not hits.any():
        few = len(labels) <= 20  # many labels are values of the target rather than names of classes
        choices = f"labels: {', '.join(labels)}" if few else "it has too many labels to be classes; they are not listed"
        raise UnknownName(f"no label {str(positive)!r} in the target; {choices}.")
    return replace(
        tasks,
        y=hits[tasks.codes()].astype(np.int64),
        classes=np.asarray([0, 1]),
        target_name=f"{tasks.target_name} = {positive}",
        bounds=None if tasks.bounds is None else replace(tasks.bounds, classes=(0, 1)),
        facts=tuple(f for f in tasks.facts if f != Fact("labels", tasks.target_name)),
    )


def infer_kind(y: np.ndarray) -> str:
    """The kind that goes with the type of an array of targets."""
    return "regression" if y.dtype.kind in "iuf" else "classification"


def ask_kind(y: np.ndarray, column: str) -> None:
    """Refuse to guess where a number column holds nothing but 0 and 1."""
    if y.dtype.kind in "iuf" and np.isin(y, (0, 1)).all():
        raise OptionError(
            f"the target {column!r} holds nothing but 0 and 1: numbers, or no and yes? "
            "Say --kind classification or --kind regression (kind=...). Nothing was released."
        )
