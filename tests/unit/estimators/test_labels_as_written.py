"""Labels that are written now one way, now another: declared ones decide, and a score compares what the models mean."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import taskveil as tv
from taskveil.errors import DataError

RNG = np.random.default_rng(1)
X = pd.DataFrame({"site": list("ab") * 30, "x": RNG.normal(size=60)})
SICK = X["x"] + 0.3 * RNG.normal(size=60) > 0
PLAIN = pd.Series(np.where(SICK, "yes", "no"))
MESSY = PLAIN.mask(X.index % 3 == 0, PLAIN.str.upper()).mask(X.index % 5 == 0, PLAIN + " ")


def fitted(y, **declared):
    return tv.TaskClassifier(epsilon=None, task_column="site", bounds=declared or None).fit(X, y)


def test_declared_classes_take_all_forms_of_a_label():
    """`YES` was no declared label where `yes` was declared, though a text column took both for one."""
    est, plain = fitted(MESSY, classes=["no", "yes"]), fitted(PLAIN)
    assert list(est.classes_) == ["no", "yes"] and np.array_equal(est.coef_, plain.coef_)
    assert est.score(X, MESSY) == plain.score(X, PLAIN) > 0.8


def test_declared_classes_that_differ_in_capitals_alone_stay_apart():
    y = PLAIN.mask(X.index % 3 == 0, PLAIN.str.upper())
    assert list(fitted(y, classes=["no", "yes", "NO", "YES"]).classes_) == ["NO", "YES", "no", "yes"]
    with pytest.raises(DataError, match="outside the declared classes"):
        fitted(PLAIN.replace("no", "No"), classes=["no", "NO", "yes"])


@pytest.mark.parametrize("kind", [object, "category", "string", str])
def test_a_score_takes_labels_in_any_column_type(kind):
    est = fitted(PLAIN)
    assert est.score(X, PLAIN.astype(kind)) == est.score(X, PLAIN) > 0.8


def test_a_score_takes_numbers_and_truth_values_for_each_other_where_y_holds_objects():
    est = fitted(SICK.astype(int))
    assert est.score(X, SICK.astype(object)) == est.score(X, SICK.astype(int)) > 0.8


def test_a_label_that_no_model_knows_is_a_miss():
    est, other = fitted(PLAIN), PLAIN.mask(X.index < 30, "perhaps")
    assert est.score(X[:30], other[:30]) == 0.0
    assert est.score(X[30:], other[30:]) == est.score(X[30:], PLAIN[30:])
