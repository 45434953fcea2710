"""What every registered method must do, whatever it computes."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from tests.support.small import related_tasks

from taskveil import methods
from taskveil.errors import OptionError
from taskveil.estimators import TaskClassifier, TaskRegressor
from taskveil.estimators.storage import load
from taskveil.runtime.in_process import replay

NAMES = [n for n in methods.names() if methods.get(n).linear]
PRIVATE = [n for n in NAMES if not methods.get(n).shares_nothing]


def regressor(name: str, **options) -> TaskRegressor:
    method = methods.get(name)
    kind = TaskRegressor if "regression" in method.kinds else TaskClassifier
    unit = method.units[0]
    return kind(method=method, unit=unit, **{"insecure_noise_seed": 3, "delta": 1e-3, **options})


def data_for(name: str, **options):
    kind = "regression" if "regression" in methods.get(name).kinds else "classification"
    return related_tasks(kind=kind, **options)


@cache
def private_run(name: str) -> TaskRegressor:
    """Fitted once for all tests that only look at it."""
    return regressor(name, epsilon=2.0).fit(data_for(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_method_trains_and_predicts_without_privacy(name):
    tasks = data_for(name, n_tasks=6)
    est = regressor(name, epsilon=None, insecure_noise_seed=None).fit(tasks)
    assert np.isfinite(est.coef_).all()
    assert est.predict(tasks).shape == (tasks.n_rows,)
    if not methods.get(name).shares_nothing:
        assert est.certificate_.statements == ()
        assert any("without noise" in text for text in est.certificate_.not_protected)


@pytest.mark.parametrize("name", PRIVATE)
def test_what_was_executed_is_what_was_planned(name):
    est = private_run(name)
    assert [p.id for p in est.record_.executed] == [p.id for p in est.record_.plan.releases]


@pytest.mark.parametrize("name", PRIVATE)
def test_a_sound_run_with_real_randomness_has_a_certificate_that_verifies(name):
    est = regressor(name, epsilon=2.0, insecure_noise_seed=None).fit(data_for(name))
    assert est.certificate_.holds, str(est.certificate_)
    est.certificate_.verify().require()
    assert est.certificate_.statements[0].epsilon <= 2.0 * (1 + 1e-9)


@pytest.mark.parametrize("name", PRIVATE)
def test_seeded_noise_voids_the_certificate(name):
    assert not private_run(name).certificate_.holds


@pytest.mark.parametrize("name", PRIVATE)
def test_the_same_noise_seed_gives_the_same_models(name):
    again = regressor(name, epsilon=2.0).fit(data_for(name))
    np.testing.assert_array_equal(private_run(name).coef_, again.coef_)


@pytest.mark.parametrize("name", PRIVATE)
def test_the_plan_depends_on_public_sizes_only(name):
    """Other rows, same sizes: the same plan to the last digit."""
    plans = [regressor(name, epsilon=2.0).fit(data_for(name, seed=s, rows=(10, 10))).record_.plan for s in (0, 1)]
    assert plans[0].to_dict() == plans[1].to_dict()


@pytest.mark.parametrize("name", [n for n in NAMES if methods.get(n).schedule == "synchronous"])
def test_a_block_of_tasks_equals_its_tasks_one_by_one(name):
    est = private_run(name)
    record, method = est.record_, est.method_
    block = est._training
    whole = replay(method, block, record.public, record.plan, record.billboards)
    if any(board.per_task for board in record.billboards):
        pytest.skip("billboards of this method address single tasks")
    for i in (0, 5):
        alone = replay(method, block.take([i]), record.public, record.plan, record.billboards)
        np.testing.assert_allclose(alone.coef[0], whole.coef[i], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_model_predicts_the_same(name, tmp_path):
    tasks = data_for(name)
    est = regressor(name, epsilon=2.0).fit(tasks)
    est.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(est.predict(tasks), again.predict(tasks))
    assert replace(again.certificate_, seal=None) == replace(est.certificate_, seal=None)


@pytest.mark.parametrize("name", [n for n in NAMES if "classification" in methods.get(n).kinds])
@pytest.mark.parametrize("classes", [2, 3])
def test_a_method_classifies(name, classes):
    tasks = related_tasks(n_tasks=6, kind="classification", classes=classes, rows=(15, 25))
    est = TaskClassifier(methods.get(name), unit=methods.get(name).units[0], epsilon=None).fit(tasks)
    proba = est.predict_proba(tasks)
    assert proba.shape == (tasks.n_rows, classes)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert est.score(tasks) > 1.0 / classes


@pytest.mark.parametrize("name", NAMES)
def test_one_row_one_class_and_constant_columns_are_normal(name):
    tasks = data_for(name, rows=(1, 6))
    X = tasks.X.copy()
    X[:, 0] = 1.0
    ids = np.repeat(np.asarray(tasks.task_names), tasks.sizes)
    est = regressor(name, epsilon=1.0).fit(X, np.asarray(tasks.y), task=ids)
    assert np.isfinite(est.predict(X, task=ids) if tasks.kind == "regression" else est.decision_function(X, task=ids)).all()
    assert any("constant" in text for text in est.warnings_)


@pytest.mark.parametrize("name", PRIVATE)
def test_a_unit_the_method_does_not_protect_is_refused_before_any_release(name):
    wrong = [u for u in ("record", "task") if u not in methods.get(name).units]
    if not wrong:
        pytest.skip("protects both units")
    with pytest.raises(OptionError, match="protects"):
        regressor(name, epsilon=1.0).set_params(unit=wrong[0]).fit(data_for(name))


@pytest.mark.parametrize("name", ["low-rank", "relationship", "frank-wolfe", "fixed-relationship"])
def test_a_feature_that_a_task_does_not_have_is_nothing_in_what_it_sends(name):
    """Equation 1 of the papers lets tasks differ in features: a constant stands for what is not there."""
    tasks = data_for(name)
    X = tasks.X.copy()
    lacks = tasks.task_of_row() < 4
    X[lacks, 2] = 0.0
    est = regressor(name, epsilon=2.0).fit(replace(tasks, X=X))
    side = est.method_.task_side(est._training, est.record_.public, est.record_.plan)
    _, message = side.step(side.start(), est.record_.billboards[0].view(None))
    (sent,) = message.values()
    most = np.abs(sent[..., 2]).reshape(len(sent), -1).max(axis=1)
    assert np.all(most[:4] < 1e-12) and np.all(most[4:] > 1e-6)
