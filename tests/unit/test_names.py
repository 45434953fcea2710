"""Names as file names, and text as cells of a spreadsheet."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskveil.cli.predict import for_spreadsheets
from taskveil.names import file_name, spreadsheet_cell
from taskveil.report.audience import Audience

TRICKY = ["a/b", "a_b", "a b", "a\\b", "../b", "..", ".", "", "a\0b", "a\nb", "A/B", "x" * 300, "x" * 299, "é", "e", "a.b", "a:b"]


def test_names_that_look_alike_get_different_files():
    """'a/b' and 'a_b' shared one page."""
    tricky = [*TRICKY, *map(file_name, TRICKY)]
    assert len({file_name(n) for n in set(tricky)}) == len(set(tricky))
    pages = [Audience("owner", n).file_name() for n in ("a/b", "a_b")]
    assert pages[1] == "report-owner-a_b.html" and pages[0] != pages[1]


@given(st.text(max_size=200))
def test_a_file_name_stays_in_its_folder(name):
    made = file_name(name)
    assert made and len(made) <= 80 and made.isascii() and not set(made) & set("/\\:\0\n ") and not made.startswith((".", "-"))


FORMULAS = ["=cmd|' /C calc'!A0", "+1+cmd|x", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\uff1d1", "-", "=1"]


@pytest.mark.parametrize("text", FORMULAS)
def test_text_that_a_spreadsheet_would_run_is_quoted(text):
    assert spreadsheet_cell(text) == "'" + text


@pytest.mark.parametrize("value", ["north", "a=b", "-1", "+2.5e-3", "1", "", "'=1", -1, -2.5, np.int64(-3), None])
def test_other_text_and_numbers_stay(value):
    assert spreadsheet_cell(value) == value


def test_a_table_of_predictions_keeps_its_numbers():
    table = pd.DataFrame({"row": [0, 1], "task": ["=1+1", "b"], "prediction": [-1.5, 2.0], "=x": ["@a", "b"]})
    text = for_spreadsheets(table).to_csv(index=False)
    assert text == "row,task,prediction,'=x\n0,'=1+1,-1.5,'@a\n1,b,2.0,b\n"
