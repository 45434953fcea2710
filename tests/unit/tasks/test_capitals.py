"""Tables are typed by several people: capitals and blanks around a text make no other text."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.errors import DataError


@pytest.mark.parametrize("levels", [None, ["Yes", "No", "(other)"]], ids=["hashed", "declared"])
def test_a_text_is_the_same_however_its_capitals_and_blanks_are_written(levels):
    """In a table typed by several people 'yes' was another level than 'Yes', or none of the declared ones, without a word."""
    cells = ["Yes", "yes", "YES ", " no", "No", "perhaps", None]
    frame = pd.DataFrame({"smoker": cells, "y": np.arange(7.0), "t": "a"})
    X = tv.load_tasks(frame, task="t", target="y", bounds=None if levels is None else {"levels": {"smoker": levels}}).X
    assert [tuple(row) == tuple(X[0]) for row in X] == [True, True, True, False, False, False, False]
    assert (X[3] == X[4]).all() and not (X[3] == X[5]).all()
    both = tv.load_tasks(frame, task="t", target="y", bounds={"levels": {"smoker": ["yes", "Yes"]}}).X
    assert both[:3].tolist() == [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]], "levels that differ in capitals alone may be declared"


def test_labels_that_differ_in_capitals_alone_are_no_classes_of_their_own():
    """Yes and no became six classes, without a word."""
    labels = ["Yes", "yes", "NO", "no", "No", "YES "] * 3
    X, task = np.arange(36.0).reshape(18, 2), np.repeat([0, 1], 9)
    with pytest.raises(DataError, match="differ in nothing but capitals or blanks"):
        tv.TaskClassifier("local").fit(X, labels, task=task)
    frame = pd.DataFrame(X, columns=["a", "b"]).assign(t=task, out=labels)
    tasks = tv.load_tasks(frame, task="t", target="out", positive="yes")
    assert tasks.y.tolist() == [1, 1, 0, 0, 0, 1] * 3
    declared = tv.load_tasks(frame, task="t", target="out", bounds={"classes": sorted(set(labels))})
    assert len(tv.TaskClassifier("local").fit(declared).classes_) == 6
