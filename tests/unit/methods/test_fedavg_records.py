"""fedavg with unit="record": rows are clipped one by one, and the certificate speaks of rows."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.errors import OptionError

TASKS = related_tasks(n_tasks=12, rows=(8, 12), n_features=4)


def fitted(**options):
    method = tv.methods.get("fedavg", **options)
    return tv.TaskRegressor(method, epsilon=1.0, delta=1e-6, unit="record", insecure_noise_seed=3).fit(TASKS)


def test_the_certificate_speaks_of_records():
    (statement,) = fitted(rounds=5).certificate_.statements
    assert (str(statement.unit), statement.epsilon) == ("record", 1.0)
    assert fitted(rounds=5).record_.plan.releases[0].contribution.unit.value == "record"


def test_it_is_the_shared_model_of_mean_with_unit_record():
    """One local step: averaging models is averaging gradients."""
    ours = fitted(rounds=5, personalise="none")
    other = tv.TaskRegressor(tv.methods.get("mean", rounds=5, personalise=False), epsilon=1.0, delta=1e-6, unit="record",
                             insecure_noise_seed=3).fit(TASKS)  # fmt: skip
    np.testing.assert_allclose(ours.coef_, other.coef_, rtol=1e-12)
    assert np.ptp(ours.coef_, axis=0).max() < 1e-9  # one model for all


def test_it_is_saved_and_loaded(tmp_path):
    est = fitted(rounds=2)
    est.save(tmp_path / "model")
    again = tv.load(tmp_path / "model")
    np.testing.assert_array_equal(again.coef_, est.coef_)
    assert again.method_.name == "fedavg" and again.method_.units == ("record",)


def test_other_models_than_linear_ones_are_refused():
    with pytest.raises(OptionError, match="linear model"):
        fitted(model="cnn")
