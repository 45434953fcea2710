"""The example scripts run, and say what their first lines promise."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import taskveil as tv

EXAMPLES = Path(__file__).parents[2] / "examples"


def script(name: str):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_hospitals_gain_and_write_three_pages(tmp_path, capsys):
    errors = script("hospitals").main(tmp_path)
    assert errors["subspace 5.0"] < errors["local None"]
    assert len(list(tmp_path.glob("report*.html"))) == 3
    assert "late hospital" in capsys.readouterr().out


def test_schools_are_refused_in_the_third_year(tmp_path):
    said = script("schools").main(tmp_path, tv.get_synthetic("tiny", seed=0, n_train=20).train)
    assert ["trained" in line for line in said] == [True, True, False]
    assert "refused" in said[2]


def test_phones_protect_the_row(capsys):
    phones = script("phones")
    est = phones.main(phones.made_up())
    assert {s.unit for s in est.certificate_.statements} == {"record"} and est.certificate_.verify()
