"""Replace one raw row: at most one encoded row changes, one summand of each message, and nothing else.

The law: docs/theory/preparation.md#isolation-record.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.laws import Setup, few, kinds_of, long, record_law
from tests.support.raw_tables import SIZES, bounds, raw_table, replace_row

from taskveil import methods

METHODS = [name for name in methods.names() if "record" in methods.get(name).units]
CASES = [(name, kind) for name in METHODS for kind in kinds_of(name)]
ROWS = ["other rows", "tiny", "huge", "huge cell"]
DRAWN = {
    "sizes": SIZES, "seed": st.integers(0, 2**16), "scaling": st.sampled_from(["declared", "normalised"]),
    "place": st.integers(0, 2**16), "how": st.sampled_from(ROWS),
}  # fmt: skip


def holds(method, kind, sizes, seed, scaling, place, how, **loading):
    options = {"normalise": "row"} if scaling == "normalised" else {}
    table = raw_table(kind, sizes, seed)
    position = place % len(table)
    setup = Setup(method, kind, "record", {"bounds": bounds(kind), **loading}, options)
    found = record_law(setup, table, replace_row(table, kind, position, how, seed), position)
    assert not found, f"{len(found)} things moved with one row: {found[:5]}"


@pytest.mark.parametrize(("method", "kind"), CASES)
@few
@given(**DRAWN)
def test_replacing_a_row_moves_one_encoded_row_and_one_summand(method, kind, sizes, seed, scaling, place, how):
    holds(method, kind, sizes, seed, scaling, place, how)


@pytest.mark.parametrize("how", ["huge", "huge cell"])
@pytest.mark.parametrize("method", ["together", "mean"])
def test_units_that_were_bought_move_one_encoded_row_and_one_summand(method, how):
    table = raw_table("regression", [6, 5, 4, 3], 1)
    options = {"scaling": "private", "epsilon": 1e4}  # at which so few rows can afford them
    setup = Setup(method, "regression", "record", {"bounds": bounds("regression")}, options)
    assert any("message common" in name for name in setup.trace(table).parts)
    assert not record_law(setup, table, replace_row(table, "regression", 2, how, 1), 2)


@pytest.mark.audit
@pytest.mark.parametrize(("method", "kind"), CASES)
@long
@given(**DRAWN)
def test_replacing_a_row_moves_one_encoded_row_and_one_summand_long(method, kind, sizes, seed, scaling, place, how):
    holds(method, kind, sizes, seed, scaling, place, how)


@pytest.mark.parametrize("missing", ["impute-bounds", "impute-own", "drop"])
def test_a_missing_cell_moves_one_encoded_row_or_is_refused(missing):
    """A way to fill that reads other rows, or drops this one, is refused before anything is released."""
    table = raw_table("regression", [6, 5, 4, 3], 1)
    table.loc[0, "a"] = np.nan
    changed = table.copy()
    changed.loc[1, ["a", "b"]] = [np.nan, 1.0]
    setup = Setup("mean", "regression", "record", {"bounds": bounds("regression"), "missing": missing})
    assert not record_law(setup, table, changed, 1)


def test_a_target_without_a_declared_range_is_refused_or_used_as_it_comes():
    """Own statistics of the target would carry one row into every message."""
    declared = {"features": bounds("regression")["features"]}
    table = raw_table("regression", [6, 5, 4, 3], 1)
    setup = Setup("mean", "regression", "record", {"bounds": declared})
    assert not record_law(setup, table, replace_row(table, "regression", 2, "huge", 1), 2)
