"""Regression or classification: from the type of the target column, never from its values. Survival is always asked for.

Numbers are regression; text, booleans and categories are classification. Counting distinct values instead would be a
statistic of everybody's rows. A number column of nothing but 0 and 1 is the one case where the type is a bad guess:
`ask_kind` turns it back to whoever runs the command, before anything is released.
"""

from __future__ import annotations

import numpy as np

from taskveil.errors import OptionError

__all__ = ["KINDS", "ask_kind", "infer_kind", "only_zeros_and_ones"]

KINDS = ("regression", "classification", "survival")


def infer_kind(y: np.ndarray) -> str:
    """The kind that goes with the type of an array of targets."""
    return "regression" if y.dtype.kind in "iuf" else "classification"


def only_zeros_and_ones(y: np.ndarray) -> bool:
    """Whether a number column could just as well be yes and no."""
    return y.dtype.kind in "iuf" and bool(np.isin(y, (0, 1)).all())


def ask_kind(y: np.ndarray, column: str) -> None:
    """Refuse to guess where a number column holds nothing but 0 and 1."""
    if only_zeros_and_ones(y):
        raise OptionError(
            f"the target {column!r} holds nothing but 0 and 1: numbers, or no and yes? "
            "Say --kind classification or --kind regression (kind=...). Nothing was released."
        )
