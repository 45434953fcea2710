"""`auto` means the same in Python, fit, plan and compare, and what plan advises can be planned."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner
from tests.support.small import related_tasks

import taskveil as tv
from taskveil.cli.compare import command as compare
from taskveil.cli.fit import command as fit
from taskveil.cli.plan import command as plan


def ran(command, *options: object) -> tuple[dict, str]:
    result = CliRunner().invoke(command, [*map(str, options), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout), result.stderr


@pytest.mark.parametrize(("n_tasks", "expected"), [(8, "mean"), (40, "together")])
def test_auto_of_the_estimator_is_auto_of_the_command_line(n_tasks, expected):
    est = tv.TaskRegressor(method="auto", insecure_noise_seed=0).fit(related_tasks(n_tasks=n_tasks, rows=(6, 8)))
    planned, why = ran(plan, "--tasks", n_tasks, "--features", 5, "--epsilon", 1, "--method", "auto")
    assert est.method_.name == planned["method"] == expected
    assert "public sizes" in why


def test_auto_protects_records_where_records_are_the_unit():
    tasks = related_tasks(n_tasks=40, rows=(6, 8))
    bounds = {"features": {n: [-4, 4] for n in tasks.feature_names}, "target": [-20, 20]}
    assert tv.TaskRegressor("auto", unit="record", bounds=bounds, insecure_noise_seed=0).fit(tasks).method_.name == "together"


def test_what_plan_advises_for_few_tasks_can_be_planned():
    few, _ = ran(plan, "--tasks", 6, "--features", 10, "--epsilon", 1)
    assert any("--unit record" in text for text in few["advice"])
    rows, said = ran(plan, "--tasks", 6, "--features", 10, "--epsilon", 1, "--unit", "record")
    assert rows["unit"] == "record" and "rows per task are assumed" in said
    more, _ = ran(plan, "--tasks", 6, "--features", 10, "--epsilon", 1, "--unit", "record", "--rows", 1000)
    assert more["noise_to_signal"] < rows["noise_to_signal"] / 5


def test_compare_takes_auto():
    found, why = ran(compare, "synthetic:tiny", "--methods", "auto", "--epsilons", "1", "--repeats", 1)
    assert "together" in {r["method"] for r in found["results"]} and "public sizes" in why


def test_the_outlook_stands_before_the_result():
    shown = CliRunner().invoke(fit, ["synthetic:tiny", "--method", "mean", "--epsilon", "0.01"]).stdout
    assert 0 <= shown.index("outlook from public sizes") < shown.index("Method mean")
