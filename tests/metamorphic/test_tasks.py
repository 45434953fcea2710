"""Replace all rows of a task: with the billboards held fixed nobody else's numbers move, to the last bit.

The law: docs/theory/preparation.md#isolation-task.
"""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.support.isolation import differences
from tests.support.laws import NEEDED, Setup, few, kinds_of, long, task_law
from tests.support.raw_tables import REPLACEMENTS, SIZES, TASKS, bounds, raw_table, replace_task

from taskveil import methods

METHODS = [name for name in methods.names() if "task" in methods.get(name).units]
CASES = [(name, kind) for name in METHODS if methods.get(name).linear for kind in kinds_of(name)]
NEURAL = [name for name in METHODS if not methods.get(name).linear]
SCALING = st.sampled_from(["auto", "own", "none", "declared", "normalised"])
PLENTY = 1e6  # an epsilon at which four tasks can afford units in common
DRAWN = {
    "sizes": SIZES, "seed": st.integers(0, 2**16), "scaling": SCALING, "name": st.sampled_from(TASKS),
    "how": st.sampled_from(sorted(REPLACEMENTS)),
}  # fmt: skip


def holds(method, kind, sizes, seed, scaling, name, how):
    loading = {"bounds": bounds(kind)} if scaling == "declared" else {}
    options = {"normalise": "row"} if scaling == "normalised" else {"scaling": scaling}
    table = raw_table(kind, sizes, seed)
    changed = replace_task(table, kind, name, how, seed)
    if kind == "classification" and not loading:  # a label set that nobody declared is a listed assumption: it stays the same
        assume(set(table["target"]) == set(changed["target"]))
    found = task_law(Setup(method, kind, "task", loading, options), table, changed, name)
    assert not found, f"{len(found)} things of others moved: {found[:5]}"


@pytest.mark.parametrize(("method", "kind"), CASES)
@few
@given(**DRAWN)
def test_replacing_a_task_moves_no_bit_of_another(method, kind, sizes, seed, scaling, name, how):
    holds(method, kind, sizes, seed, scaling, name, how)


@pytest.mark.parametrize("how", ["huge", "one row", "constant"])
@pytest.mark.parametrize("method", ["together", "mean"])
def test_units_that_were_bought_carry_nothing_but_what_was_released(method, how):
    table = raw_table("regression", [5, 9, 6, 4], 5)
    setup = Setup(method, "regression", "task", options={"scaling": "private", "epsilon": PLENTY})
    assert any("message common" in name for name in setup.trace(table).parts)
    assert not task_law(setup, table, replace_task(table, "regression", "east", how, 5), "east")


@pytest.mark.parametrize("how", sorted(REPLACEMENTS))
def test_releases_that_follow_earlier_ones_carry_nothing_else(how, monkeypatch):
    """With a probe that stops nothing: both rounds are watched."""
    monkeypatch.setattr("taskveil.methods.probing.NO_DIRECTION", -1e9)
    monkeypatch.setitem(NEEDED, "subspace", {"spending": "adaptive"})
    setup, table = Setup("subspace", options={"scaling": "own"}), raw_table("regression", [5, 9, 6, 4], 5)
    assert sum("message moments" in name for name in setup.trace(table).parts) == 2
    assert not task_law(setup, table, replace_task(table, "regression", "east", how, 5), "east")


def test_what_the_default_method_sends_is_watched_in_units_of_tasks_own():
    """It is another object than the one asked for: a law that watches that one alone says nothing."""
    parts = Setup("together", options={"scaling": "own"}).trace(raw_table("regression", [5, 9, 6, 4], 5)).parts
    assert any("message" in name for name in parts)


@pytest.mark.parametrize("how", sorted(REPLACEMENTS))
@pytest.mark.parametrize("kind", kinds_of("subspace"))
def test_no_replacement_is_noticed_by_others(kind, how):
    """Every replacement, without drawing: as rows come, with 4 tasks of 3 to 9 rows and 3 features."""
    setup, table, before = as_rows_come(kind)
    after = setup.trace(replace_task(table, kind, "east", how, 5), before)
    assert not differences(before, after, TASKS.index("east"))


@cache
def as_rows_come(kind):
    """What all replacements are compared with, traced once."""
    setup, table = Setup("subspace", kind, "task", options={"scaling": "none"}), raw_table(kind, [3, 9, 6, 4], 5)
    return setup, table, setup.trace(table)


@pytest.mark.parametrize(("method", "kind"), list(zip(NEURAL, ["regression", "classification"] * len(NEURAL))))
def test_replacing_a_client_moves_no_bit_of_another(method, kind):
    """More rows than anybody else: whatever is padded to the largest client would show. Before, all are of one compiled width."""
    holds(method, kind, [5, 8, 6, 7], 3, "none", "north", "more rows")


@pytest.mark.audit
@pytest.mark.parametrize(("method", "kind"), CASES)
@long
@given(**DRAWN)
def test_replacing_a_task_moves_no_bit_of_another_long(method, kind, sizes, seed, scaling, name, how):
    holds(method, kind, sizes, seed, scaling, name, how)


@pytest.mark.audit
@pytest.mark.parametrize("method", NEURAL)
@few
@given(**{**DRAWN, "kind": st.sampled_from(["regression", "classification"])})
def test_replacing_a_client_moves_no_bit_of_another_long(method, kind, sizes, seed, scaling, name, how):
    holds(method, kind, sizes, seed, scaling, name, how)
