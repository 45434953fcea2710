"""Every method, audited as a user configures it: from the raw table, all canaries, several hundred runs.

Isolation compares bits and has no false alarms; a verdict by counting is wrong with probability at most 1e-6 per audit. The twins
with planted faults stand in tests/unit/audits/test_configured.py.
"""

from __future__ import annotations

import numpy as np
import pytest
import sklearn

import taskveil as tv
from taskveil.methods import record_methods

pytestmark = [pytest.mark.statistical, pytest.mark.audit, pytest.mark.timeout(1800)]

RANGES = {"features": {"*": [-1.0, 1.0]}, "target": [-2.0, 2.0]}
LABELS = {"features": {"*": [-1.0, 1.0]}, "classes": ["no", "yes"]}
CLUSTERS = {"clustered-mean": {"clusters": [0, 0, 1, 1, 1]}}  # one public label per task
SENDING = [name for name in tv.methods.names() if name != "local"]


def table(classification):
    rng = np.random.default_rng(0)
    X = rng.uniform(-1.0, 1.0, (200, 3))
    y = X @ [1.0, 0.5, -0.5] + 0.1 * rng.standard_normal(200)
    return X, np.where(y > 0, "yes", "no") if classification else y, np.repeat([f"t{i}" for i in range(5)], 40)


def estimator(name, kind, **options):
    method = tv.methods.get(name, **CLUSTERS.get(name, {}))
    if {"TaskRegressor": "regression", "TaskClassifier": "classification"}[kind] not in method.kinds:
        pytest.skip(f"{name} has no {kind}")
    return getattr(tv, kind)(method, epsilon=1.0, **options)


@pytest.mark.parametrize("kind", ["TaskRegressor", "TaskClassifier"])
@pytest.mark.parametrize("name", SENDING)
def test_a_task_is_isolated_and_its_bound_consistent(name, kind):
    found = tv.audit(estimator(name, kind), table(kind == "TaskClassifier"), trials=200, seed=1, jobs=2)
    assert found.leaks == [] and found.verdict == "consistent"


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("kind", ["TaskRegressor", "TaskClassifier"])
@pytest.mark.parametrize("name", record_methods())
def test_a_record_is_isolated_and_its_bound_consistent(name, kind, neighbours):
    labels = kind == "TaskClassifier"
    est = estimator(name, kind, unit="record", neighbours=neighbours, bounds=LABELS if labels else RANGES)
    found = tv.audit(est, table(labels), trials=200, seed=1, jobs=2)
    assert found.leaks == [] and found.verdict == "consistent"


@pytest.mark.parametrize("neighbours", ["replace-one", "add-remove"])
@pytest.mark.parametrize("kind", ["TaskRegressor", "TaskClassifier"])
def test_all_that_the_default_can_buy_is_audited_where_rows_are_protected(kind, neighbours):
    """By itself it buys the level alone from so few rows; two rounds of scores and a large delta pay for everything."""
    labels = kind == "TaskClassifier"
    options = {"epsilon": 1.0, "delta": 0.05, "unit": "record", "neighbours": neighbours, "bounds": LABELS if labels else RANGES}
    est, data = getattr(tv, kind)(tv.methods.get("together", rounds=2), **options), table(labels)
    bought = {p.name for p in sklearn.base.clone(est).fit(*data).record_.plan.releases}
    assert bought == {"base", "centre", "lengths", "curvature", "score", "gain"} | ({"slopes"} if not labels else set())
    found = tv.audit(est, data, trials=300, seed=1)
    assert found.leaks == [] and found.verdict == "consistent"


def test_a_search_is_isolated():
    search = tv.TaskSearch(tv.TaskRegressor("mean", epsilon=1.0), {"method__rounds": [1, 2]}, mean_runs=2)
    assert tv.audit(search, table(False), trials=60, seed=1, jobs=2).verdict == "consistent"
