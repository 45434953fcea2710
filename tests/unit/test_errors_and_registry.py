"""Errors carry exit codes; tables refuse duplicates and list what they know."""

from __future__ import annotations

import pytest

from taskveil import errors
from taskveil.registry import Table

CODES = {
    "TaskveilError": 1, "CheckFailed": 1, "InputError": 2, "DataError": 2, "OptionError": 2, "UnknownName": 2,
    "BudgetExceeded": 3, "EnvironmentMissing": 4, "LedgerUnavailable": 4,
}  # fmt: skip


@pytest.mark.parametrize("name", CODES)
def test_every_error_has_its_exit_code(name):
    assert getattr(errors, name).exit_code == CODES[name]
    assert issubclass(getattr(errors, name), errors.TaskveilError)


def test_input_errors_are_value_errors():
    assert issubclass(errors.DataError, ValueError) and not issubclass(errors.BudgetExceeded, ValueError)


def test_a_table_refuses_a_name_that_is_taken():
    table = Table("loss")
    table.add("squared", 1)
    with pytest.raises(ValueError, match="already registered"):
        table.add("squared", 2)


def test_an_unknown_name_lists_the_known_ones_and_a_near_one():
    table = Table("loss")
    table.add("squared", 1)
    table.add("logistic", 2)
    with pytest.raises(errors.UnknownName, match=r"unknown loss 'sqared': expected one of logistic, squared; did you mean"):
        table.get("sqared")
    assert table.names() == ["logistic", "squared"] and "squared" in table and len(table) == 2
