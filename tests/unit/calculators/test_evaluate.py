"""Theorems by name, as a plan asks for them."""

import json

import pytest

from taskveil.calculators import evaluate, names
from taskveil.errors import OptionError, UnknownName

SIZES = {"n_tasks": 320, "n_features": 30, "epsilon": 1.0, "delta": 1e-3}


def test_all_theorems_answer_with_number_and_caveat_in_json():
    answers = evaluate(["all"], **SIZES, rows=30)
    said = json.loads(json.dumps(answers, allow_nan=False))
    for number in range(2, 17):
        assert any(a["theorem"] == f"MP-MTL Theorem {number}" for a in said)
    assert {"MP-MTL Proposition 3", "MP-MTL Table 2", "PMTL Theorem 1", "PMTL Theorem 5"} <= {a["theorem"] for a in said}
    assert all(a["caveat"] and a["values"] and a["name"].startswith(a["theorem"]) for a in said)


@pytest.mark.parametrize("name", ["2", "mp-mtl-2"])
def test_a_theorem_answers_with_and_without_acceleration(name):
    plain, fast = evaluate([name], **SIZES)
    assert "no acceleration" in plain["name"] and "accelerated" in fast["name"]
    assert plain["values"]["phi"] == pytest.approx(0.4)


def test_every_listed_name_can_be_asked():
    for name in names():
        assert evaluate([name], **SIZES, rows=30, rounds=10)


def test_prop_3_needs_the_rows_of_a_task():
    (answer,) = evaluate(["prop-3"], **SIZES, rows=30)
    assert answer["values"]["record_epsilon"] == pytest.approx(1 / 30)
    with pytest.raises(OptionError, match="--rows"):
        evaluate(["prop-3"], **SIZES)
    assert not any("Proposition" in a["theorem"] for a in evaluate(["all"], **SIZES))


def test_unknown_names_and_missing_budgets_are_refused():
    with pytest.raises(UnknownName, match="unknown theorem '17'"):
        evaluate(["17"], **SIZES)
    with pytest.raises(OptionError, match="need a privacy budget"):
        evaluate(["2"], **{**SIZES, "epsilon": None})
