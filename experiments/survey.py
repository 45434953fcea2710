"""Wide surveys with missing answers, prepared as the MP-MTL paper prepares LSOA II (section 5.5.1).

    number, answers missing      the mean of the given answers
    yes/no, answers missing      two columns: "yes" and "not answered" (three categories need no third column)
    yes/no, all answered         one column
    targets                      one task per target; a row serves the tasks whose target it answered

The mean of a column and the list of columns with gaps are statistics of everybody's rows. The paper uses them unpaid, and so does
this module: it is for reproduction, and sound private runs refuse what it returns. For those use `load_tasks(..., targets=...,
missing="impute-own")`, or declare levels and ranges in public bounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from taskveil.errors import DataError
from taskveil.tasks.load import load_tasks
from taskveil.tasks.prepare.facts import Fact
from taskveil.tasks.task import TaskSet

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["NOT_ANSWERED", "UNPAID", "fill_answers", "survey_tasks"]

NOT_ANSWERED = "(not answered)"
UNPAID = Fact("pooled-fill").sentence()


def fill_answers(frame: pd.DataFrame, features: Sequence[str]) -> pd.DataFrame:
    """The feature columns as numbers without gaps; yes/no columns with gaps become two."""
    import pandas as pd

    missing = [name for name in features if name not in frame.columns]
    if missing:
        raise DataError(f"no column {missing[0]!r} in the survey; columns: {', '.join(map(str, frame.columns[:12]))}.")
    filled: dict[str, np.ndarray] = {}
    for name in features:
        answers = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64)
        if np.isnan(answers).sum() > frame[name].isna().sum():
            raise DataError(f"column {name!r} holds answers that are no numbers; code them as numbers first.")
        filled |= _filled(name, answers)
    return pd.DataFrame(filled, index=frame.index)


def _filled(name: str, answers: np.ndarray) -> dict[str, np.ndarray]:
    gap = np.isnan(answers)
    if not gap.any():
        return {name: answers}
    given = answers[~gap]
    levels = np.unique(given)
    if levels.size == 2:  # the larger code is "yes", as in 0/1 and 1/2
        yes = np.where(gap, 0.0, answers == levels[1])
        return {name: yes.astype(np.float64), f"{name} {NOT_ANSWERED}": gap.astype(np.float64)}
    return {name: np.where(gap, given.mean() if given.size else 0.0, answers)}


def survey_tasks(
    frame: pd.DataFrame, targets: Sequence[str], features: Sequence[str] | None = None, unit_rows: bool = True
) -> TaskSet:
    """One binary task per target column; rows scaled to length one where `unit_rows`, as in the paper."""
    import pandas as pd

    chosen = [str(c) for c in frame.columns if c not in set(targets)] if features is None else list(features)
    table = fill_answers(frame, chosen)
    if unit_rows:
        lengths = np.linalg.norm(table.to_numpy(), axis=1, keepdims=True)
        table = table / np.maximum(lengths, 1e-12)
    whole = pd.concat([table, frame[list(targets)]], axis=1)
    tasks = load_tasks(whole, targets=list(targets), features=list(table.columns), kind="classification")
    return tasks.with_notes(UNPAID).with_facts(Fact("pooled-fill"))
