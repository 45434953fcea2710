"""Every method that sends sums runs without a trusted curator, and its certificate says against whom it holds."""

import pytest
from tests.support.small import related_tasks

from taskveil import methods
from taskveil.errors import OptionError
from taskveil.estimators import TaskClassifier, TaskRegressor
from taskveil.privacy.plan import Budget

ROWS = (9, 15)  # clients of one compiled width
REGRESSION, CLASSES = (related_tasks(n_tasks=6, rows=ROWS, kind=kind) for kind in ("regression", "classification"))
FEW_ROUNDS = {"rounds": 2}


def chosen(name):
    options = methods.get(name).flat_options()
    return methods.get(name, **{k: v for k, v in FEW_ROUNDS.items() if k in options})


def fitted(name, **options):
    method = chosen(name)
    kind, tasks = (TaskRegressor, REGRESSION) if "regression" in method.kinds else (TaskClassifier, CLASSES)
    return kind(method, epsilon=2.0, delta=1e-5, aggregation="secure", seed=0, **options).fit(tasks)


def sends_sums(name):
    method = methods.get(name)
    private = "sound" in method.variants and not method.shares_nothing and "task" in method.units
    return private and method.schedule == "synchronous" and "secure" in method.aggregations


@pytest.mark.parametrize("name", [n for n in methods.names() if sends_sums(n)])
def test_a_method_that_sends_sums_runs_without_a_curator(name):
    try:
        est = fitted(name)
    except OptionError as error:
        pytest.skip(f"{name} needs other data: {error}")
    certificate = est.certificate_
    assert certificate.verify()
    assert {(s.observer, s.colluders) for s in certificate.statements} >= {("other-tasks", 1), ("server", 1)}
    assert all(entry["mechanism"]["name"] == "shared-gaussian" for entry in certificate.events)
    assert not any("sees every task" in text for text in certificate.not_protected)


@pytest.mark.parametrize("name", [n for n in methods.names() if not sends_sums(n)])
def test_other_methods_say_no_or_share_nothing(name):
    method = methods.get(name)
    if method.shares_nothing or "sound" not in method.variants:
        return
    budget = Budget(1.0, 1e-5, unit=method.units[0], aggregation="secure")
    assert "secure" not in method.aggregations or method.schedule == "asynchronous", budget
