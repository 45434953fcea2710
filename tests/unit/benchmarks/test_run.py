"""The runner of benchmarks/: what it stores, and how it says that something could not be measured."""

import json
import sys
import types

import pytest
from benchmarks import core, run, timing, whole


@pytest.fixture
def toy(monkeypatch):
    module = types.ModuleType("benchmarks.toy")
    module.BENCHMARKS = {
        "kept": lambda repeats: timing.measured([2.0, 3.0, 4.0], at_least=2.5, peer="a loop"),
        "broken": lambda repeats: timing.measured([2.0], at_most=1.5),
        "absent": lambda repeats: timing.unavailable("no such part"),
        "raises": lambda repeats: 1 / 0,
    }
    monkeypatch.setitem(sys.modules, "benchmarks.toy", module)


def test_results_are_written_with_promise_and_verdict(toy, tmp_path, capsys):
    assert run.main(["toy", "--out", str(tmp_path), "--repeats", "1"]) == 0
    results = json.loads((tmp_path / "toy.json").read_text())["results"]
    assert results["kept"]["value"] == 3.0 and results["kept"]["holds"] is True
    assert results["broken"]["holds"] is False
    assert results["absent"] == {"value": None, "holds": None, "reason": "no such part"}
    assert "ZeroDivisionError" in results["raises"]["reason"]
    printed = capsys.readouterr().out
    assert "DOES NOT HOLD" in printed and "not measured: no such part" in printed
    assert "| kept | at least 2.5 | 3 | 2.5 to 3.5 |" in printed and "| broken | at most 1.5 | 2 |" in printed
    assert (tmp_path / "table.md").read_text().strip() in printed


def test_a_module_that_cannot_be_imported_is_reported(tmp_path):
    run.main(["missing_module", "--out", str(tmp_path)])
    results = json.loads((tmp_path / "missing_module.json").read_text())["results"]
    assert "cannot be imported" in results["missing_module"]["reason"]


def test_alternatives_take_turns():
    order = []
    timing.take_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 2)
    assert order == ["a", "b"] * 3  # one warm-up turn


def test_every_promise_of_the_readme_has_a_benchmark():
    readme = (core.__file__).replace("core.py", "README.md")
    with open(readme) as text:
        table = text.read()
    for name in (*core.BENCHMARKS, *whole.BENCHMARKS):
        assert f"`{name}`" in table
