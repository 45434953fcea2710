"""One assembly of a run: estimator, `plan` and federation mean the same run by the same options."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from click.testing import CliRunner
from tests.support.small import related_tasks

import taskveil as tv
from taskveil import methods
from taskveil.cli.main import main
from taskveil.errors import OptionError
from taskveil.methods.base import PublicInfo
from taskveil.runtime.federation.config import Federation, Member
from taskveil.runtime.run import assemble, budget_for


def federation(method: str, tasks, **run) -> Federation:
    members = tuple(Member(n, (n,), "", (int(k),)) for n, k in zip(tasks.task_names, tasks.sizes, strict=True))
    data = {"kind": "regression", "features": list(tasks.feature_names)}
    if run.get("unit") == "record":
        data["bounds"] = {"features": [-4.0, 4.0], "target": [-9.0, 9.0]}
    return Federation("", "f", "", 0, data, {"method": method, **run}, members)


@pytest.mark.parametrize("method", ["mean", "subspace", "async"])
@pytest.mark.parametrize("aggregation", ["curator", "local"])
def test_an_estimator_and_a_federation_plan_the_same_run(method, aggregation):
    tasks = related_tasks()
    est = tv.TaskRegressor(method, epsilon=2.0, aggregation=aggregation, scaling="own").fit(tasks)
    plan = federation(method, tasks, epsilon=2.0, aggregation=aggregation).plan()
    assert est.record_.plan == plan


def test_the_delta_left_out_is_the_same_everywhere():
    tasks = related_tasks()
    rows = int(tasks.sizes.sum())
    for unit, method in (("task", "mean"), ("record", "mean")):
        there = federation(method, tasks, epsilon=1.0, unit=unit).budget().delta
        assert there == budget_for(tasks.n_tasks, rows, epsilon=1.0, unit=unit).delta
        assert there == tv.TaskRegressor(method, unit=unit)._budget(tasks).delta


def test_plan_speaks_of_the_budget_as_the_method_spends_it():
    """Old fault: `plan` left out what `async` does to its budget, and said that its server sees messages without noise."""
    asked = ["plan", "--tasks", "20", "--features", "5", "--epsilon", "1", "--method", "async", "--json"]
    said = CliRunner().invoke(main, asked)
    assert said.exit_code == 0 and json.loads(said.stdout)["observer"] == "server"


def test_a_run_is_adjusted_once():
    """The paper's epsilon of `async` is per message: adjusting a budget twice would multiply it twice."""
    method, public = methods.get("async", rounds=3), PublicInfo(5, 4, 1, "regression")
    asked = replace(budget_for(5, 100, epsilon=0.5), variant="paper")
    assert assemble(method, public, asked).budget == method.under("task", "paper").adjust(asked) != asked


def test_a_prior_is_refused_by_a_method_that_weighs_none_before_it_is_read():
    def unread(public):
        raise AssertionError("the prior was read")

    with pytest.raises(OptionError, match="weighs no prior"):
        assemble(methods.get("pooled"), PublicInfo(5, 4, 1, "regression"), budget_for(5, 100, epsilon=1.0), prior=unread)
