"""Names of columns: texts, numbers, pairs of words; and what is said where one is not there."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.errors import DataError

RNG = np.random.default_rng(0)
TABLE = pd.DataFrame({"site": list("ab") * 20, "age": RNG.normal(size=40), "ward": list("xxyy") * 10})
DAYS = TABLE["age"] * 2 + (TABLE["ward"] == "x") + RNG.normal(size=40)
RENAMED = {
    "numbers": {"site": 0, "age": 1, "ward": 2},
    "numbers and texts": {"site": "site", "age": 1, "ward": "ward"},
    "pairs": {name: ("a", name) for name in TABLE},
}


@pytest.mark.parametrize("names", RENAMED.values(), ids=RENAMED)
def test_columns_may_be_called_by_numbers_or_pairs(names):
    """A text column and such names: fit found no column '1' and asked for '1'."""
    table = TABLE.set_axis([names[c] for c in TABLE], axis=1)
    levels, renamed = {"ward": ["x", "y"]}, {str(names["ward"]): ["x", "y"]}
    plain = tv.TaskRegressor(epsilon=None, task_column="site", bounds={"levels": levels}).fit(TABLE, DAYS)
    est = tv.TaskRegressor(epsilon=None, task_column=names["site"], bounds={"levels": renamed}).fit(table, DAYS)
    assert np.array_equal(est.predict(table), plain.predict(TABLE))


@pytest.mark.parametrize("names", RENAMED.values(), ids=RENAMED)
def test_tables_with_such_names_are_loaded(names):
    table = TABLE.set_axis([names[c] for c in TABLE], axis=1).assign(days=DAYS)
    tasks = tv.load_tasks(table, task=names["site"], target="days", leave_out=[names["ward"]])
    assert tasks.feature_names == (str(names["age"]),) and tasks.task_names == ("a", "b")


def test_all_columns_that_are_not_there_are_named_at_once():
    with pytest.raises(DataError, match="no column 'SITE' and no column 'dayz'.*'site' for 'SITE'.*'days' for 'dayz'"):
        tv.load_tasks(TABLE.assign(days=DAYS), task="SITE", target="dayz")


def test_the_prefix_of_a_column_transformer_is_suggested():
    with pytest.raises(DataError, match="Did you mean 'remainder__site'"):
        tv.TaskRegressor(task_column="site").fit(TABLE.add_prefix("remainder__"), DAYS)


def test_a_survival_target_without_events_is_refused():
    """Times alone were taken for events that were all seen."""
    times = np.abs(DAYS) + 1
    for y in (times, times.to_numpy(), times.tolist()):
        with pytest.raises(DataError, match=r"one value per row; a survival target is \(event, time\)"):
            tv.TaskSurvival(epsilon=None, task_column="site").fit(TABLE, y)
