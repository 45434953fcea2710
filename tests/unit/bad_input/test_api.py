"""The Python interface: every parameter and every method option with every value its rule refuses; tables and targets that
are not what fit takes. All refused with a ValueError of ours, in one line, before anything is released."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from tests.support.wrong import DEEP, label, named, one_line, wrong_values

import taskveil as tv
from taskveil import methods
from taskveil.errors import InputError
from taskveil.estimators.parameters import PARAMETERS
from taskveil.estimators.search import SEARCH
from taskveil.methods.base import PublicInfo
from taskveil.methods.options import rules_of
from taskveil.privacy.ledger import Book
from taskveil.privacy.plan import Budget
from taskveil.privacy.secure_options import SECURE, SecureOptions
from taskveil.tasks.arguments import FOLDS, LOAD, SPLIT, SYNTHETIC
from taskveil.tasks.public_bounds import PublicBounds
from taskveil.tasks.task import PARTS

rng = np.random.default_rng(0)
X, TASK = rng.standard_normal((60, 3)), np.repeat(np.arange(6), 10)
Y = X @ [1.0, -1.0, 0.5]
TASKS = tv.load_tasks((X, Y, TASK))
ONE = PublicInfo(6, 3, 1, "classification")


def refused(call: Any) -> str:
    with pytest.raises(InputError) as error:
        call()
    one_line(str(error.value))
    return str(error.value)


@pytest.mark.parametrize("name, value", [pytest.param(n, v, id=f"{n}={label(v)}") for n, v in named(PARAMETERS)])
def test_an_estimator_refuses_a_parameter_outside_its_rule(name, value):
    assert name in refused(lambda: tv.TaskRegressor("mean", **{name: value}).fit(X, Y, task=TASK))


SEARCHES = [
    *named(SEARCH),
    *(("param_grid", v) for v in (3, "x", None, [], {"a": 1}, [3])),
    *(("estimator", v) for v in (3, "x", None)),
]


@pytest.mark.parametrize("name, value", [pytest.param(n, v, id=f"{n}={label(v)}") for n, v in SEARCHES])
def test_a_search_refuses_a_parameter_outside_its_rule(name, value):
    given = {"estimator": tv.TaskRegressor("mean", epsilon=1.0), "param_grid": {"method__rounds": [1, 2]}, name: value}
    assert name in refused(lambda: tv.TaskSearch(**given).fit(X, Y, task=TASK))


def test_a_task_set_refuses_parts_of_another_type():
    """Its constructor is public: what the parts are is one table, as for everything else."""
    good = {name: getattr(TASKS, name) for names in PARTS.values() for name in names}
    assert tv.TaskSet(**good).n_tasks == 6
    for name in good:
        for value in (3, object(), {1}, 1j):
            assert name in refused(lambda name=name, value=value: tv.TaskSet(**{**good, name: value}))


OPTIONS = [
    pytest.param(method, name, rule, id=f"{method}.{name}")
    for method in methods.names()
    for name, rule in rules_of(methods.get(method)).items()
]


@pytest.mark.parametrize("method, name, rule", OPTIONS)
def test_a_method_refuses_an_option_outside_its_rule(method, name, rule):
    for value in wrong_values(rule)[::2]:  # every second one: the rules are shared, and so are their other values
        made = methods.get(method).set_params(**{name: value})
        assert name in refused(lambda made=made: made.check(ONE, Budget(1.0, 1e-6))), label(value)


def test_every_number_and_word_among_the_options_has_a_rule():
    """An option whose default is a number, a word or a truth value is in the table, or checked where it is looked up."""
    looked_up = {"model", "personalise", "preset", "shared", "own", "unit"}
    for method in map(methods.get, methods.names()):
        plain = {k for k, v in method.flat_options().items() if isinstance(v, (int, float, str))}
        assert plain - looked_up <= set(rules_of(method)), method.name


@pytest.mark.parametrize("name, value", [pytest.param(n, v, id=f"{n}={label(v)}") for n, v in named(SECURE)])
def test_a_secure_sum_refuses_what_it_cannot_withstand(name, value):
    refused(lambda: SecureOptions.for_tasks(10, **{name: value}))
    refused(lambda: tv.TaskRegressor("mean", aggregation="secure", secure={name: value}).fit(X, Y, task=TASK))


@pytest.mark.parametrize("wanted", [{"colluders": 1000}, {"min_cohort": 11}, {"dropouts": 10}, {"magic": 1}, {"colluders": 10}])
def test_a_secure_sum_is_never_quietly_weaker_than_asked(wanted):
    """A thousand colluders among ten tasks used to become nine."""
    refused(lambda: tv.TaskRegressor("mean", aggregation="secure", secure=wanted).fit(X, Y, task=TASK))


def folds(**given: Any) -> Any:
    return list(tv.TaskShuffleSplit(**{"n_splits": 2, **given}).split(X, Y, groups=TASK))


SETS = {"n_train": "tiny", "relation": "tiny", "unit_rows": "tiny", "n_active": "group-sparse", "low": "group-sparse"}
SETS |= {"high": "group-sparse", "n_blocks": "low-rank", "correlation": "low-rank", "variance": "low-rank"}
SETS |= {"n_features": "tiny", "sharpness": "hospitals-readmission"}
DATA: dict[str, tuple[Any, dict[str, Any]]] = {
    "load_tasks": (lambda **o: tv.load_tasks((X, Y, TASK), **o), LOAD),
    "split_rows": (lambda **o: tv.split_rows(TASKS, **{"train_fraction": 0.5, "seed": 0, **o}), SPLIT),
    "TaskShuffleSplit": (folds, FOLDS),
    "get_synthetic": (lambda **o: tv.get_synthetic(SETS.get(next(iter(o)), "hospitals"), **o), SYNTHETIC),
}


@pytest.mark.parametrize(("function", "name"), [(function, name) for function, (_, table) in DATA.items() for name in table])
def test_a_data_function_refuses_an_argument_outside_its_rule(function, name):
    call, table = DATA[function]
    for value in wrong_values(table[name]):
        assert name in refused(lambda value=value: call(**{name: value})), label(value)


def replaced(array: np.ndarray, value: Any) -> np.ndarray:
    made = array.astype(object) if not isinstance(value, float) else array.copy()
    made[3] = value
    return made


CALLS = {
    "epsilon as a list": lambda: tv.TaskRegressor(epsilon=[1.0]).fit(X, Y, task=TASK),
    "epsilon as an array": lambda: tv.TaskRegressor(epsilon=np.ones(2)).fit(X, Y, task=TASK),
    "a method that is a number": lambda: tv.TaskRegressor(method=3).fit(X, Y, task=TASK),
    "an unknown method": lambda: tv.TaskRegressor(method="magic").fit(X, Y, task=TASK),
    "a method class": lambda: tv.TaskRegressor(method=type(methods.get("mean"))).fit(X, Y, task=TASK),
    "an unknown option": lambda: methods.get("mean", magic=1),
    "an unknown mechanism": lambda: tv.TaskRegressor("mean", mechanism="magic").fit(X, Y, task=TASK),
    "an unknown accountant": lambda: tv.TaskRegressor("mean", accountant="magic").fit(X, Y, task=TASK),
    "secure that is a list": lambda: tv.TaskRegressor("mean", aggregation="secure", secure=[1]).fit(X, Y, task=TASK),
    "colluders of a curator": lambda: tv.TaskRegressor("mean", secure={"colluders": 1}).fit(X, Y, task=TASK),
    "fewer tasks than rows": lambda: tv.TaskRegressor().fit(X, Y, task=TASK[:-1]),
    "more tasks than rows": lambda: tv.TaskRegressor().fit(X, Y, task=np.r_[TASK, 1]),
    "tasks in two columns": lambda: tv.TaskRegressor().fit(X, Y, task=np.c_[TASK, TASK]),
    "tasks that are tables": lambda: tv.TaskRegressor().fit(X, Y, task=[{}] * len(X)),
    "an account without a ledger": lambda: tv.TaskRegressor("mean", account="a").fit(X, Y, task=TASK),
    "a run folder that is a file": lambda: tv.TaskRegressor("mean", run_dir=__file__).fit(X, Y, task=TASK),
    "a task that is one number": lambda: tv.TaskRegressor().fit(X, Y, task=3),
    "fewer targets than rows": lambda: tv.TaskRegressor().fit(X, Y[:-1], task=TASK),
    "no target": lambda: tv.TaskRegressor().fit(X, None, task=TASK),
    "two targets": lambda: tv.TaskRegressor().fit(X, np.c_[Y, Y], task=TASK),
    "targets of NaN": lambda: tv.TaskRegressor(epsilon=None).fit(X, np.full(len(X), math.nan), task=TASK),
    "a target of infinity": lambda: tv.TaskRegressor(epsilon=None).fit(X, replaced(Y, math.inf), task=TASK),
    "a huge target": lambda: tv.TaskRegressor(epsilon=None).fit(X, replaced(Y, 1e200), task=TASK),
    "a target in words": lambda: tv.TaskRegressor().fit(X, replaced(Y, "much"), task=TASK),
    "a complex target": lambda: tv.TaskRegressor().fit(X, Y * 1j, task=TASK),
    "a target of objects": lambda: tv.TaskRegressor().fit(X, replaced(Y, object()), task=TASK),
    "numbers for a classifier": lambda: tv.TaskClassifier().fit(X, Y, task=TASK),
    "rows of NaN": lambda: tv.TaskRegressor(epsilon=None).fit(replaced(X, math.nan), Y, task=TASK),
    "rows of infinity": lambda: tv.TaskRegressor(epsilon=None).fit(replaced(X, math.inf), Y, task=TASK),
    "huge rows": lambda: tv.TaskRegressor(epsilon=None).fit(replaced(X, 1e200), Y, task=TASK),
    "rows of words": lambda: tv.TaskRegressor().fit(replaced(X, "a"), Y, task=TASK),
    "rows of objects": lambda: tv.TaskRegressor().fit(replaced(X, object()), Y, task=TASK),
    "rows of None": lambda: tv.TaskRegressor(epsilon=None).fit(replaced(X, None), Y, task=TASK),
    "rows of lists": lambda: tv.TaskRegressor().fit([[1, 2], [3]], [1, 2], task=[0, 1]),
    "rows of dates": lambda: tv.TaskRegressor().fit(X.astype("datetime64[s]"), Y, task=TASK),
    "complex rows": lambda: tv.TaskRegressor().fit(X * 1j, Y, task=TASK),
    "one column": lambda: tv.TaskRegressor().fit(X[:, 0], Y, task=TASK),
    "no columns": lambda: tv.TaskRegressor().fit(X[:, :0], Y, task=TASK),
    "no rows": lambda: tv.TaskRegressor().fit(X[:0], Y[:0], task=TASK[:0]),
    "a number for X": lambda: tv.TaskRegressor().fit(3, Y, task=TASK),
    "a text for X": lambda: tv.TaskRegressor().fit("school.csv", Y, task=TASK),
    "None for X": lambda: tv.TaskRegressor().fit(None, Y, task=TASK),
    "a wrong task column": lambda: tv.TaskRegressor(task_column=99).fit(X, Y),
    "a task column in words": lambda: tv.TaskRegressor(task_column="site").fit(X, Y),
    "sample weights of a row too few": lambda: tv.TaskRegressor().fit(X, Y, task=TASK, sample_weight=np.ones(59)),
    "bounds that are a number": lambda: tv.TaskRegressor(bounds=3).fit(X, Y, task=TASK),
    "bounds without width": lambda: tv.TaskRegressor(bounds=(1, 1)).fit(X, Y, task=TASK),
    "bounds upside down": lambda: tv.TaskRegressor(bounds=(1, -1)).fit(X, Y, task=TASK),
    "bounds of NaN": lambda: tv.TaskRegressor(bounds=(math.nan, 1)).fit(X, Y, task=TASK),
    "bounds of infinity": lambda: tv.TaskRegressor(bounds=(-math.inf, 1)).fit(X, Y, task=TASK),
    "bounds of text": lambda: tv.TaskRegressor(bounds={"features": {"*": "01"}}).fit(X, Y, task=TASK),
    "bounds of truth": lambda: PublicBounds({"a": (False, True)}),
    "bounds too wide": lambda: PublicBounds({"a": (-1e300, 1e300)}),
    "deep bounds": lambda: PublicBounds.from_dict({"features": {"a": DEEP}}),
    "levels that are lists": lambda: PublicBounds.from_dict({"levels": {"a": [["x"], ["y"]]}}),
    "classes that are one text": lambda: PublicBounds.from_dict({"classes": "no"}),
    "classes that are a number": lambda: PublicBounds.from_dict({"classes": 3}),
    "bounds of an unknown kind": lambda: PublicBounds.from_dict({"magic": 1}),
    "a file that is not there": lambda: tv.load_tasks("nowhere.csv", task="a", target="b"),
    "a model that is not there": lambda: tv.load("nowhere"),
    "a dict with short pairs": lambda: tv.TaskRegressor().fit({"a": (X,)}),
    "a dict with unequal columns": lambda: tv.TaskRegressor().fit({"a": (X, Y), "b": (X[:, :2], Y)}),
    "an empty dict": lambda: tv.TaskRegressor().fit({}),
    "a dict of nothing": lambda: tv.TaskRegressor(epsilon=None).fit({"a": (None, None)}),
    "a method that is an array": lambda: tv.TaskRegressor(method=np.ones(3)).fit(X, Y, task=TASK),
    "a method that is a table": lambda: tv.TaskRegressor(method=pd.DataFrame({"a": [1]})).fit(X, Y, task=TASK),
    "a method name of a page": lambda: tv.methods.get("x" * 20_000),
    "a method that cannot be hashed": lambda: tv.methods.get(["mean"]),
    "a client without dask": lambda: tv.TaskRegressor(client=3).fit(X, Y, task=TASK),
    "a person that is one number": lambda: tv.TaskRegressor(person=3).fit(X, Y, task=TASK),
    "persons in a set": lambda: tv.TaskRegressor(person={1, 2}).fit(X, Y, task=TASK),
    "bounds of bytes": lambda: tv.TaskRegressor(bounds=b"ab").fit(X, Y, task=TASK),
    "a prior with a name of a page": lambda: tv.TaskRegressor("mean", prior="x" * 20_000).fit(X, Y, task=TASK),
    "a prior on two lines": lambda: tv.TaskRegressor("mean", prior="a\nb").fit(X, Y, task=TASK),
    "features in a generator": lambda: tv.load_tasks((X, Y, TASK), features=(c for c in "ab")),
    "features that are no names": lambda: tv.load_tasks((X, Y, TASK), features=[[1]]),
    "text in a column that is not there": lambda: tv.load_tasks(pd.DataFrame({"task": [1], "y": [1.5], "a": [2.0]}), text=["b"]),
    "a source with a name of a page": lambda: tv.load_tasks("x" * 20_000),
    "parts of a number": lambda: tv.split_rows(3, 0.5, 0),
    "a group that is a number": lambda: tv.split_rows(TASKS, 0.5, 0, group=3),
    "folds of a column that is not there": lambda: list(tv.TaskKFold(2, task_column=9).split(X)),
    "folds of a column in words": lambda: list(tv.TaskKFold(2, task_column="a").split(X)),
    "folds of fewer tasks than rows": lambda: list(tv.TaskKFold(2).split(X, Y, groups=TASK[:3])),
    "made-up data upside down": lambda: tv.get_synthetic("hospitals", min_rows=9, max_rows=3),
    "made-up data of terabytes": lambda: tv.get_synthetic("tiny", n_tasks=1_000_000, n_train=1_000_000),
    "made-up data with a negative seed": lambda: tv.get_synthetic("tiny", seed=-1),
    "made-up data without a name": lambda: tv.get_synthetic(3),
    "bounds whose features are a list": lambda: PublicBounds(features=[1, 2]),
    "bounds whose levels are a number": lambda: PublicBounds(levels=3),
    "bounds from a number": lambda: PublicBounds.from_dict(3),
    "classes of bytes": lambda: PublicBounds(classes=b"ab"),
    "tasks of an unknown kind": lambda: tv.TaskSet.from_arrays(X, Y, TASK, kind="magic"),
    "tasks with a number for names": lambda: tv.TaskSet.from_arrays(X, Y, TASK, feature_names=3),
    "tasks with a number for bounds": lambda: tv.TaskSet.from_arrays(X, Y, TASK, bounds=3),
    "tasks with one person": lambda: tv.TaskSet.from_arrays(X, Y, TASK, person=3),
    "bounds looked at by a number": lambda: PublicBounds(looked_at=3),
    "a range without a length": lambda: PublicBounds(target=np.array(3.0)),
    "classes in a table": lambda: PublicBounds(classes=X),
    "labels of tables": lambda: tv.TaskClassifier("mean", epsilon=1.0).fit(X, np.array([{}] * 60, dtype=object), task=TASK),
    "an audit of a number": lambda: tv.audit(3),
    "an audit of a class": lambda: tv.audit(tv.TaskRegressor),
    "a ledger of a number": lambda: Book(3),
    "a ledger of lists": lambda: tv.TaskRegressor("mean", epsilon=1.0, ledger=DEEP, account="a").fit(X, Y, task=TASK),
    "a ledger in memory": lambda: Book("sqlite://"),
    "one weight that is no number": lambda: tv.TaskRegressor("mean", epsilon=1.0).fit(X, Y, task=TASK, sample_weight=math.nan),
    "one weight below zero": lambda: tv.TaskRegressor("mean", epsilon=1.0).fit(X, Y, task=TASK, sample_weight=-1),
    "a certificate from a number": lambda: tv.Certificate.from_json(3),
    "masked rows": lambda: tv.TaskRegressor(epsilon=None).fit(np.ma.masked_array(X, X > 1), Y, task=TASK),
    "one target for all rows": lambda: tv.TaskRegressor(epsilon=None).fit(X, 3.0, task=TASK),
    "targets in a set": lambda: tv.TaskClassifier(epsilon=None).fit(X, set(range(60)), task=TASK),
    "targets beyond floats": lambda: tv.TaskRegressor(epsilon=None).fit(X, [10**400] * 60, task=TASK),
    "masked tasks": lambda: tv.TaskRegressor(epsilon=None).fit(X, Y, task=np.ma.masked_array(TASK, TASK > 3)),
    "whole numbers beyond floats": lambda: tv.TaskRegressor(epsilon=None).fit(np.full((60, 3), 10**400), Y, task=TASK),
    "weights of a class below zero": lambda: tv.TaskClassifier(epsilon=None, class_weight={0: -1}).fit(X, TASK % 2, task=TASK),
    "weights of a class in an array": lambda: tv.TaskClassifier(epsilon=None, class_weight=X).fit(X, TASK % 2, task=TASK),
}


@pytest.mark.parametrize("case", CALLS)
def test_a_call_that_makes_no_sense_is_refused_in_one_line(case):
    refused(CALLS[case])


@pytest.fixture(scope="module")
def fitted() -> Any:
    return tv.TaskRegressor("mean", epsilon=1.0).fit(X, Y, task=TASK)


PREDICTIONS = {
    "an unknown task": (X, np.full(60, 77)),
    "too few tasks": (X, TASK[:-1]),
    "no task": (X, None),
    "too few columns": (X[:, :2], TASK),
    "too many columns": (np.c_[X, X], TASK),
    "one column": (X[:, 0], TASK),
    "NaN": (replaced(X, math.nan), TASK),
    "infinity": (replaced(X, math.inf), TASK),
    "words": (replaced(X, "a"), TASK),
    "objects": (replaced(X, object()), TASK),
    "ragged rows": ([[1, 2], [3]], [0, 1]),
    "nothing": (None, TASK),
    "a task of lists": (X, [[t] for t in TASK]),
    "durations": (X.astype("timedelta64[s]"), TASK),
    "a sparse table": (scipy.sparse.csr_matrix(X), TASK),
    "a number": (np.array(3.0), TASK),
    "whole numbers beyond floats": (np.full((60, 3), 10**400), TASK),
}


WRONG_TARGETS = {
    "complex": Y * 1j, "two columns": np.c_[Y, Y], "text": ["a"] * 60, "one": 3.0, "infinite": np.full(60, np.inf),
    "beyond floats": [10**400] * 60, "dates": Y.astype("datetime64[s]"), "bytes": b"ab",
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG_TARGETS)
def test_score_refuses_targets_that_cannot_be_compared_and_shows_none_of_them(case, fitted):
    """Scikit-learn's own words, which were passed on, print the targets."""
    assert "0.5" not in refused(lambda: fitted.score(X, WRONG_TARGETS[case], task=TASK))


WEIGHTS = {
    "one": math.nan,
    "text": "x",
    "few": [1, 2],
    "NaN": Y * math.nan,
    "table": X,
    "objects": [{}] * 60,
    "negative": -np.ones(60),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_score_refuses_weights_that_are_none(case, fitted):
    refused(lambda: fitted.score(X, Y, task=TASK, sample_weight=WEIGHTS[case]))


def test_masked_cells_are_missing_ones():
    """NumPy drops the mask, so that what was hidden was learnt from."""
    mask = np.arange(60) % 7 == 0
    masked, emptied = np.ma.masked_array(Y, mask), np.where(mask, np.nan, Y)
    made = [tv.TaskRegressor("mean", epsilon=None).fit(X, y, task=TASK).coef_ for y in (masked, emptied)]
    assert np.array_equal(*made)


@pytest.mark.filterwarnings("ignore:score failed")
@pytest.mark.parametrize("case", PREDICTIONS)
def test_predict_refuses_rows_that_do_not_fit(case, fitted):
    refused(lambda: fitted.predict(PREDICTIONS[case][0], task=PREDICTIONS[case][1]))
    refused(lambda: fitted.score(PREDICTIONS[case][0], Y, task=PREDICTIONS[case][1]))
