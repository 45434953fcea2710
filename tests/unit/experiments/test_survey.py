"""The preparation of LSOA II, on a small made survey."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from experiments.survey import NOT_ANSWERED, UNPAID, fill_answers, survey_tasks

from taskveil.errors import DataError


@pytest.fixture
def survey():
    return pd.DataFrame(
        {
            "age": [70.0, 80.0, np.nan, 90.0],
            "walks": [1.0, np.nan, 0.0, 1.0],
            "reads": [0.0, 1.0, 1.0, 0.0],
            "smokes": [1.0, 2.0, np.nan, 2.0],
            "needs_help": [1.0, 0.0, 1.0, np.nan],
            "falls": [0.0, np.nan, np.nan, 1.0],
        }
    )


FEATURES = ["age", "walks", "reads", "smokes"]


def test_numbers_get_the_mean_of_what_was_answered(survey):
    assert fill_answers(survey, FEATURES)["age"].tolist() == [70.0, 80.0, 80.0, 90.0]


def test_a_missing_yes_or_no_is_a_category_of_its_own_with_two_columns(survey):
    filled = fill_answers(survey, FEATURES)
    assert filled["walks"].tolist() == [1.0, 0.0, 0.0, 1.0]
    assert filled[f"walks {NOT_ANSWERED}"].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert filled["smokes"].tolist() == [0.0, 1.0, 0.0, 1.0], "codes 1 and 2 are no and yes"


def test_a_fully_answered_yes_or_no_stays_one_column(survey):
    assert list(fill_answers(survey, FEATURES).columns) == [
        "age", "walks", f"walks {NOT_ANSWERED}", "reads", "smokes", f"smokes {NOT_ANSWERED}",
    ]  # fmt: skip


def test_each_target_is_a_task_of_the_rows_that_answered_it(survey):
    tasks = survey_tasks(survey, ["needs_help", "falls"], FEATURES)
    assert tasks.task_names == ("needs_help", "falls")
    assert tasks.sizes.tolist() == [3, 2]
    np.testing.assert_allclose(np.linalg.norm(tasks.X, axis=1), 1.0)


def test_what_was_not_paid_for_is_said(survey):
    assert UNPAID in survey_tasks(survey, ["needs_help"], FEATURES).notes


def test_text_answers_and_unknown_columns_are_refused(survey):
    with pytest.raises(DataError, match="no numbers"):
        fill_answers(survey.assign(walks=["yes", None, "no", "yes"]), FEATURES)
    with pytest.raises(DataError, match="no column 'weight'"):
        fill_answers(survey, ["weight"])
