"""What the items of this paper say in the same way."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from experiments.ponomarenko_2023.clock import HAR, REGRESSION, printed
from experiments.ponomarenko_2023.data import har_split, synthetic_regression

PAPER = "MTL-SVM"
SPLIT = "70 % of the recordings train; windows of one recording overlap, so none is on both sides"


def spread(values: Any) -> str:
    """Mean and standard deviation in words that fit a table."""
    values = np.asarray(values, dtype=float)
    return f"{values.mean():.4f} ± {values.std(ddof=1):.4f}" if values.size > 1 else f"{values.mean():.4f}"


def listed(scores: dict[str, Any]) -> str:
    return ", ".join(f"{name} {spread(v)}" for name, v in scores.items())


@lru_cache(maxsize=4)
def as_printed(regression: bool, heterogeneous: bool = False) -> dict[str, Any]:
    """The printed equations on the first split of the data at hand."""
    if not regression:
        return printed(har_split(0, 20), HAR)
    return printed(synthetic_regression(0, heterogeneous), REGRESSION)


def printed_words(regression: bool, heterogeneous: bool = False) -> str:
    run = as_printed(regression, heterogeneous)
    measure = "R²" if regression else "balanced accuracy"
    if not run["diverged"]:
        return f"runs {run['rounds']} rounds; {measure} {run['quality'][-1]:.3g}"
    growth = run["objective"][-1] / run["objective"][0]
    return (
        f"diverges: objective {growth:.0f} times that of the zero model in round {run['rounds']}, {measure} "
        f"{run['quality'][-1]:.3g}; no model is returned"
    )
